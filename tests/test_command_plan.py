"""``repro plan`` as a user meets it."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from repro.cli import main
from repro.core.errors import UsageError
from repro.core.units import format_bytes
from repro.data.sources import hub

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 172,
    "vocab_size": 128,
    "max_position_embeddings": 256,
}


def planned(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["plan", "--json", *arguments]) == 0
    plan: dict[str, Any] = json.loads(capsys.readouterr().out)
    return plan


def by_method(plan: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["method"]: row for row in plan["methods"]}


def test_one_model_by_every_method(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, "--budget", "16GB", "--model", "llama-2-7b")
    rows = by_method(plan)
    assert plan["parameters"] == 6_738_415_616
    assert rows["mezo"]["fits"]
    assert rows["mezo"]["basis"] == "formula"
    assert not rows["bp-sgd"]["fits"]
    for row in rows.values():
        assert row["needed_bytes"] + row["spare_bytes"] == 16_000_000_000
        assert row["formula"]["total"] == row["needed_bytes"]
        assert row["simulation"] is None
    assert rows["mezo"]["paper_bytes"] == 14_365_491_200
    assert rows["mezo"]["longest_context"] == plan["positions"] == 4096


def test_the_readme_shows_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    command = (
        "plan --budget 16GB --model llama-2-7b --method bp-adam lora-checkpoint elasticzo mezo"
    )
    assert main(command.split()) == 0
    readme = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    shown = f"$ repro {command}\n{capsys.readouterr().out}"
    assert f"```\n{shown}```\n" in readme


def test_a_model_without_sdpa_uses_eager_attention(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = planned(capsys, "--budget", "16GB", "--model", "gemma2-2b")
    assert found["setting"]["attention"] == "eager"
    assert found["notes"] == ["the model has no sdpa attention: eager instead"]
    eager = planned(capsys, "--budget", "16GB", "--model", "gemma2-2b", "--attention", "eager")
    assert (eager["notes"], eager["methods"]) == ([], found["methods"])
    asked = ["plan", "--budget", "16GB", "--model", "gemma2-2b", "--attention", "sdpa"]
    for more in ([], ["--html", str(tmp_path / "plan.html")]):
        assert main([*asked, *more]) == UsageError.exit_code
        assert "gemma2-2b has none; leave --attention out" in capsys.readouterr().err
    assert main(["plan", "--budget", "16GB", "--family", "gemma2"]) == 0
    assert "gemma2: eager attention, because its class has no SDPA." in capsys.readouterr().out


def test_shared_keys_in_float32_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    """A GPU stores their scores: 22.1 GB were measured where the formula gives 11.7."""
    noted = {
        (name, dtype, attention): len(
            planned(
                capsys, "--budget", "16GB", "--model", name, "--dtype", dtype,
                "--attention", attention,
            )["notes"]
        )
        for name in ("smollm2-135m", "gpt2")
        for dtype in ("float32", "bfloat16")
        for attention in ("sdpa", "eager")
    }  # fmt: skip
    assert [key for key, count in noted.items() if count] == [("smollm2-135m", "float32", "sdpa")]


def test_methods_without_sense_say_why(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", "--budget", "16GB", "--model", "llama-2-7b", "--dtype", "4bit"]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    everything = "bp-sgd, bp-adam, checkpoint-sgd, checkpoint-adam"
    assert f"{everything}: 4-bit weights cannot hold a gradient" in text
    assert "mezo: the perturbation eps z is smaller than the spacing of 4-bit weights" in text
    rows = by_method(planned(capsys, *arguments[1:]))
    assert rows["bp-sgd"]["needed_bytes"] is None
    assert not rows["bp-sgd"]["fits"]
    assert rows["lora-checkpoint"]["fits"]


def test_the_largest_model_of_each_family(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, "--budget", "16GB", "--method", "mezo", "bp-adam", "--context", "1024")
    found = {(row["family"], row["method"]): row["model"] for row in plan["choices"]}
    assert found["llama-2", "mezo"] == "llama-2-7b"
    assert found["llama-2", "bp-adam"] is None
    assert found["gpt2", "mezo"] == "gpt2-xl"
    assert main(["plan", "--budget", "16GB", "--family", "llama-2", "--method", "mezo"]) == 0
    text = capsys.readouterr().out
    assert "llama-2" in text
    assert "7b" in text
    assert "pythia" not in text


def test_models_with_few_positions_take_all_of_the_default_context(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["--budget", "1GB", "--family", "gpt2", "--method", "mezo"]
    (default,) = planned(capsys, *arguments)["choices"]
    (told,) = planned(capsys, *arguments, "--context", "1024")["choices"]
    assert default == told
    assert main(["plan", "--budget", "8GB", "--method", "mezo", "--context", "2048"]) == 0
    text = capsys.readouterr().out
    assert "gpt2" not in text
    assert "Models with fewer than 2048 positions are left out." in text


def test_what_a_plan_of_a_multimodal_or_quantised_model_leaves_out_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    text = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 4096, "vocab_size": 32000}
    config = {"model_type": "llava", "text_config": text, "vision_config": {"hidden_size": 8}}
    path.write_text(json.dumps(config))
    found = planned(capsys, "--budget", "16GB", "--model", str(path))
    assert found["notes"] == ["only the text part is planned, without the vision part"]
    assert found["parameters"] == 2 * 32000 * 4096 + 4096 + 2 * (
        4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096
    )
    path.write_text(json.dumps({**text, "quantization_config": {"bits": 4}}))
    (note,) = planned(capsys, "--budget", "16GB", "--model", str(path))["notes"]
    assert "quantised" in note


def test_sizes_that_a_configuration_lacks_are_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama", "num_hidden_layers": 2}')
    arguments = ["--budget", "16GB", "--model", str(tmp_path), "--method", "mezo"]
    (note,) = planned(capsys, *arguments)["notes"]
    assert note.endswith("transformers' are taken: hidden_size = 4096, vocab_size = 32000")


def test_a_context_beyond_the_positions_is_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", "--budget", "24GB", "--model", "llama-2-7b", "--context"]
    assert main([*arguments, "4096"]) == 0
    assert "exceeds" not in capsys.readouterr().out
    assert main([*arguments, "4097"]) == 0
    assert "N = 4097 exceeds the 4096 positions" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["directory", "file"])
def test_a_local_configuration(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, form: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    name = tmp_path if form == "directory" else tmp_path / "config.json"
    plan = planned(capsys, "--budget", "1GB", "--model", str(name))
    block = 4 * 64 * 64 + 3 * 64 * 172 + 2 * 64
    assert plan["parameters"] == 2 * block + 2 * 128 * 64 + 64
    assert plan["setting"]["context"] == 256  # all positions: fewer than the default


def test_a_number_of_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    plan = planned(capsys, "--budget", "16GB", "--params", "7B")
    assert plan["parameters"] == 6_738_415_616


def test_a_name_in_the_hubs_cache(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = "0" * 40
    folder = tmp_path / "models--someone--something"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text(commit)
    (folder / "snapshots" / commit).mkdir(parents=True)
    (folder / "snapshots" / commit / "config.json").write_text(json.dumps(CONFIG))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    plan = planned(capsys, "--budget", "1GB", "--model", "someone/something")
    assert plan["origin"] == "config.json of someone/something"
    assert plan["config"] == CONFIG


def test_a_hub_that_does_not_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(url: str) -> None:
        msg = f"{url} refuses"
        raise OSError(msg)

    monkeypatch.setattr(hub, "_require_reachable", refuse)
    assert main(["plan", "--budget", "1GB", "--model", "someone/something"]) == 1
    error = capsys.readouterr().err
    assert "the configuration of 'someone/something' is not in the local cache of the hub" in error
    assert "give a local config.json, or --params" in error


def test_simulation(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    arguments = ["--budget", "1GB", "--model", str(tmp_path), "--method", "mezo", "--simulate"]
    row = by_method(planned(capsys, *arguments))["mezo"]
    assert row["basis"] == "simulation"
    assert row["needed_bytes"] == row["simulation"]["total_bytes"]
    assert row["formula"]["total"] == pytest.approx(row["needed_bytes"], rel=0.05)
    assert main(["plan", *arguments]) == 0
    assert "from the tensors of a simulated step" in capsys.readouterr().out


MIXTURE = {**CONFIG, "model_type": "mixtral", "num_local_experts": 4}
MIXTURE |= {"num_key_value_heads": 2, "intermediate_size": 160}  # grouped products: of 8


def test_a_mixture_of_experts_says_what_stays_unquantised(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MIXTURE))
    arguments = ["--budget", "20MB", "--model", str(tmp_path), "--method", "mezo-lora"]
    assert main(["plan", "--json", *arguments, "--dtype", "4bit"]) == 0
    captured = capsys.readouterr()
    assert "The formula does not cover model type 'mixtral'" in captured.err
    (row,) = json.loads(captured.out)["methods"]
    experts = 2 * 4 * (3 * 64 * 160 + 64)  # of two blocks, with the router's rows
    assert f"{format_bytes(2 * experts)} of weights stay in bfloat16" in row["warning"]
    assert row["simulation"]["parameters_bytes"] > 2 * experts
    fits = row["largest_batch"]
    for batch, status in ((fits, 0), (fits + 1, 1)):
        assert main(["plan", *arguments, "--dtype", "4bit", "--batch", str(batch)]) == status
    positions = json.loads(captured.out)["setting"]["context"]
    assert positions == MIXTURE["max_position_embeddings"]  # the usual context is longer
    tail = ["--method", "elasticzo", "--tail", "3"]
    assert main(["plan", "--budget", "20MB", "--model", str(tmp_path), *tail]) == 2
    assert "tail = 3: the model has 2 blocks" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "noted"), [("BertForMaskedLM", True), ("BertLMHeadModel", False)]
)
def test_a_configuration_of_another_kind_of_model_is_noted(
    given: str, noted: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes |= {"vocab_size": 64, "intermediate_size": 64, "max_position_embeddings": 32}
    config = {"model_type": "bert", "architectures": [given], **sizes}
    (tmp_path / "config.json").write_text(json.dumps(config))
    arguments = ["--budget", "1GB", "--model", str(tmp_path), "--context", "8", "--method", "mezo"]
    notes = " ".join(planned(capsys, *arguments)["notes"])
    assert ("describes a BertForMaskedLM; planned is a BertLMHeadModel" in notes) == noted


def test_a_method_that_cannot_be_simulated_does_not_end_the_others(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 64}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mamba", **sizes}))
    arguments = ["--budget", "1GB", "--model", str(tmp_path), "--context", "8", "--method"]
    plan = planned(capsys, *arguments, "lora", "mezo")
    rows = by_method(plan)
    assert (
        "cannot be simulated by lora: its code reads a weight" in rows["lora"]["unsupported_reason"]
    )
    assert rows["mezo"]["fits"]
    assert plan["setting"]["attention"] == "eager"
    assert "no sdpa attention: eager instead" in plan["notes"][0]
    assert "longest N" in plan["notes"][1]  # is not searched
    assert (rows["mezo"]["longest_context"], rows["mezo"]["largest_batch"]) == (None, None)
    assert main(["plan", *arguments, "mezo", "--attention", "sdpa"]) == 1
    assert "try --attention eager" in capsys.readouterr().err


def test_too_small_a_budget_names_what_would_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["plan", "--budget", "1GB", "--model", "llama-2-7b"]) == 1
    captured = capsys.readouterr()
    assert "BP, SGD" in captured.out
    assert "nothing fits 1 GB: MeZO needs least memory, 13.7 GB; --budget 13.7GB is" in captured.err
    assert "docs/memory.md" not in captured.err
    assert main(["plan", "--budget", "13.7GB", "--model", "llama-2-7b"]) == 0
    capsys.readouterr()
    long = ["--model", "gpt2", "--batch", "300"]
    assert main(["plan", "--budget", "1GB", *long]) == 1
    captured = capsys.readouterr()
    shown, enough = re.findall(r"least memory, (.*); --budget (\w\S*) is enough", captured.err)[0]
    assert f" {shown} " in captured.out  # as the table has it
    assert main(["plan", "--budget", enough, *long]) == 0
    capsys.readouterr()
    assert main(["plan", "--budget", "1MB", "--json"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["choices"]
    assert "nothing fits 1 MB: MeZO on " in captured.err
    assert "kilobytes to megabytes see docs/memory.md#in-kibibytes" in captured.err
    assert main(["plan", "--budget", "1MB"]) == 1
    assert capsys.readouterr().out == ""  # no table of dashes
    page = tmp_path / "plan.html"
    assert main(["plan", "--budget", "1MB", "--html", str(page)]) == 1
    assert page.is_file()
    assert "nothing fits 1 MB" in capsys.readouterr().err


def test_why_checkpointing_saves_nothing_stands_below_the_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for context, said in (("2048", True), ("4096", False)):
        arguments = ["--budget", "90GB", "--model", "llama-2-7b", "--context", context]
        rows = by_method(planned(capsys, *arguments))
        same = rows["bp-sgd"]["needed_bytes"] == rows["checkpoint-sgd"]["needed_bytes"]
        assert same == said
        assert main(["plan", *arguments]) == 0
        assert ("bp-sgd, bp-adam: checkpointing saves nothing" in capsys.readouterr().out) == said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--budget", "many"], "budget = 'many': must be a size such as 16GB"),
        (["--budget", "0"], "budget = '0': must be at least 1"),
        (["--budget", "1e400GB"], "budget = '1e400GB': must be at least 1 and finite"),
        (["--context", "0"], "context = 0"),
        (["--batch", "-1"], "batch = -1"),
        (["--rank", "0"], "rank = 0"),
        (["--method", "mezo", "bp-sgd", "--rank", "8"], "--rank belongs to lora, "),
        (["--method", "elasticzo", "--adapters", "activations"], "--adapters belongs to lora, "),
        (["--method", "lora", "--tail", "1"], "--tail belongs to elasticzo;"),
        (["--tail", "-1"], "tail = -1: must be a whole number of at least 0"),
        (["--dtype", "fp7"], "fp7"),
        (["--method", "guess"], "guess"),
        (["--params", "huge"], "params = 'huge': must be a count such as 7B"),
        (["--params", "4M"], "params = '4M': a Llama of one block has 8,390,016"),
        (["--model", "gpt2", "--tail", "13"], "tail = 13: the model has 12 blocks"),
        (["--model", "gpt2", "--params", "7B"], "not allowed with"),
        (["--model", "gpt2", "--context", "2048"], "position embedding ends at 1024"),
        (["--simulate"], "--simulate needs a model"),
        (["--model", ""], "model = '': must be a name"),
        (["--dtype", "4bit", "--method", "mezo"], "rounds to zero; perturb adapters"),
        (
            ["--dtype", "4bit", "--method", "mezo", "--model", "gpt2"],
            "no requested method can be planned",
        ),
        (["--context", "1000000"], "context N = 1000000: the models of smollm2, gpt2"),
    ],
)
def test_wrong_options_are_usage_errors(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    try:
        status = main(["plan", "--budget", "16GB", *arguments])
    except SystemExit as stopped:
        status = stopped.code  # type: ignore[assignment]
    assert status == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        ("{", 2, "not JSON"),
        ("[]", 2, "no model_type in it"),
        (
            json.dumps({**CONFIG, "hidden_size": 255, "head_dim": 63}),
            2,
            "4 heads do not divide the hidden size 255",
        ),
        (json.dumps({**CONFIG, "tie_word_embeddings": "no"}), 2, "= 'no': must be true or false"),
        (json.dumps({**CONFIG, "attention_bias": 1}), 2, "attention_bias = 1: must be true or"),
        (json.dumps({**CONFIG, "num_key_value_heads": 0}), 2, "num_key_value_heads = 0: must be"),
        (json.dumps({**CONFIG, "head_dim": 0}), 2, "head_dim = 0: must be"),
        (None, 1, "cannot read"),
    ],
)
def test_wrong_files(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    content: str | None,
    status: int,
    message: str,
) -> None:
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    assert main(["plan", "--budget", "1GB", "--model", str(tmp_path)]) == status
    assert message in capsys.readouterr().err


def test_a_family_of_too_few_blocks_for_the_tail_has_no_entry(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The models of gemma3 have at most 26 blocks."""
    assert main(["plan", "--budget", "16GB", "--tail", "27"]) == 0
    shown = capsys.readouterr().out
    heads = next(line for line in shown.splitlines() if line.startswith("family")).split()
    gemma = next(line for line in shown.splitlines() if line.startswith("gemma3 ")).split()
    cells = dict(zip(heads, gemma, strict=True))
    assert cells["elasticzo"] == "-"
    assert cells["mezo"] != "-"
    assert "gemma3: no model has 27 blocks for elasticzo" in shown
    assert main(["plan", "--budget", "16GB", "--tail", "27", "--method", "elasticzo"]) == 0
    assert "gemma3: no model has 27 blocks for elasticzo" in capsys.readouterr().out


def test_unknown_names_get_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--budget", "1GB", "--model", "llama-9"]) == 1
    error = capsys.readouterr().err
    assert "no model 'llama-9': give a directory" in error
    assert "or a known model (llama-" in error
    assert main(["plan", "--budget", "1GB", "--model", "./my-model"]) == 1
    assert "no such file: ./my-model" in capsys.readouterr().err
    assert main(["plan", "--budget", "1GB", "--model", "a" * 300]) == 1
    assert "give a directory with a config.json" in capsys.readouterr().err
    assert main(["plan", "--budget", "1GB", "--model", "?"]) == 1
    assert "smollm2-135m, smollm2-360m" in capsys.readouterr().err


def test_the_formula_needs_no_torch() -> None:
    code = (
        "import sys; from repro.cli import main\n"
        "main(['plan', '--budget', '16GB', '--model', 'llama-2-7b'])\n"
        "main(['plan', '--budget', '16GB'])\n"
        "print({'torch', 'transformers', 'pandas', 'matplotlib'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_mistral_without_a_window_is_planned_as_a_llama(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    needed = []
    for name, changes in {
        "llama": {},
        "none": {"model_type": "mistral", "sliding_window": None},
        "some": {"model_type": "mistral", "sliding_window": 64},
    }.items():
        (tmp_path / name).mkdir()
        config = {**CONFIG, "num_key_value_heads": 4, **changes}
        (tmp_path / name / "config.json").write_text(json.dumps(config))
        arguments = ("--budget", "1GB", "--model", str(tmp_path / name), "--context", "256")
        rows = by_method(planned(capsys, *arguments, "--method", "bp-sgd"))
        needed.append(rows["bp-sgd"]["needed_bytes"])
    assert needed[0] == needed[1] != needed[2]


def test_page_of_methods_that_cannot_be_planned_says_why(tmp_path: Path) -> None:
    page = str(tmp_path / "x.html")
    arguments = ["--budget", "16GB", "--model", "llama-2-7b", "--dtype", "4bit", "--html", page]
    assert main(["plan", *arguments, "--method", "mezo"]) == 2
