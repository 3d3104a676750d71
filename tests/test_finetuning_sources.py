"""What a run's names refer to: known when it begins, and refused if it changes before it trains."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from made_up import fine_tuning
from repro.core.errors import ReproError
from repro.finetuning.base_models import TINY
from repro.finetuning.fine_tune import language_training
from repro.finetuning.sources import fingerprint, recorded_sources, sources_of
from repro.measurement.prior_results import PriorResults
from repro.models.tiny import tiny_llama

ROWS = [f"item {n}\t{n % 2}" for n in range(40)]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A whole model in a directory."""
    tiny_llama().model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def task(tmp_path: Path) -> Path:
    """A task file with its rows."""
    write_rows(tmp_path / "train.tsv", ROWS)
    write_rows(tmp_path / "validation.tsv", [f"other {row}" for row in ROWS])
    path = tmp_path / "own.toml"
    path.write_text(
        'template = "{text}"\ntrain = "train.tsv"\nvalidation = "validation.tsv"\n'
        '[answers]\n0 = " No"\n1 = " Yes"\n'
    )
    return path


def write_rows(path: Path, rows: list[str]) -> None:
    path.write_text("\n".join(["text\tlabel", *rows]) + "\n")


def test_other_weights_have_another_fingerprint(saved: Path) -> None:
    before = fingerprint(str(saved))
    assert fingerprint(str(saved)) == before
    (saved / "model.safetensors").write_bytes(b"retrained")
    assert fingerprint(str(saved)) != before
    assert fingerprint(TINY) == fingerprint("smollm2-135m") == ""


def test_a_directory_does_not_hide_a_model_of_the_catalogue(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved.rename(saved.with_name("smollm2-135m"))
    monkeypatch.chdir(saved.parent)
    assert fingerprint("smollm2-135m") == ""  # which is loaded, not the directory


def test_records_of_own_files_tell_which_these_were(task: Path, saved: Path) -> None:
    def recorded(model: str, task: str) -> dict[str, str]:
        return recorded_sources(sources_of(model, task))

    assert recorded(TINY, "yesno-facts") == {}
    before = recorded(TINY, str(task))
    write_rows(task.with_name("train.tsv"), [*ROWS[:-1], "item 39\t0"])
    after = recorded(TINY, str(task))
    assert before["sources"] != after["sources"]
    assert recorded(str(saved), "yesno-facts").keys() == {"sources"}
    # the splits of a few-shot task belong to one line
    assert recorded(str(saved), "sst2-k16") == recorded(str(saved), "yesno-facts")


def test_a_run_whose_rows_have_changed_is_refused(task: Path) -> None:
    sources = sources_of(TINY, str(task))
    sizes: dict[str, Any] = {"tuning_items": 8, "monitored_items": 8, "context": 32}
    run = fine_tuning(dataset=str(task), sources=sources, **sizes)
    language_training(run)
    write_rows(task.with_name("train.tsv"), ROWS[:-2])
    with pytest.raises(ReproError, match=r"prompts of .*own.toml or the weights .* have changed"):
        language_training(run)


def test_a_failure_for_lack_of_memory_is_no_result() -> None:
    settings = {"lr": 1}
    failed: Any = SimpleNamespace(
        kind="run", point={}, seed=0, code=("c" * 40, False),
        metrics={"settings": settings, "out_of_memory": "CUDA"},
    )  # fmt: skip
    assert PriorResults([failed]).metrics("run", {}, 0, settings) is None
    failed.metrics = {"settings": settings, "accuracy": [0.5]}
    assert PriorResults([failed]).metrics("run", {}, 0, settings) is not None
