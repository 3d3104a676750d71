"""Fine-tuning runs: evaluated by the clock, resumed after a kill, replayed from their log."""

import copy
import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from filelock import FileLock
from torch.utils.flop_counter import FlopCounterMode

from made_up import fine_tuning, made
from repro.cli import main
from repro.core.errors import ReproError
from repro.core.names import Dtype
from repro.data.text.tasks import task_of_seed
from repro.finetuning import fine_tune
from repro.finetuning.arms import ARMS, Arm, NoiseName
from repro.finetuning.base_models import load_base
from repro.finetuning.items import load_items
from repro.finetuning.learner import LanguageModelLearner
from repro.finetuning.replay import rebuilt, weights_sha256
from repro.finetuning.run import LanguageModelRun
from repro.measurement import environment
from repro.measurement.records import write_run
from repro.methods.log import StepLog, replay
from repro.methods.mezo import MeZO
from repro.methods.step_info import DivergedError, StepInfo
from repro.models import tiny
from repro.models.pretrained import load_pretrained
from repro.models.tiny import tiny_llama
from repro.training import loop
from repro.training.checkpoint import Checkpoint
from repro.training.store import CheckpointStore
from repro.training.trainer import TrainingTask, train_run

pytestmark = pytest.mark.usefixtures("kept_prompts")

RUN = fine_tuning()


def task(run: LanguageModelRun, directory: Path) -> TrainingTask:
    return TrainingTask(run, CheckpointStore(directory))


STEP = 3 / 32
"""Seconds that a step takes by the tests' clock; a binary fraction, so that sums are exact."""


@pytest.fixture(scope="module", autouse=True)
def _clock() -> Iterator[None]:
    """The loop's clock goes on by ``STEP`` whenever it is read: twice for a step.

    The processor's, by one and a half of that.
    """
    readings, of_processor = count(), count()
    with pytest.MonkeyPatch.context() as patch:
        clock = SimpleNamespace(
            perf_counter=lambda: next(readings) * STEP,
            process_time=lambda: next(of_processor) * STEP * 1.5,
        )
        patch.setattr(loop, "time", clock)
        yield


@pytest.fixture(scope="module")
def mezo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return train_run(task(RUN, tmp_path_factory.mktemp("mezo")))


def test_the_curve_has_a_point_at_equal_times(mezo: dict[str, Any]) -> None:
    """After the first step that ends at or behind a quarter of the time; before any step, too."""
    assert mezo["steps"] == [0, 3, 6, 8, 11]
    assert mezo["seconds"] == [steps * STEP for steps in mezo["steps"]]
    assert mezo["forward_passes"] == [2 * steps for steps in mezo["steps"]]
    assert len(mezo["train_loss"]) == RUN.evaluations
    assert mezo["items"]["final"] == 48
    assert mezo["cpu_seconds"] == [1.5 * seconds for seconds in mezo["seconds"]]
    assert mezo["majority"] == {"monitored": 0.5, "final": 0.5}
    assert mezo["truncated"] == {"training": 0, "final": 0}


def test_flops_and_cut_prompts_are_those_of_the_batches_that_were_drawn(tmp_path: Path) -> None:
    """Prompts of 5 to 5 + 39 tokens, cut at 40, in batches of 16, 32 and 40 columns."""
    rows = [f"{'Alma ' * (n % 40)}lives in {('Rome', 'Oslo')[n % 2]}\t{n % 2}" for n in range(120)]
    for split in ("train", "validation"):
        (tmp_path / f"{split}.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
        rows = [f"Boris {row}" for row in rows]  # the validation rows are no training rows
    path = tmp_path / "where.toml"
    path.write_text(
        'template = "{text} . Yes or"\ntrain = "train.tsv"\nvalidation = "validation.tsv"\n'
        'truncate = "text"\n[answers]\n0 = " Yes"\n1 = " No"\n'
    )
    run = replace(RUN, dataset=str(path), context=40)
    found = train_run(task(run, tmp_path))
    learner, widths, total = _learner(run), set(), [0]
    for batch in _batches(found["steps"][-1], run):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            learner.classifier.loss(batch)
        widths.add(batch.tokens.shape[1])
        total.append(total[-1] + 2 * counter.get_total_flops())
    assert len(widths) > 1
    assert found["flops"] == [total[steps] for steps in found["steps"]]
    sizes = {"tuning": run.tuning_items, "monitored": run.monitored_items, "final": run.final_items}
    items = load_items(run.dataset, tiny_llama().tokenizer, **sizes)
    for which, split in (("training", items.train), ("final", items.validation)):
        whole = [len(split.prompt(int(index), 10_000)) for index in getattr(items, which)]
        assert found["truncated"][which] == sum(length > 40 for length in whole) > 0


def test_backprop_learns_a_batch(tmp_path: Path) -> None:
    learner, (batch,) = _learner(replace(RUN, arm="bp", lr=0.5)), _batches(1)
    losses = [learner.step(batch).loss for _ in range(40)]
    assert losses[-1] < 0.5 * losses[0]
    assert "log" not in train_run(task(replace(RUN, arm="bp", seconds=0.2), tmp_path))


def test_final_weights_are_rebuilt_from_the_record(mezo: dict[str, Any]) -> None:
    recorded = json.loads(json.dumps(mezo))
    model = rebuilt(RUN.as_dict(), recorded).model
    assert weights_sha256(model.parameters()) == mezo["final_sha256"] != mezo["base_sha256"]
    estimates = len(StepLog.unpacked(recorded["log"]).entries)
    assert estimates == mezo["steps"][-1]
    assert len(recorded["log"]["entries"]) < 28 * estimates + 100  # 20 bytes each, as base64


def test_a_rebuilt_model_has_its_own_dropout(
    mezo: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_dropout() -> Any:
        config = real()
        config.attention_dropout = 0.1
        return config

    real = tiny.tiny_config
    monkeypatch.setattr(tiny, "tiny_config", with_dropout)
    model = rebuilt(RUN.as_dict(), json.loads(json.dumps(mezo))).model
    assert model.config.attention_dropout == 0.1


def test_a_record_tells_which_final_items_were_answered_rightly(mezo: dict[str, Any]) -> None:
    model, pretrained = rebuilt(RUN.as_dict(), mezo).model, load_base(RUN.model, "float32")
    task = task_of_seed(RUN.dataset, RUN.seed)
    items = load_items(task, pretrained.tokenizer, tuning=16, monitored=24, final=48)
    answers = torch.from_numpy(items.train.answers.astype(np.int64))
    found = []
    for item in items.final:  # one by one, by the whole model
        prompt = torch.from_numpy(items.validation.prompt(int(item), RUN.context).astype(np.int64))
        with torch.no_grad():
            logits = model(input_ids=prompt[None]).logits[0, -1, answers]
        found.append(bool(logits.argmax() == items.validation.labels[item]))
    packed_bits = np.frombuffer(bytes.fromhex(mezo["final_right"]), np.uint8)
    assert np.unpackbits(packed_bits, count=48).astype(bool).tolist() == found
    assert 0 < sum(found) == 48 * mezo["final_accuracy"] < 48


def test_a_run_of_steps_has_them_whatever_the_clock_says(tmp_path: Path) -> None:
    """Evaluated after equal parts; adapters are drawn again before the log is replayed."""
    run = replace(RUN, arm="mezo_lora", dtype="bfloat16", steps=6, seconds=1e-9, evaluations=3)
    metrics = train_run(task(run, tmp_path))
    assert metrics["steps"] == [0, 2, 4, 6]
    assert metrics["log"]["restore"] == "rounded"  # adapters are float32
    rebuilt(run.as_dict(), metrics)
    with pytest.raises(ReproError, match="final weights: SHA-256 is"):
        rebuilt(run.as_dict() | {"seed": 1}, metrics)


def test_half_precision_is_restored_exactly_and_rebuilt(tmp_path: Path) -> None:
    run = replace(RUN, arm="mezo_5", dtype="bfloat16", seconds=0.5, evaluations=1)
    metrics = train_run(task(run, tmp_path))
    assert metrics["log"]["restore"] == "exact"
    assert metrics["log"]["perturbations"] == 5
    rebuilt(run.as_dict(), metrics)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("arm", "dtype"), [("mezo_1", "bfloat16"), ("mezo_5", "float32"), ("mezo_lora", "bfloat16")]
)
def test_runs_with_fused_noise_are_rebuilt(tmp_path: Path, arm: Arm, dtype: Dtype) -> None:
    run = replace(RUN, arm=arm, dtype=dtype, device="cuda", noise="philox", steps=8, evaluations=2)
    metrics = train_run(task(run, tmp_path))
    assert metrics["log"]["noise"] == "philox"
    assert metrics["steps"] == [0, 4, 8]
    rebuilt(run.as_dict(), metrics)


@pytest.mark.usefixtures("engine")
def test_passes_by_the_engine_change_no_weight(tmp_path: Path) -> None:
    run = replace(RUN, arm="mezo_5", dtype="bfloat16", seconds=0.5, evaluations=1)
    alone, native = (
        train_run(task(replace(run, native_passes=by_engine), tmp_path))
        for by_engine in (False, True)
    )
    assert native["log"] == alone["log"]
    assert native["final_sha256"] == alone["final_sha256"] != alone["base_sha256"]
    rebuilt(run.as_dict(), native)


def test_a_packed_log_of_groups_replays_as_the_log_itself() -> None:
    def parameters() -> list[torch.nn.Parameter]:
        return [torch.nn.Parameter(torch.arange(1.0, 5.0)) for _ in range(2)]

    trained, again = parameters(), parameters()
    groups = [{"params": trained[:1], "weight_decay": 0.1}, {"params": trained[1:], "lr": 1e-3}]
    mezo = MeZO(groups, lr=1e-2, eps=1e-3)
    for _ in range(3):
        mezo.step(lambda: sum((p**2).sum() for p in trained))
    stored = json.loads(json.dumps(mezo.log.packed()))
    replay(StepLog.unpacked(stored), again)
    assert all(torch.equal(a, b) for a, b in zip(trained, again, strict=True))
    assert not torch.equal(trained[0], parameters()[0])
    with pytest.raises(ReproError, match="not a log of zeroth-order steps"):
        StepLog.unpacked(stored | {"groups": [[1, 1e-3]]})


def test_another_log_or_base_model_is_told(mezo: dict[str, Any]) -> None:
    shorter = StepLog.unpacked(mezo["log"])
    del shorter.data[-20:]
    with pytest.raises(ReproError, match="final weights: SHA-256 is"):
        rebuilt(RUN.as_dict(), mezo | {"log": shorter.packed()})
    with pytest.raises(ReproError, match=r"base model: .* weights that .tiny-llama. names"):
        rebuilt(RUN.as_dict(), mezo | {"base_sha256": "0" * 64})
    shorter.data.append(0)  # no whole estimate
    for damaged in (
        *({"entries": entries} for entries in ("", "AAAA", "%")),
        shorter.packed(),
        {"perturbations": 0},
    ):
        with pytest.raises(ReproError, match="not a log of zeroth-order steps"):
            StepLog.unpacked(mezo["log"] | damaged)


@pytest.mark.parametrize("arm", [arm for arm in ARMS if arm != "bp_checkpoint"])
def test_a_state_goes_on_as_if_the_run_had_never_stopped(arm: Arm) -> None:
    run = replace(RUN, arm=arm, lr=1e-3)
    batches = _batches(12)
    whole, first, second = (_learner(run) for _ in range(3))
    losses = [whole.step(batch).loss for batch in batches]
    for batch in batches[:5]:
        first.step(batch)
    state = copy.deepcopy(first.state_dict())
    assert ("parameters" in state) == (not arm.startswith("mezo"))  # MeZO's has no weights
    second.load_state_dict(state)
    assert [second.step(batch).loss for batch in batches[5:]] == losses[5:]
    assert _weights(second) == _weights(whole)


@pytest.mark.parametrize("arm", ["mezo_1", "bp"])
def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(
    arm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = replace(RUN, arm=arm)
    whole = train_run(task(run, tmp_path / "whole"))
    given, steps, step = task(run, tmp_path / "stopped"), count(1), LanguageModelLearner.step

    def stopped(learner: LanguageModelLearner, batch: Any) -> StepInfo:
        if next(steps) == 8:  # behind the second evaluation and one step more
            raise KeyboardInterrupt
        return step(learner, batch)

    monkeypatch.setattr(LanguageModelLearner, "step", stopped)
    with pytest.raises(KeyboardInterrupt):
        train_run(given)
    assert _kept(checkpoint_of(given)) == whole["seconds"][:3]
    assert train_run(given) == whole
    assert next(steps) == 8 + (11 - 6) + 1  # two were made again


def test_where_saving_is_cheap_no_step_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock goes on by steps alone, so that a save takes no time."""
    made: list[None] = []
    clock = SimpleNamespace(
        perf_counter=lambda: len(made) * STEP, process_time=lambda: len(made) * STEP
    )
    monkeypatch.setattr(loop, "time", clock)
    step, stops = LanguageModelLearner.step, iter([5])

    def stopped(learner: LanguageModelLearner, batch: Any) -> StepInfo:
        if len(made) == 5 and next(stops, None):
            raise KeyboardInterrupt
        made.append(None)
        return step(learner, batch)

    monkeypatch.setattr(LanguageModelLearner, "step", stopped)
    given = task(replace(RUN, seconds=8 * STEP, evaluations=1), tmp_path)
    with pytest.raises(KeyboardInterrupt):
        train_run(given)
    assert train_run(given)["steps"] == [0, 8]
    assert len(made) == 8


def test_a_run_that_diverges_ends_with_the_reason(tmp_path: Path) -> None:
    metrics = train_run(task(replace(RUN, arm="bp", lr=1e30), tmp_path))
    assert "not finite" in metrics["divergence"] or "nan" in metrics["divergence"]
    assert not {"final_accuracy", "final_sha256"} & metrics.keys()


def test_a_mezo_run_that_diverges_keeps_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps, step = count(1), LanguageModelLearner.step

    def diverging(learner: LanguageModelLearner, batch: Any) -> StepInfo:
        if next(steps) == 4:
            msg = "the loss is nan"
            raise DivergedError(msg)
        return step(learner, batch)

    monkeypatch.setattr(LanguageModelLearner, "step", diverging)
    metrics = train_run(task(RUN, tmp_path))
    assert metrics["divergence"] == "step 4: the loss is nan"
    assert StepLog.unpacked(metrics["log"]).steps == 3
    assert "base_sha256" in metrics


def test_a_state_before_the_first_step_is_gone_on_from(tmp_path: Path) -> None:
    """Only tensors and plain values are loaded: an empty log once was neither."""
    learner, checkpoint = _learner(RUN), Checkpoint(tmp_path / "state.pt")
    checkpoint.save(learner.state_dict())
    state = checkpoint.load()
    assert state is not None
    learner.load_state_dict(state)
    assert learner.log is not None
    assert learner.log.steps == 0


def test_another_base_model_is_not_gone_on_from() -> None:
    runs = [replace(RUN, sources=base) for base in ("", "a", "b")]
    assert len({CheckpointStore(Path()).checkpoint(run) for run in runs}) == 3
    assert len({json.dumps(run.as_dict()) for run in runs}) == 1  # records need not tell them apart


@pytest.mark.parametrize(
    ("name", "matters"), [("finetuning/learner.py", True), ("site/x.py", False)]
)
def test_a_state_of_other_code_is_not_resumed(
    name: str, matters: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "repro" / name
    path.parent.mkdir(parents=True)
    monkeypatch.setattr(environment, "SOURCE", tmp_path / "repro")
    keys = []
    try:
        for text in ("before", "after"):
            path.write_text(text)
            environment.source_sha256.cache_clear()
            keys.append(RUN.key())
    finally:
        environment.source_sha256.cache_clear()
    assert (keys[0] != keys[1]) == matters


def test_two_processes_do_not_train_one_run(tmp_path: Path) -> None:
    given = task(RUN, tmp_path)
    with (
        FileLock(checkpoint_of(given).path.with_suffix(".lock")),
        pytest.raises(ReproError, match="seed 0: another process trains this run; wait for it"),
    ):
        train_run(given)


def test_a_grid_run_is_evaluated_once_on_held_out_training_items(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, evaluated = replace(RUN, tuning=True, seconds=0.3), list[Any]()
    evaluate = LanguageModelLearner.evaluate

    def seen(learner: LanguageModelLearner, batch: Any) -> Any:
        evaluated.extend(batch.tokens[row, : last + 1] for row, last in enumerate(batch.last))
        return evaluate(learner, batch)

    monkeypatch.setattr(LanguageModelLearner, "evaluate", seen)
    metrics = train_run(task(run, tmp_path))
    assert len(metrics["accuracy"]) == 1
    assert "flops" not in metrics  # nobody counted them
    items = _items(run, tiny_llama().tokenizer)
    held_out = [list(items.train.prompt(int(i), run.context)) for i in items.tuning]
    assert len(held_out) == 16
    assert sorted(tokens.tolist() for tokens in evaluated) == sorted(held_out)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (torch.OutOfMemoryError("CUDA out of memory.\n Tried 2 GiB"), "memory. Tried 2 GiB"),
        (RuntimeError("[..] DefaultCPUAllocator: can't allocate memory: 9 B"), "memory: 9 B"),
        (RuntimeError("mat1 and mat2 have other shapes"), None),
    ],
)
def test_too_little_memory_is_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: RuntimeError, said: str | None
) -> None:
    def full(*_: object) -> None:
        raise error

    monkeypatch.setattr(LanguageModelLearner, "step", full)
    if said is None:
        with pytest.raises(RuntimeError, match="other shapes"):
            train_run(task(RUN, tmp_path))
        return
    (found,) = train_run(task(RUN, tmp_path)).items()
    assert found[0] == "out_of_memory"
    assert found[1].endswith(said)


def test_a_final_evaluation_that_is_not_finite_is_a_divergence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverged(*_: object) -> None:
        raise DivergedError("the loss is nan")

    monkeypatch.setattr(fine_tune, "_final", diverged)
    found = train_run(task(RUN, tmp_path))
    assert found["divergence"] == f"after step {found['steps'][-1]}: the loss is nan"
    assert not {"final_accuracy", "final_sha256"} & found.keys()
    assert len(found["accuracy"]) == RUN.evaluations + 1


def _kept(checkpoint: Checkpoint) -> list[float]:
    state = checkpoint.load()
    return [] if state is None else list(state["curve"]["seconds"])


def checkpoint_of(given: TrainingTask) -> Checkpoint:
    return given.store.checkpoint(given.run)


def test_a_hash_is_of_the_bytes_of_parameters_of_any_shape() -> None:
    alone, row = (torch.nn.Parameter(torch.full(shape, 1.5)) for shape in ((), (1,)))
    assert weights_sha256([alone]) == weights_sha256([row])
    assert weights_sha256([alone]) == hashlib.sha256(np.float32(1.5).tobytes()).hexdigest()


def _learner(run: LanguageModelRun) -> LanguageModelLearner:
    model, tokenizer = tiny_llama()
    return LanguageModelLearner(model, _items(run, tokenizer).train.answers, run)


def _items(run: LanguageModelRun, tokenizer: Any) -> Any:
    from repro.finetuning.items import load_items

    return load_items(
        run.dataset, tokenizer, tuning=run.tuning_items, monitored=run.monitored_items
    )


def _batches(count: int, run: LanguageModelRun = RUN) -> list[Any]:
    from repro.finetuning.batches import Sampler, collate
    from repro.training.run import ORDER, derived_seed

    items = _items(run, tiny_llama().tokenizer)
    lengths = items.train.lengths(run.context)
    sampler = Sampler(lengths, items.training, run.batch, derived_seed(run.seed, ORDER))
    return [collate(items.train, sampler.batch(step), run.context) for step in range(count)]


def _weights(learner: LanguageModelLearner) -> str:
    return weights_sha256(learner.model.parameters())


def test_the_command_replays_what_a_file_of_records_holds(
    mezo: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = mezo | {"settings": RUN.as_dict()}, mezo | {"final_sha256": "0" * 64}
    path = _written(tmp_path, [good])
    assert main(["replay", str(path), "--out", str(tmp_path / "models")]) == 0
    assert "11 steps from a log of 220 bytes" in capsys.readouterr().out  # 20 for each
    (directory,) = (tmp_path / "models").iterdir()
    assert directory.name.startswith("yesno-facts-mezo_1-tiny-llama-0-")
    saved = load_pretrained(str(directory)).model
    assert weights_sha256(saved.parameters()) == mezo["final_sha256"]
    path = _written(tmp_path / "bad", [bad | {"settings": RUN.as_dict()}, good])
    assert main(["replay", str(path)]) == 1
    told = capsys.readouterr()
    assert "final weights: SHA-256 is" in told.err
    assert "as recorded" in told.out  # the other run was replayed all the same
    diverged = {key: value for key, value in good.items() if key != "final_sha256"}
    first, other = _written(tmp_path / "first", [good]), _written(tmp_path / "other", [diverged])
    assert main(["replay", str(first), str(other), str(first)]) == 0
    told = capsys.readouterr()
    assert told.out.count("as recorded") == 1
    assert "left out: 1 run" in told.err
    assert main(["replay", str(path), "--seed", "5"]) == 2
    assert main(["replay", str(tmp_path / "none.jsonl")]) == 2
    (tmp_path / "run.json").write_text("{}")
    assert main(["replay", str(tmp_path / "run.json")]) == 2
    assert "a log that StepLog.save wrote" in capsys.readouterr().err


def test_a_run_on_a_gpu_is_not_replayed_without_one(
    mezo: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    here, there = RUN.as_dict(), RUN.as_dict() | {"device": "cuda"}
    path = _written(tmp_path, [mezo | {"settings": settings} for settings in (there, here)])
    assert main(["replay", str(path)]) == 1
    told = capsys.readouterr()
    name, weights = "yesno-facts-mezo_1-tiny-llama", mezo["final_sha256"][:8]
    assert f"{name}-0-{weights}: the run used a GPU" in told.err
    assert f"{name}-1-{weights}: 11 steps" in told.out


def _written(directory: Path, runs: list[dict[str, Any]]) -> Path:
    point = {"arm": RUN.arm, "model": RUN.model}
    return write_run(
        directory,
        [
            made(point, metrics, artifact="mezo_fig4", profile="smoke", seed=seed)
            for seed, metrics in enumerate(runs)
        ],
    )


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("noise", ["engine", "engine-signs"])
def test_a_run_with_the_engines_noise_is_rebuilt_from_its_log(
    noise: NoiseName, tmp_path: Path
) -> None:
    run = replace(RUN, noise=noise, seconds=0.3, evaluations=1)
    metrics = train_run(task(run, tmp_path))
    assert metrics["log"]["noise"] == noise
    model, _ = rebuilt(run.as_dict(), json.loads(json.dumps(metrics)))
    assert weights_sha256(model.parameters()) == metrics["final_sha256"]
