"""The artifact: what it plans, which learning rate it takes, and what is read from its records."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from made_up import HERE, made
from reading import numbers
from repro.artifacts.base import Context, Result
from repro.artifacts.mezo_fig4 import (
    ARTIFACT,
    DAY,
    GPU,
    HOURS,
    PAPER,
    QUICK,
    SMOKE,
    Config,
    tables,
)
from repro.artifacts.mezo_fig4 import controls as controls_module
from repro.artifacts.mezo_fig4 import plan as plan_module
from repro.artifacts.mezo_fig4 import run as run_module
from repro.artifacts.mezo_fig4.controls import Control, zero_shot_controls
from repro.artifacts.mezo_fig4.findings import findings, of_setting
from repro.artifacts.mezo_fig4.points import first_reached, settings, value_at
from repro.artifacts.mezo_fig4.tables import memory as memory_table
from repro.artifacts.shared import subprocesses
from repro.claims.index import CLAIMS
from repro.claims.verdict import verdict
from repro.core.errors import ReproError, UsageError
from repro.execution.local import LocalExecutor
from repro.finetuning.arms import PAPER_ARMS
from repro.finetuning.step_memory import ArmStep
from repro.measurement.prior_results import PriorResults
from repro.measurement.records import Record, together
from repro.measurement.result_cache import ResultCache
from repro.planner.configurations import architecture
from repro.planner.families import find
from repro.training.checkpoint import Checkpoint

pytestmark = pytest.mark.usefixtures("kept_prompts")

SIZES = {
    "small": architecture(find("smollm2-135m").config),  # type: ignore[union-attr]
    "large": architecture(find("smollm2-360m").config),  # type: ignore[union-attr]
}
PLANNED = replace(
    QUICK,
    datasets=("boolq",),
    arms=PAPER_ARMS,
    bp_models=("small",),
    mezo_models=("large", "small", "absent"),
    zero_shot=False,
)


@pytest.fixture
def context() -> Context:
    executor = LocalExecutor(HERE, workers=1)
    return Context(HERE, ResultCache("test", {}), 1, executor, PriorResults())


@pytest.fixture
def too_large() -> set[tuple[str, int]]:
    """Arms and batches for which the device has too little memory."""
    return set()


@pytest.fixture
def measured(
    monkeypatch: pytest.MonkeyPatch, too_large: set[tuple[str, int]]
) -> dict[tuple[str, str], float]:
    """What a step takes by arm and model; everything else of the planning is made up, too."""
    peaks = {
        ("bp", "small"): 1.5e9,
        ("bp_checkpoint", "small"): 1.2e9,
        ("mezo_1", "small"): 0.6e9,
        ("mezo_1", "large"): 1.4e9,
    }

    def account(_: Any, __: Any, tasks: Sequence[Any], *___: Any, **____: Any) -> Iterator[Any]:
        for task in tasks:
            peak = peaks[task.arm, task.model] * task.batch / 8
            if (task.arm, task.batch) in too_large:
                peak = math.nan
            known = {} if math.isnan(peak) else {"measured_peak_bytes": peak}
            yield task, {"simulated_peak_bytes": 1, "planned_bytes": 1.0, **known}

    monkeypatch.setattr(plan_module, "run_in_subprocesses", account)
    reason = {"absent": "gated"}
    monkeypatch.setattr(plan_module, "unobtainable", lambda name: reason.get(name, ""))
    monkeypatch.setattr(plan_module, "load_architecture", SIZES.__getitem__)
    monkeypatch.setattr(plan_module, "_least_context", lambda *_: 20)
    return peaks


def chosen(config: Config, context: Context) -> dict[tuple[str, str], tuple[int, int]]:
    setups = plan_module.plan(config, ["boolq"], context.result_cache).setups
    return {(setup.arm, setup.model): (setup.batch, setup.context) for setup in setups}


def test_a_context_beyond_the_models_positions_is_refused(
    context: Context, measured: dict[tuple[str, str], float]
) -> None:
    assert measured
    with pytest.raises(UsageError, match="N = 9000: small has 8192 positions"):
        plan_module.plan(replace(PLANNED, context=9000), ["boolq"], context.result_cache)


def test_memory_that_is_too_small_at_every_size_is_told(
    context: Context, measured: dict[tuple[str, str], float]
) -> None:
    measured["bp", "small"] = math.nan
    planned = plan_module.plan(PLANNED, ["boolq"], context.result_cache)
    assert [setup.arm for setup in planned.setups] == ["bp_checkpoint", "mezo_1", "mezo_5"]
    (least,) = planned.too_large
    assert (least.arm, least.batch, least.context) == ("bp", 1, 32)
    of_bp = [r.metrics for r in planned.results if r.point.get("arm") == "bp"]
    assert len(of_bp) > 1
    assert {metrics["chosen"] for metrics in of_bp} == {False}
    measured.update(dict.fromkeys(measured, math.nan))
    with pytest.raises(UsageError, match=r"device cpu: .* give smaller"):
        plan_module.plan(PLANNED, ["boolq"], context.result_cache)


def test_an_arm_without_the_memory_for_any_size_is_a_row_and_the_others_go_on(
    context: Context,
    measured: dict[tuple[str, str], float],
    trainer: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    measured["bp", "small"] = math.nan
    trainer(lambda _: {"loss": [0.6], "accuracy": [0.5]})
    results = list(run_module.run(PLANNED, context))
    ends = {r.point["arm"]: r.metrics for r in results if r.kind == "run"}
    said = "BP on small at B = 1, N = 32: out of memory; larger settings are left out"
    assert ends.pop("bp")["out_of_memory"] == said
    assert said in capsys.readouterr().err
    assert [metrics["accuracy"] for metrics in ends.values()] == [[0.5]] * 3


def test_what_set_the_budget_is_recorded_where_bp_is_not_run(
    context: Context, measured: dict[tuple[str, str], float]
) -> None:
    assert measured
    config = replace(PLANNED, budget_bytes=0, arms=("mezo_1",))
    plans = [
        r
        for r in plan_module.plan(config, ["boolq"], context.result_cache).results
        if r.kind == "plan"
    ]
    assert [(r.point["arm"], r.metrics["chosen"]) for r in plans[:1]] == [("bp", False)]
    assert plans[0].metrics["measured_peak_bytes"] == plans[0].metrics["budget_bytes"] == 1.5e9


@pytest.mark.usefixtures("measured")
def test_each_arm_takes_the_largest_model_within_the_budget(context: Context) -> None:
    assert chosen(PLANNED, context) == {
        ("bp", "small"): (8, 64),
        ("bp_checkpoint", "small"): (8, 64),
        ("mezo_1", "large"): (8, 64),
        ("mezo_5", "large"): (8, 64),
    }


def test_what_is_measured_to_exceed_the_budget_is_not_run(
    context: Context, measured: dict[tuple[str, str], float]
) -> None:
    measured["mezo_1", "large"] = 2.1e9  # the formula says 1.5
    planned = plan_module.plan(replace(PLANNED, arms=("mezo_1",)), ["boolq"], context.result_cache)
    assert [(s.arm, s.model) for s in planned.setups] == [("mezo_1", "small")]
    tried = [r for r in planned.results if r.kind == "plan"]
    assert [(r.point["model"], r.metrics["chosen"]) for r in tried] == [
        ("large", False),
        ("small", True),
    ]
    measured["bp", "small"] = 3e9
    assert chosen(replace(PLANNED, arms=("bp",)), context) == {("bp", "small"): (4, 64)}


def test_without_a_budget_bp_sets_it(
    context: Context,
    measured: dict[tuple[str, str], float],
    too_large: set[tuple[str, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = replace(PLANNED, budget_bytes=0)
    assert chosen(config, context)["bp", "small"] == (8, 64)  # the formula says 1.74 GB
    measured["mezo_1", "large"] = 1.51e9
    assert ("mezo_5", "small") in chosen(config, context)
    too_large.add(("bp", 8))  # then every arm may take what the device has, and BP gets less
    monkeypatch.setattr(plan_module, "memory_of", {"cpu": 1.9e9}.__getitem__)
    assert chosen(config, context) == {
        ("bp", "small"): (4, 64),
        ("bp_checkpoint", "small"): (8, 64),
        ("mezo_1", "large"): (8, 64),
        ("mezo_5", "large"): (8, 64),
    }
    rows = [
        r
        for r in plan_module.plan(config, ["boolq"], context.result_cache).results
        if r.kind == "plan"
    ]
    of_bp = [(r.point["batch"], r.metrics["chosen"]) for r in rows if r.point["arm"] == "bp"]
    assert of_bp == [(8, False), (4, True)]
    assert {r.metrics["budget_bytes"] for r in rows} == {1.9e9}


def test_every_model_is_run_where_that_is_asked_for(
    context: Context, measured: dict[tuple[str, str], float]
) -> None:
    config = replace(
        PLANNED, mezo_models=("large", "small"), every_model=True, budget_bytes=0, arms=("mezo_5",)
    )
    assert set(chosen(config, context)) == {("mezo_5", "large"), ("mezo_5", "small")}
    measured["mezo_1", "large"] = math.nan  # out of memory
    planned = plan_module.plan(config, ["boolq"], ResultCache("anew", {}))
    assert [setup.model for setup in planned.setups] == ["small"]
    assert [setup.model for setup in planned.too_large] == ["large"]
    assert [r.metrics["chosen"] for r in planned.results if r.kind == "plan"] == [False, True]
    with pytest.raises(ReproError, match=r"MeZO, n = 5 lacks models, .*:\n  absent: g"):
        plan_module.plan(
            replace(config, mezo_models=("small", "absent")), ["boolq"], context.result_cache
        )


def test_unobtainable_models_are_recorded_or_refused(
    context: Context, measured: dict[tuple[str, str], float]
) -> None:
    assert measured
    results = plan_module.plan(PLANNED, ["boolq"], context.result_cache).results
    assert [(r.point["model"], r.metrics["reason"]) for r in results if r.kind != "plan"] == [
        ("absent", "gated")
    ]
    with pytest.raises(ReproError, match="BP lacks models"):
        plan_module.plan(replace(PLANNED, bp_models=("absent",)), ["boolq"], context.result_cache)


def test_a_budget_that_nothing_keeps_to_is_refused(
    context: Context, measured: dict[tuple[str, str], float]
) -> None:
    with pytest.raises(
        UsageError,
        match=r"budget of 100 MB: too small for BP; give at least 188 MB "
        r"\(--budget-bytes 187500000\.0\), .* small in float32 at B = 1, N = 32",
    ):
        plan_module.plan(replace(PLANNED, budget_bytes=10**8), ["boolq"], context.result_cache)
    # what the formula takes for too small, and is not
    assert chosen(replace(PLANNED, budget_bytes=187_500_000, arms=("bp",)), context) == {
        ("bp", "small"): (1, 32)
    }
    measured["bp", "small"] = 1e12
    with pytest.raises(UsageError, match="give at least 125 GB"):
        plan_module.plan(PLANNED, ["boolq"], context.result_cache)


@pytest.mark.usefixtures("measured")
def test_bp_and_mezo_have_types_of_their_own(context: Context) -> None:
    config = replace(PLANNED, dtype="bfloat16")
    setups = plan_module.plan(config, ["boolq"], context.result_cache).setups
    assert {setup.arm: setup.dtype for setup in setups} == {
        "bp": "float32",
        "bp_checkpoint": "float32",
        "mezo_1": "bfloat16",
        "mezo_5": "bfloat16",
    }


def test_a_context_that_cuts_a_question_is_refused(context: Context) -> None:
    with pytest.raises(
        UsageError, match=r"N = 4: some prompts of .* do not fit; .* give --context \d+"
    ):
        plan_module.plan(replace(SMOKE, context=4), ["yesno-facts"], context.result_cache)


def test_a_model_too_large_for_its_control_is_left_out_of_it(
    context: Context, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def exceeded(*_: object, **options: Any) -> None:
        assert (options["context"], options["batch"]) == (32, 4)
        raise torch.OutOfMemoryError("too\nmuch")

    monkeypatch.setattr(controls_module, "zero_shot", exceeded)
    control = Control("yesno-facts", "tiny-llama", "", "float32", context=32, batch=4)
    metrics = controls_module.evaluate(SMOKE, control)
    assert metrics == {"out_of_memory": "too much"}
    monkeypatch.setattr(subprocesses, "run_isolated", lambda _, tasks, **__: [(tasks[0], metrics)])
    setup = ArmStep("mezo_1", "tiny-llama", "float32", 4, 32, "cpu", 1)
    cache = ResultCache("test", {})
    assert not list(
        zero_shot_controls(SMOKE, {"yesno-facts": {"tiny-llama": ""}}, [setup], cache, context)
    )
    assert "tiny-llama on yesno-facts: zero-shot accuracy left out" in capsys.readouterr().err


def test_another_seed_or_learning_rate_repeats_nothing_else(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []

    def isolated(_: Any, tasks: Sequence[Any], **__: Any) -> Iterator[Any]:
        for task in tasks:
            made.append(getattr(task, "run", task))
            metrics = {"measured_peak_bytes": 1e6, "planned_bytes": 1.0, "loss": [0.5]}
            yield task, metrics | {"simulated_peak_bytes": 1, "accuracy": [0.5]}

    monkeypatch.setattr(subprocesses, "run_isolated", isolated)
    config = replace(SMOKE, arms=("mezo_1",), budget_bytes=10**9)
    first = list(run_module.run(config, context))
    assert Counter(result.kind for result in first) == Counter(
        plan=1, zero_shot=1, grid=len(config.mezo_lrs), run=1
    )
    context.result_cache.clear()  # as at the end of a run
    made.clear()
    rates = (*config.mezo_lrs, 1e-9)
    list(run_module.run(replace(config, seeds=(7,), mezo_lrs=rates), context))
    assert [(run.tuning, run.lr, run.seed) for run in made] == [
        (True, 1e-9, 0),
        (False, config.mezo_lrs[0], 7),
    ]


@pytest.mark.usefixtures("measured")
def test_what_is_recorded_is_taken_from_the_records(context: Context, trainer: Any) -> None:
    trainer(lambda run: {"loss": [run.lr], "accuracy": [0.1 * run.seed]})
    config = replace(PLANNED, arms=("bp", "mezo_1"), seeds=(3, 4))
    first = list(run_module.run(config, context))
    tried: list[Any] = []

    def metrics(run: Any) -> dict[str, Any]:
        tried.append(run)
        return {"loss": [9.0], "accuracy": [0.9]}

    trainer(metrics)
    elsewhere = replace(
        context,
        environment=msgspec.structs.replace(HERE, cpu="another"),
        result_cache=ResultCache("elsewhere", {}),
        prior_results=PriorResults(map(record, first)),
    )
    later = list(run_module.run(replace(config, seeds=(3, 5)), elsewhere))
    lr = {"bp": min(config.bp_lrs), "mezo_1": min(config.mezo_lrs)}
    assert [(run.arm, run.seed, run.lr) for run in tried] == [(a, 5, lr[a]) for a in lr]
    assert [r for r in later if r.seed != 5] == [r for r in first if r.seed != 4]
    assert [r.metrics["accuracy"] for r in later if r.seed == 5] == [[0.9], [0.9]]


Trained = Callable[[Any], dict[str, Any]]


def test_the_lowest_held_out_loss_chooses_and_checkpointing_takes_it_over(
    context: Context, measured: dict[tuple[str, str], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert measured
    bp = dict(zip(QUICK.bp_lrs, (None, 0.60, 0.65), strict=True))
    mezo = dict(zip(QUICK.mezo_lrs, (0.71, 0.69, 0.70), strict=True))
    made: list[Any] = []

    def trained(_: str, runs: Sequence[Any], *__: Any, **___: Any) -> Iterator[Any]:
        for run in runs:
            made.append(run)
            loss = (bp if run.arm == "bp" else mezo).get(run.lr)
            metrics = {"divergence": "step 3"} if loss is None else {"loss": [loss]}
            yield run, metrics | {"accuracy": [0.5]}

    monkeypatch.setattr(run_module, "train_in_subprocesses", trained)
    monkeypatch.setattr(run_module, "sources_of", lambda *_: "")
    monkeypatch.setattr(run_module, "obtainable", lambda _: ["boolq"])
    monkeypatch.setattr(run_module, "require_items", lambda *_, **__: None)
    results = list(run_module.run(replace(PLANNED, seeds=(3, 4)), context))
    grid = [run for run in made if run.tuning]
    assert [(r.arm, r.lr) for r in grid[:3]] == [("bp", lr) for lr in QUICK.bp_lrs]
    assert {run.arm for run in grid} == {"bp", "mezo_1", "mezo_5"}
    assert {run.seconds for run in grid} == {QUICK.seconds * QUICK.grid_share}
    runs = {(run.arm, run.seed): run.lr for run in made if not run.tuning}
    middle = {
        arm: (QUICK.bp_lrs if arm.startswith("bp") else QUICK.mezo_lrs)[1] for arm in PAPER_ARMS
    }
    assert runs == {(arm, seed): middle[arm] for arm in PAPER_ARMS for seed in (3, 4)}
    last = [r for r in results if r.kind == "run"][-1]
    assert last.seed == 4
    assert "seed" not in last.metrics["settings"]
    bp.update(dict.fromkeys(bp))
    results = list(run_module.run(PLANNED, context))
    ends = {r.point["arm"]: r.metrics for r in results if r.kind == "run"}
    assert "none of the 3 learning rates finished" in ends["bp_checkpoint"]["divergence"]
    assert "lr" not in ends["bp"]["settings"]
    assert ends["mezo_5"]["accuracy"] == [0.5]  # the others go on
    mezo.update(dict.fromkeys(mezo))
    with pytest.raises(ReproError, match="none of the 3 learning rates finished"):
        list(run_module.run(PLANNED, context))
    made.clear()
    list(run_module.run(replace(PLANNED, bp_lrs=(0.1,), mezo_lrs=(0.2,)), context))
    rates = {(run.arm, run.lr, run.tuning) for run in made}  # a single rate needs no short run
    assert rates == {(arm, 0.1 if arm.startswith("bp") else 0.2, False) for arm in PAPER_ARMS}


@pytest.fixture
def trainer(
    monkeypatch: pytest.MonkeyPatch,
    in_this_process: None,  # noqa: ARG001 - for its effect
) -> Callable[[Callable[[Any], dict[str, Any]]], None]:
    """Set the metrics of each run; ``train_in_subprocesses`` is the real one."""

    def install(metrics: Callable[[Any], dict[str, Any]]) -> None:
        monkeypatch.setattr(subprocesses, "train_run", lambda task: metrics(task.run))
        monkeypatch.setattr(run_module, "sources_of", lambda *_: "")
        monkeypatch.setattr(run_module, "obtainable", lambda _: ["boolq"])
        monkeypatch.setattr(run_module, "require_items", lambda *_, **__: None)

    return install


@pytest.mark.usefixtures("measured")
def test_a_gpu_too_small_for_one_arm_is_a_row_and_is_tried_again(
    context: Context,
    trainer: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[Any] = []

    def metrics(run: Any) -> dict[str, Any]:
        tried.append(run)
        full = run.arm == "bp"
        return {"out_of_memory": "CUDA"} if full else {"loss": [0.6], "accuracy": [0.5]}

    trainer(metrics)
    config = replace(PLANNED, arms=("bp", "mezo_5"))
    kept: list[bool] = []
    removed = Checkpoint.remove

    def counted(self: Checkpoint) -> None:
        kept.append(False)
        removed(self)

    monkeypatch.setattr(Checkpoint, "remove", counted)
    for _ in range(2):
        tried.clear()
        results = list(run_module.run(config, context))
        ends = {r.point["arm"]: r.metrics for r in results if r.kind == "run"}
        assert ends["bp"]["out_of_memory"] == "BP on small at B = 8, N = 64: CUDA"
        assert ends["mezo_5"]["accuracy"] == [0.5]
        assert [run.lr for run in tried if run.arm == "bp"] == list(config.bp_lrs)
    assert {run.arm for run in tried} == {"bp"}  # what was done stands
    assert len(kept) == 2 * (len(config.mezo_lrs) + 1)  # BP may go on from its checkpoints
    assert "BP on small at B = 8, N = 64: CUDA" in capsys.readouterr().err


def test_an_arm_of_another_size_has_a_learning_rate_of_its_own(
    context: Context, measured: dict[tuple[str, str], float], trainer: Any
) -> None:
    measured["bp", "small"] = 3e9  # so that it is halved; checkpointing is not
    best = {("bp", 4): QUICK.bp_lrs[0], ("bp_checkpoint", 8): QUICK.bp_lrs[1]}
    trainer(
        lambda run: {
            "loss": [0.5 if run.lr == best[run.arm, run.batch] else 0.6],
            "accuracy": [0.5],
        }
    )
    results = list(run_module.run(replace(PLANNED, arms=("bp", "bp_checkpoint")), context))
    runs = {(r.point["arm"], r.point["batch"]): r.metrics for r in results if r.kind == "run"}
    assert {key: metrics["settings"]["lr"] for key, metrics in runs.items()} == best
    grid = [tuple(r.point.items()) for r in results if r.kind == "grid"]
    assert len(set(grid)) == len(grid) == 6


@pytest.mark.usefixtures("measured")
def test_checkpointing_is_tried_where_bp_runs_out_of_memory(context: Context, trainer: Any) -> None:
    def metrics(run: Any) -> dict[str, Any]:
        full = run.arm == "bp"
        return {"out_of_memory": "CUDA"} if full else {"loss": [run.lr], "accuracy": [0.5]}

    trainer(metrics)
    config = replace(PLANNED, arms=("bp_checkpoint", "bp"))
    ends = {r.point["arm"]: r.metrics for r in run_module.run(config, context) if r.kind == "run"}
    assert "out_of_memory" in ends["bp"]
    assert ends["bp_checkpoint"]["accuracy"] == [0.5]
    assert ends["bp_checkpoint"]["settings"]["lr"] == min(config.bp_lrs)


def record(result: Result, profile: str = "hours") -> Record:
    fields = {"kind": result.kind, "seed": result.seed, "profile": profile, "environment": HERE}
    return made(dict(result.point), dict(result.metrics), artifact="mezo_fig4", **fields)


def trained(
    arm: str, accuracy: Sequence[float], *, seed: int = 0, model: str = "small", **point: str
) -> Result:
    times = [10.0 * n for n in range(len(accuracy))]
    curve = {
        "seconds": times,
        "steps": [*range(len(times))],
        "forward_passes": [2 * n for n in range(len(times))],
        "cpu_seconds": [1.5 * time for time in times],
        "flops": [1e9 * n for n in range(len(times))],
        "accuracy": list(accuracy),
        "loss": [0.6 for _ in times],
        "divergence": "",
    }
    end = {
        "final_accuracy": accuracy[-1],
        "final_loss": 0.6,
        "majority": {"monitored": 0.6, "final": 0.62},
        "items": {"monitored": 10_000, "final": 40_000},
    }
    how = {"lr": 1e-3, "seconds": times[-1], "monitored_items": 10_000, "threads": 2}
    where = {
        "setting": "s", "dataset": "boolq", "arm": arm, "model": model, "batch": 8, "context": 64,
        **point,
    }  # fmt: skip
    return Result("run", where, curve | end | {"settings": how}, seed)


def planned(arm: str, peak: float | None, model: str = "small") -> Result:
    point = {"setting": "s", "arm": arm, "model": model, "dtype": "float32", "batch": 8}
    metrics: dict[str, Any] = {
        "parameters": {"small": 3, "large": 4}[model],
        "body_parameters": {"small": 1, "large": 2}[model],
        "published_formula_bytes": 2e9,
        "planned_bytes": 1.7e9,
        "simulated_peak_bytes": 10**9,
        "simulated_effective_layers": 3.0,
        "chosen": True,
        "budget_bytes": 2e9,
    }
    if peak is None:
        metrics["out_of_memory"] = True
    else:
        metrics |= {"measured_peak_bytes": peak, "measured_effective_layers": 4.0}
    return Result("plan", point | {"context": 64}, metrics)


BP = [trained("bp", [0.5, 0.7, 0.6, 0.74], seed=seed) for seed in (0, 1)]
MEZO = [trained("mezo_5", [0.5, 0.52, 0.60, 0.66], seed=seed) for seed in (0, 1)]
GRID = [
    Result(
        "grid",
        {
            "setting": "s",
            "dataset": "boolq",
            "arm": arm,
            "model": "small",
            "batch": 8,
            "context": 64,
            "lr": lr,
        },
        {"loss": [0.6 + lr], "steps": [7]},
        0,
    )
    for arm in ("bp", "mezo_5")
    for lr in (0.01, 0.1)
]
ALL = [record(r) for r in (*BP, *MEZO, *GRID, planned("bp", 1.5e9), planned("mezo_5", None))]


def found(records: Sequence[Record]) -> dict[str, Any]:
    return {finding.claim_id: finding for finding in findings(records)}


def test_every_claim_has_a_finding() -> None:
    assert tuple(found(ALL)) == ARTIFACT.claims
    assert set(found([])) == set(ARTIFACT.claims)


def test_time_to_half_of_the_gain_is_compared() -> None:
    """BP gains 24 points; half of them it has at 62 %, after 6 s; MeZO at 23.3 s."""
    later = found(ALL)["A10"]
    assert later.ours == pytest.approx((20 + 10 / 3) / 6 - 1)
    assert (later.n_seeds, later.interval) == (2, pytest.approx(0, abs=1e-9))
    assert verdict(CLAIMS["A10"], later) == "reproduced"


def test_a_run_that_never_gets_there_counts_as_its_end() -> None:
    slow = trained("mezo_5", [0.5, 0.51, 0.52, 0.53], seed=1)
    later = found([record(r) for r in (*BP, MEZO[0], slow)])["A10"]
    assert later.ours == pytest.approx(((20 + 10 / 3) / 6 + 30 / 6) / 2 - 1)
    assert numbers(later.reason)[-2:] == [1, 2]
    assert later.p_value == 1 / 4  # of two seeds that are both later


def test_runs_that_mostly_never_get_there_give_no_time() -> None:
    """Their delays would be those of the lengths that we chose."""
    slow = [trained("mezo_5", [0.5, 0.51, 0.52, 0.53], seed=seed) for seed in (0, 1)]
    later = found([record(r) for r in (*BP, *slow)])["A10"]
    assert (later.ours, later.n_seeds) == (None, 2)
    assert verdict(CLAIMS["A10"], later) == "undecided"


def test_a_later_run_without_bp_keeps_bps_set_up() -> None:
    """Its plan of BP, which only sets the budget, is not chosen but replaces the earlier one."""
    only_budget = planned("bp", 2e9)
    only_budget = replace(only_budget, metrics={**only_budget.metrics, "chosen": False})
    rejected = planned("mezo_5", 3e9)
    rejected = replace(rejected, metrics={**rejected.metrics, "chosen": False})
    records = [record(r) for r in (*BP, only_budget, rejected)]
    (setting,) = settings(records)
    assert [plan.point["arm"] for plan in setting.plans] == ["bp"]
    assert memory_table(records)["chosen"].tolist() == ["yes", "no"]


def _diverged(run: Result) -> Result:
    ended = {"seconds": [0, 2], "accuracy": [0.5, 0.5], "divergence": "inf"}
    return replace(run, metrics={**run.metrics, **ended})


def _flat(run: Result) -> Result:
    return replace(run, metrics={**run.metrics, "accuracy": [0.6] * len(run.metrics["accuracy"])})


def _elsewhere(run: Record) -> Record:
    return msgspec.structs.replace(run, environment=msgspec.structs.replace(HERE, cpu="another"))


@pytest.mark.parametrize(
    "runs",
    [
        [record(r) for r in (BP[0], MEZO[0])],
        [record(r) for r in (*BP, MEZO[0], _diverged(MEZO[1]))],
        [*(record(r) for r in (*BP, MEZO[0])), _elsewhere(record(MEZO[1]))],
        [record(r) for r in (BP[0], _flat(BP[1]), *MEZO)],
    ],
    ids=["one seed", "MeZO diverged in the other", "timed on two machines", "BP gained nothing"],
)
def test_one_seed_settles_no_time(runs: list[Record]) -> None:
    later = found(runs)["A10"]
    assert (later.ours, later.n_seeds) == (pytest.approx(52 / 18), 1)
    assert verdict(CLAIMS["A10"], later) == "undecided"


def test_an_order_of_one_seed_does_not_hide_that_of_several() -> None:
    one = [replace(r, point={**r.point, "setting": "g"}) for r in (BP[0], MEZO[0])]
    of_both = found([*ALL, *(record(r, "gpu") for r in one)])
    assert (of_both["A10"].profile, of_both["A10"].n_seeds) == ("hours", 2)
    assert (of_both["A9"].profile, of_both["A9"].n_seeds) == ("gpu", 1)


def test_each_arm_starts_from_its_own_height() -> None:
    """A better base model that never moves does not get there, though it starts above BP's half."""
    higher = [trained("mezo_5", [0.7, 0.7, 0.7, 0.7], seed=s, model="large") for s in (0, 1)]
    later = found([record(r) for r in (*BP, *higher)])["A10"]
    assert later.ours is None
    assert 70.0 in numbers(later.reason)  # where MeZO starts, in %


def test_to_answer_always_alike_is_no_convergence() -> None:
    alike = [trained("bp", [0.5, 0.6, 0.62], seed=seed) for seed in (0, 1)]
    later = found([record(r) for r in (*alike, *MEZO)])["A10"]
    assert (later.ours, later.n_seeds) == (None, 2)
    assert 0.0 in numbers(later.reason)  # points between its end and the majority answer
    assert verdict(CLAIMS["A10"], later) == "undecided"


def test_times_of_two_machines_are_not_compared() -> None:
    other = msgspec.structs.replace(HERE, cpu="another")
    there = [msgspec.structs.replace(record(r), environment=other) for r in MEZO]
    later = found([*(record(r) for r in BP), *there])["A10"]
    assert verdict(CLAIMS["A10"], later) == "not run"
    assert all(machine in later.reason for machine in ("another", HERE.cpu))


def test_a_machine_of_another_speed_does_not_change_a_delay() -> None:
    """Seed 1 by both methods on a machine three times as fast: the same multiple of BP's time."""
    faster = msgspec.structs.replace(HERE, cpu="another")

    def sped(run: Result) -> Record:
        seconds = [at / 3 for at in run.metrics["seconds"]]
        run = replace(run, metrics={**run.metrics, "seconds": seconds})
        return msgspec.structs.replace(record(run), environment=faster)

    pair = [record(BP[0]), sped(BP[1]), record(MEZO[0]), sped(MEZO[1])]
    later = found(pair)["A10"]
    assert (later.ours, later.n_seeds) == (pytest.approx((20 + 10 / 3) / 6 - 1), 2)
    assert later.interval == pytest.approx(0, abs=1e-9)


def test_a_part_of_a_high_profile_does_not_hide_a_whole_lower_one() -> None:
    alone = [replace(r, point={**r.point, "setting": "g"}) for r in BP]
    of_both = found([*ALL, *(record(r, "gpu") for r in alone)])
    assert (of_both["A10"].profile, of_both["A9"].profile) == ("hours", "hours")
    assert of_both["A9-bp"].profile == "gpu"


def test_a_gain_within_the_noise_of_the_subset_settles_nothing() -> None:
    flat = [trained("bp", [0.5, 0.505], seed=0), trained("mezo_5", [0.5, 0.505], seed=0)]
    later = found([record(r) for r in flat])["A10"]
    assert later.ours is None


PLANS = [planned("bp", 1.5e9), planned("mezo_5", 0.6e9), planned("mezo_5", 1.4e9, "large")]
LARGER = [trained("mezo_5", [0.5, 0.8], seed=seed, model="large") for seed in (0, 1)]


def test_the_order_is_put_to_the_test_only_by_a_larger_model() -> None:
    assert found(ALL)["A9-order"].ours is None
    in_its_embedding = {"parameters": 9, "body_parameters": 1}  # as Gemma 3 270M by SmolLM2-135M
    smaller = [
        replace(r, metrics=r.metrics | in_its_embedding) if r.point["model"] == "large" else r
        for r in PLANS
    ]
    gap = found([record(r) for r in (*BP, *LARGER, *smaller)])["A9-order"]
    assert gap.ours is None
    gap = found([record(r) for r in (*BP, *LARGER, *PLANS)])["A9-order"]
    assert gap.ours == pytest.approx(6)
    # two standard errors of 74 % and of 80 % on 40,000 questions
    assert gap.interval == pytest.approx(2 * ((0.74 * 0.26 + 0.8 * 0.2) / 40_000) ** 0.5 * 100)
    assert gap.p_value == 1 / 4
    assert verdict(CLAIMS["A9-order"], gap) == "reproduced"
    shorter = found([record(r, "boolq") for r in (*BP, *LARGER, *PLANS)])["A9-order"]
    assert verdict(CLAIMS["A9-order"], shorter) == "reproduced"


def test_one_seed_of_another_arm_does_not_displace_several() -> None:
    lucky = trained("mezo_1", [0.5, 0.99], seed=0, model="large")
    plan = planned("mezo_1", 1.4e9, "large")
    gap = found([record(r) for r in (*BP, *LARGER, lucky, *PLANS, plan)])["A9-order"]
    assert (gap.n_seeds, gap.ours) == (2, pytest.approx(6))


def test_the_choice_of_questions_shifts_only_answers_that_differ() -> None:
    """As in McNemar's test: of ten questions, three are right by MeZO alone and one by BP alone."""
    answers = {"bp": "0001111110", "mezo_5": "1110111110"}

    def answered(run: Result) -> Result:
        bits = f"{answers[run.point['arm']]:0<16}"  # to whole bytes
        right = {"final_right": f"{int(bits, 2):04x}", "final_accuracy": bits.count("1") / 10}
        items = {"items": {"monitored": 10_000, "final": 10}}
        return replace(run, metrics=run.metrics | right | items)

    runs = [answered(run) for run in (*BP, *LARGER)]
    gap = found([record(r) for r in (*runs, *PLANS)])["A9-order"]
    assert gap.ours == pytest.approx(20)
    # sample variance of (1, 1, 1, -1, 0, 0, 0, 0, 0, 0) is (4 - 4/10) / 9
    assert gap.interval == pytest.approx(2 * (0.4 / 10) ** 0.5 * 100)


@pytest.mark.parametrize(
    ("dataset", "name"), [("sst2", "A9-order-sst2"), ("sst2-k16", "A9-order-fewshot")]
)
def test_the_order_on_each_task_is_a_statement_of_its_own(dataset: str, name: str) -> None:
    other = [
        replace(r, point={**r.point, "dataset": dataset, "setting": "t"}) for r in (*BP, *LARGER)
    ]
    budgets = [replace(r, point={**r.point, "setting": "t"}) for r in PLANS]
    alone = [record(r, "fewshot") for r in (*other, *budgets)]
    one = found(alone)
    assert one[name].ours == pytest.approx(6)
    assert one["A9-order"].ours is None
    both = found([*alone, *(record(r) for r in (*BP, *LARGER, *PLANS))])
    assert (both["A9-order"].profile, both[name].profile) == ("hours", "fewshot")


def test_only_runs_on_boolq_speak_for_the_paper() -> None:
    point = {"dataset": "rte", "setting": "r"}
    rte = [replace(r, point={**r.point, **point}) for r in (*BP, *LARGER)]
    plans = [replace(r, point={**r.point, "setting": "r"}) for r in PLANS]
    higher = [record(r, "gpu") for r in (*rte, *plans)]
    assert {finding.ours for finding in found(higher).values()} == {None}
    (setting,) = settings(higher)
    assert any(finding.ours for finding in of_setting(setting))  # the notebook shows them
    both = found([*higher, *(record(r) for r in (*BP, *LARGER, *PLANS))])
    assert both["A9-order"].profile == both["A10"].profile == "hours"


def test_the_choice_of_questions_counts_where_seeds_are_equal() -> None:
    """Two standard errors of 74 % on 10,000 questions are 0.88 points."""
    best = found(ALL)["A9-bp"]
    assert best.interval == pytest.approx(200 * (0.74 * 0.26 / 1e4) ** 0.5)
    assert best.prediction == pytest.approx(best.interval, rel=0.03)


def test_a_single_split_of_the_few_shot_task_is_few_shot_too() -> None:
    point = {"dataset": "sst2-k16-13", "setting": "few"}
    few = [replace(r, point={**r.point, **point}) for r in (*BP, *LARGER)]
    plans = [replace(r, point={**r.point, "setting": "few"}) for r in PLANS]
    one = found([record(r, "fewshot") for r in (*few, *plans)])
    assert one["A9-order"].ours is None
    assert one["A9-order-fewshot"].ours == pytest.approx(6)
    own = [replace(r, point={**r.point, "dataset": "sst2-k16-mine.toml"}) for r in few]
    assert found([record(r, "fewshot") for r in (*own, *plans)])["A9-order-fewshot"].ours is None


def test_models_that_no_arm_uses_are_not_fetched(
    context: Context, measured: dict[tuple[str, str], float]
) -> None:
    assert measured
    config = replace(PLANNED, arms=("mezo_1",), bp_models=("absent",), mezo_models=("small",))
    results = plan_module.plan(config, ["boolq"], context.result_cache).results
    assert {result.kind for result in results} == {"plan"}
    with pytest.raises(ReproError, match="BP lacks models"):  # whose step sets the budget
        plan_module.plan(replace(config, budget_bytes=0), ["boolq"], context.result_cache)


def test_a_task_has_one_name_in_records() -> None:
    assert Config(datasets=("sst2_k16", "yesno_facts")).datasets == ("sst2-k16", "yesno-facts")
    with pytest.raises(UsageError, match="each value may be given only once"):
        Config(datasets=("sst2_k16", "sst2-k16"))


def test_the_order_uses_only_seeds_of_both_methods() -> None:
    more = [trained("bp", [0.5, end], seed=seed) for seed, end in ((2, 0.1), (3, 0.2))]
    pair = found([record(r) for r in (*BP, *LARGER, *PLANS)])["A9-order"]
    gap = found([record(r) for r in (*BP, *more, *LARGER, *PLANS)])["A9-order"]
    assert (gap.ours, gap.interval, gap.bootstrap) == (pair.ours, pair.interval, pair.bootstrap)


def test_an_order_at_equal_memory_takes_a_limit_to_the_memory() -> None:
    unlimited = [
        replace(r, metrics={n: v for n, v in r.metrics.items() if n != "budget_bytes"})
        for r in PLANS
    ]
    gap = found([record(r, "gpu") for r in (*BP, *LARGER, *unlimited)])["A9-order"]
    assert gap.ours is None
    assert 1.5 in numbers(gap.reason)  # GB of BP on the smaller model


def test_the_larger_model_stands_for_mezo_if_it_is_worse_too() -> None:
    worse = [trained("mezo_1", [0.5, 0.6], seed=seed, model="large") for seed in (0, 1)]
    gap = found([record(r) for r in (*BP, *MEZO, *worse, *PLANS)])["A9-order"]
    assert gap.ours == pytest.approx(60 - 74)
    assert "MeZO, n = 1, large" in gap.reason


def test_the_order_is_of_what_runs_end_with() -> None:
    """The highest of several evaluations on few questions is no end: MeZO's 90 % here, then 60."""
    larger = [trained("mezo_5", [0.5, 0.9, 0.6], seed=seed, model="large") for seed in (0, 1)]
    gap = found([record(r) for r in (*BP, *larger, *PLANS)])["A9-order"]
    assert gap.ours == pytest.approx(60 - 74)
    assert gap.bootstrap == pytest.approx((-14, -14))
    assert gap.p_value == 1  # of two seeds, which both have the reverse
    assert verdict(CLAIMS["A9-order"], gap) == "undecided"  # the paper leaves settings open
    diverged = [
        replace(r, metrics={n: v for n, v in r.metrics.items() if not n.startswith("final")})
        for r in larger
    ]
    gap = found([record(r) for r in (*BP, *larger[:1], *diverged[1:], *PLANS)])["A9-order"]
    assert (gap.ours, gap.n_seeds) == (pytest.approx(-14), 1)
    assert (gap.interval, gap.bootstrap, gap.p_value) == (None, None, None)
    assert verdict(CLAIMS["A9-order"], gap) == "undecided"
    gap = found([record(r) for r in (*BP, *diverged, *PLANS)])["A9-order"]
    assert (gap.ours, gap.n_seeds) == (None, 0)
    assert verdict(CLAIMS["A9-order"], gap) == "undecided"


def test_accuracies_have_a_verdict_at_the_published_setting_only() -> None:
    ours = found(ALL)
    assert ours["A9"].ours == pytest.approx(66)
    assert ours["A9-bp"].ours == pytest.approx(74)
    assert verdict(CLAIMS["A9"], ours["A9"]) == "not run"
    published = found([msgspec.structs.replace(r, profile="paper") for r in ALL])
    assert verdict(CLAIMS["A9"], published["A9"]) != "not run"


def test_the_stand_in_says_nothing_of_boolq() -> None:
    generated = [
        msgspec.structs.replace(r, point=r.point | {"dataset": "yesno-facts"}) for r in ALL
    ]
    values = {claim: finding.ours for claim, finding in found(generated).items()}
    assert set(values.values()) == {None}


def test_the_highest_profile_is_read_and_others_stand_beside_it() -> None:
    quick = [
        record(replace(r, point={**r.point, "setting": "q"}), "quick") for r in (*BP[:1], *MEZO[:1])
    ]
    both = settings([*quick, *ALL])
    assert [setting.profile for setting in both] == ["hours", "quick"]
    assert found([*quick, *ALL])["A9"].n_seeds == 2
    assert set(tables.verdicts([*quick, *ALL])["profile"]) == {"hours", "quick"}


def test_seeds_of_other_settings_are_left_out() -> None:
    other = trained("bp", [0.5, 0.9], seed=7)
    changed = replace(other, metrics={**other.metrics, "settings": {"lr": 1.0}})
    newer = [msgspec.structs.replace(r, utc="2026-02-01T00:00:00Z") for r in ALL]
    (setting,) = settings([record(changed), *newer])
    assert [r.seed for r in setting.lines[0].records] == [0, 1]
    bp = found([record(changed), *newer])["A9-bp"]
    assert (bp.ours, bp.n_seeds) == (pytest.approx(74), 2)
    assert 1 in numbers(bp.reason)  # seed left out


def test_of_set_ups_chosen_by_several_runs_the_newest_stands() -> None:
    earlier = planned("bp", 1.9e9)
    earlier = replace(earlier, point={**earlier.point, "batch": 4})
    newer = [msgspec.structs.replace(r, utc="2026-02-01T00:00:00Z") for r in ALL]
    for records in ([record(earlier), *newer], [*newer, record(earlier)]):
        (setting,) = settings(records)
        assert [(r.point["arm"], r.point["batch"]) for r in setting.plans] == [
            ("bp", 8),
            ("mezo_5", 8),
        ]


def test_out_of_memory_is_a_row_and_the_rest_is_drawn() -> None:
    gone = Result(
        "run", {**MEZO[0].point, "model": "large"}, {"out_of_memory": "CUDA", "settings": {}}, 0
    )
    too_large = planned("mezo_5", None, "large")
    too_large = replace(too_large, metrics={**too_large.metrics, "chosen": False})
    records = [*ALL, record(gone), record(too_large)]
    assert tables.out_of_memory(records)["ended"].tolist() == ["CUDA"]
    (setting,) = settings(records)
    assert [line.model for line in setting.lines] == ["small", "small"]
    assert [plan.point["model"] for plan in setting.plans] == ["small", "small", "large"]
    assert memory_table(records)["chosen"].tolist() == ["yes", "yes", "no"]
    assert memory_table(records)["measured"].tolist() == ["1.5 GB", *2 * ["out of memory"]]
    for some in (records, [record(gone)]):
        for draw in ARTIFACT.figures.values():
            figure = draw(some)
            figure.draw_without_rendering()


def test_lines_are_means_that_end_at_a_mark_beside_the_running_maximum() -> None:
    extra = [trained("bp", [0.5, 0.6, 0.6, 0.8], seed=2), trained("mezo_5", [0.5] * 4, seed=2)]
    figure = ARTIFACT.figures["fig4"]([*ALL, *map(record, extra)])
    panel = figure.axes[0]
    ends = [line for line in panel.lines if line.get_marker() == "o"]
    assert ends[0].get_xydata()[0].tolist() == pytest.approx([30, (74 + 74 + 80) / 3])
    mean = panel.lines[0]
    assert mean.get_ydata()[0] == 50
    assert np.interp(20, mean.get_xdata(), mean.get_ydata()) == pytest.approx(60, abs=0.2)
    figure = ARTIFACT.figures["fig4"](ALL)
    panel = figure.axes[0]
    steps = [line for line in panel.lines if line.get_drawstyle() == "steps-post"]
    heights = list(steps[0].get_ydata())
    assert heights == sorted(heights)
    assert heights[-1] == 74
    assert [line.get_ydata()[0] for line in panel.lines if line.get_linestyle() == ":"] == [60]
    assert not panel.collections  # two seeds: an interval would cover the panel
    assert panel.get_ylim() == pytest.approx((50 - 2.56, 82 + 2.56))  # whatever the intervals


def controls(**accuracies: float) -> list[Record]:
    """Zero-shot accuracies by model."""
    return [
        record(
            Result(
                "zero_shot",
                {"setting": "s", "dataset": "boolq", "model": model},
                {
                    "accuracy": accuracy,
                    "calibrated_accuracy": {"mean": 0.6},
                    "majority": 0.62,
                    "items": {"validation": 40_000},
                    "truncated": {"validation": 0},
                    "settings": {"dtype": "float32", "context": 64},
                },
            )
        )
        for model, accuracy in accuracies.items()
    ]


def test_the_gap_is_split_into_before_and_by_training() -> None:
    """The larger model ends 8 points lower and began 3 points higher: training made -11."""
    large = [trained("mezo_1", [0.5, 0.66], seed=seed, model="large") for seed in (0, 1)]
    plans = [planned("bp", 1e9), planned("mezo_1", 1e9, "large")]
    rows = [*map(record, (*BP, *large, *plans)), *controls(small=0.55, large=0.58)]
    order = found(rows)["A9-order"]
    assert order.ours == pytest.approx(-8)
    assert {3.0, -11.0} <= set(numbers(order.reason))  # points before, and by training
    assert len(tables.zero_shot(rows)) == 2
    gains = tables.gains(rows)
    assert gains["gain (points)"].tolist() == ["+19.0", "+8.0"]  # 74 less 55, 66 less 58
    assert gains["by seed (%)"].tolist() == ["74.0, 74.0", "66.0, 66.0"]
    assert tables.gains(rows[: -len(controls(small=0, large=0))]).empty  # without the control


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ({"out_of_memory": "too small"}, "too small"),
        ({"divergence": "step 3: nan", "accuracy": []}, "diverged step 3: nan"),
        ({"accuracy": []}, "no evaluation in the time given"),
    ],
)
def test_what_a_run_came_to_is_said_for_every_kind_of_record(
    metrics: dict[str, Any], said: str
) -> None:
    assert run_module._outcome(metrics) == said


def test_a_finished_run_says_its_accuracies_and_items() -> None:
    said = run_module._outcome(
        {
            "accuracy": [0.5, 0.75], "final_accuracy": 0.7,
            "items": {"monitored": 8, "final": 10}, "majority": {"monitored": 0.5, "final": 0.6},
        }
    )  # fmt: skip
    assert numbers(said) == [50, 75, 8, 70, 10, 60]


def test_accuracies_before_training_are_of_the_processor_that_trained() -> None:
    """Processors round differently: 55 % on the one that trained, 50 and then 40 % on others."""
    (here,) = controls(small=0.55)
    elsewhere = [
        msgspec.structs.replace(
            control,
            environment=msgspec.structs.replace(control.environment, cpu=cpu, gpu=None),
            utc=utc,
        )
        for cpu, utc, (control,) in (
            ("another", "2999-01-01T00:00:00Z", controls(small=0.50)),
            ("a third", "2999-01-02T00:00:00Z", controls(small=0.40)),
        )
    ]
    runs = [*map(record, BP)]
    kept = together([[*runs, here], *([one] for one in elsewhere)])
    assert tables.gains(kept)["before (%)"].tolist() == ["55.0"]
    assert len(tables.zero_shot(kept)) == 3
    assert tables.gains([*runs, *elsewhere])["before (%)"].tolist() == ["40.0"]  # the newest
    other = here.metrics | {"settings": {"dtype": "bfloat16", "context": 64}}
    outdated = msgspec.structs.replace(here, metrics=other)
    assert tables.gains([*runs, outdated, *elsewhere])["before (%)"].tolist() == ["40.0"]


def test_baselines_of_the_suite_do_not_speak_for_the_paper() -> None:
    """Nothing is stated in the paper of LoRA, of MeZO on LoRA and of ElasticZO."""
    others = [
        record(trained(arm, [0.5, 0.99], seed=seed, model="large"))
        for arm in ("lora", "mezo_lora", "elasticzo")
        for seed in (0, 1)
    ]
    assert found([*ALL, *others]) == found(ALL)
    ARTIFACT.figures["fig4"]([*ALL, *others, *controls(small=0.55)])


def test_places_on_a_curve() -> None:
    points = [(0.0, 50.0), (10.0, 60.0), (20.0, 60.0), (30.0, 70.0)]
    assert [value_at(points, x) for x in (0, 9, 10, 29, 30, 99)] == [50, 50, 60, 60, 70, 70]
    assert first_reached(points, 50) == 0
    assert first_reached(points, 55) == 5
    assert first_reached(points, 65) == 25
    assert first_reached(points, 71) is None


def test_profiles_are_what_they_say() -> None:
    assert (PAPER.batch, PAPER.context, PAPER.seconds) == (8, 1024, 7200)
    assert PAPER.bp_lrs == (5e-4, 5e-5, 5e-6)
    assert PAPER.mezo_lrs == (5e-7, 5e-8, 5e-9)
    assert PAPER.every_model
    assert (PAPER.bp_dtype, PAPER.dtype) == ("float32", "bfloat16")
    assert GPU.budget_bytes == 0
    assert GPU.context == 1024
    assert HOURS.final_items == DAY.final_items == GPU.final_items == 0
    assert (HOURS.batch, HOURS.context, HOURS.budget_bytes) == (8, 1024, 0)  # the paper's B and N
    large, small = HOURS.mezo_models
    assert [HOURS.steps("mezo_1", model) for model in (large, small)] == [800, 4000]
    assert HOURS.steps("mezo_5", large) == 160  # as many forward passes
    assert HOURS.steps("elasticzo", large) == 800
    assert {HOURS.steps(arm, small) for arm in ("bp", "bp_checkpoint", "lora")} == {400}
    assert GPU.steps("mezo_1", "any") == GPU.steps("bp", "any") == 0
    profiles = ARTIFACT.profiles.values()
    assert len({config.setting for config in profiles}) == len(profiles)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seconds": math.inf}, "seconds = inf"),
        ({"mezo_lrs": (1e-3, -1.0)}, "mezo_lrs = -1.0"),
        ({"bp_models": ("a", "a")}, "each value may be given only once"),
        ({"zo_forwards": (1,)}, "zo_forwards = 1: a step of mezo_1 makes 2 forward passes; give"),
        (
            {"zo_forwards": (7,), "arms": ("mezo_5",)},
            "zo_forwards = 7: a step of mezo_5 makes 10 forward passes; give at least that",
        ),
        ({"zo_forwards": (1, 2)}, "zo_forwards: 2 numbers for 1 mezo_models; give one for each"),
        ({"noise": "philox", "device": "cpu"}, "noise = 'philox' with device = 'cpu'"),
        ({"noise": "engine", "device": "cuda"}, "noise = 'engine' with device = 'cuda'"),
    ],
)
def test_a_wrong_setting_is_refused_before_anything_runs(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        replace(QUICK, **change)


def test_a_task_with_too_few_rows_is_refused_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from repro.cli import main

    def measured(*_: object) -> None:
        pytest.fail("a step was measured")

    monkeypatch.setattr(run_module, "plan", measured)
    rows = "text\tlabel\n" + "".join(f"item {n}\t{n % 2}\n" for n in range(12))
    (tmp_path / "train.tsv").write_text(rows)
    (tmp_path / "validation.tsv").write_text(rows.replace("item", "other"))
    task = tmp_path / "small.toml"
    task.write_text(
        'template = "{text}"\ntrain = "train.tsv"\nvalidation = "validation.tsv"\n'
        '[answers]\n0 = " no"\n1 = " yes"\n'
    )
    arguments = ["--profile", "quick", "--datasets", str(task), "--out", str(tmp_path / "out")]
    assert main(["run", "mezo_fig4", *arguments]) == 2
    assert "64 training items are to be held out" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_of_it_all(tmp_path: Path) -> None:
    from repro.cli import main
    from repro.finetuning.replay import weights_sha256
    from repro.harness import run_artifact
    from repro.measurement.records import of_kind, read_run
    from repro.models.pretrained import load_pretrained

    def weights_of(directory: Path) -> str:
        return weights_sha256(load_pretrained(str(directory)).model.parameters())

    arms = ("bp", "mezo_5", "mezo_lora", "elasticzo")
    config = replace(SMOKE, arms=arms, bp_steps=5, zo_forwards=(20,), evaluations=1)
    path = run_artifact(ARTIFACT, "smoke", config, tmp_path, models=tmp_path / "models")
    kinds = Counter(record.kind for record in read_run(path))
    assert kinds == {"plan": 4, "zero_shot": 1, "grid": 8, "run": 4}
    assert main(["replay", str(path), "--out", str(tmp_path / "replayed")]) == 0
    saved, replayed = (
        {at.name: weights_of(at) for at in (tmp_path / name).iterdir()}
        for name in ("models", "replayed")
    )
    assert len(saved) == 4
    assert len(replayed) == 2  # the two methods with a log of all weights
    assert replayed.items() <= saved.items()
    for record in of_kind(read_run(path), "run"):
        (directory,) = (tmp_path / "models").glob(f"*-{record.point['arm']}-*")
        if record.point["arm"] != "mezo_lora":  # its adapters are merged
            assert saved[directory.name] == record.metrics["final_sha256"]
