"""The benchmark of methods: equal costs, the same search for all, runs that resume, and ranks."""

from collections import Counter
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from made_up import made
from repro.artifacts.base import Context, Result
from repro.artifacts.shared import subprocesses
from repro.artifacts.shared.tuning import best_rate
from repro.artifacts.zo_methods import ARTIFACT, HOURS, SMOKE, Config, tables
from repro.artifacts.zo_methods import run as run_module
from repro.artifacts.zo_methods import training as training_module
from repro.artifacts.zo_methods.arms import ARMS, ComparedMethod
from repro.artifacts.zo_methods.comparison import comparisons
from repro.artifacts.zo_methods.figures import zo_methods
from repro.artifacts.zo_methods.training import MethodRun, measure_cost
from repro.core.errors import ReproError, UsageError
from repro.execution.local import LocalExecutor
from repro.finetuning.learner import AnswerLearner
from repro.harness import run_artifact
from repro.measurement.environment import capture
from repro.measurement.isolation import run_isolated
from repro.measurement.prior_results import PriorResults
from repro.measurement.records import Record, read_run, together
from repro.measurement.renamed import with_present_names
from repro.measurement.result_cache import ResultCache
from repro.memory.measured import MeasuredPeak
from repro.models.lean import LeanConv2d
from repro.training.learners import FloatLearner
from repro.training.store import CheckpointStore
from repro.training.trainer import TrainingTask, train_run

pytestmark = pytest.mark.usefixtures("kept_prompts")

IMAGES = MethodRun(
    task="mnist", arm="mezo", lr=1e-3, eps=1e-2, batch=4, steps=9, evaluations=3,
    evaluated_items=0, tuning_items=3, train_items=None, seed=0, threads=1,
)  # fmt: skip
TEXT = replace(
    IMAGES, task="yesno-facts", model="tiny-llama", context=48, eps=1e-3, evaluated_items=24,
    tuning_items=16,
)  # fmt: skip
FEW = Config(
    tasks=("mnist",), arms=("mezo", "bp"), seeds=(3, 4), image_forwards=60, image_batch=4, rates=3,
    tuning_items=3, evaluations=2,
)  # fmt: skip
MACS = {"conv1": 784 * 25 * 6, "conv2": 196 * 150 * 16, "fc1": 784 * 120, "fc2": 10080, "fc3": 840}
"""Multiplications of each of LeNet-5's layers for an image, by its shape."""


@pytest.fixture
def context() -> Context:
    found = capture()
    executor = LocalExecutor(found, workers=1)
    return Context(found, ResultCache("test", {}), 1, executor, PriorResults())


@pytest.mark.usefixtures("made_up_mnist", "in_this_process")
def test_every_method_makes_as_many_forward_passes(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in LeNet-5's first layer, during training steps alone."""
    seen, arm = Counter[str](), [""]
    forward, step, train = LeanConv2d.forward, FloatLearner.step, train_run

    def counted(layer: LeanConv2d, features: Any) -> Any:
        seen[arm[0]] += layer.out_channels == 6
        return forward(layer, features)

    def stepped(learner: FloatLearner, batch: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LeanConv2d, "forward", counted)
            return step(learner, batch)

    def trained(task: TrainingTask) -> dict[str, Any]:
        assert isinstance(task.run, MethodRun)
        arm[0] = "grid" if task.run.tuning else task.run.arm
        return train(task)

    monkeypatch.setattr(FloatLearner, "step", stepped)
    monkeypatch.setattr(subprocesses, "train_run", trained)
    # another test measures memory, which takes seconds for each arm
    monkeypatch.setattr(training_module, "measure_step", lambda *_: MeasuredPeak(0, 0, 0))
    arms = tuple(arm for arm in ARMS if arm != "lora")
    config = replace(FEW, arms=(*arms, "lora"), seeds=(0,), image_forwards=45, rates=1)
    results = list(run_module.run(config, context))
    seen.pop("grid")
    backward = sum(MACS.values()) * 2 - MACS["conv1"]  # the images need no gradient
    tail = MACS["fc2"] + 2 * MACS["fc3"]  # fc2 passes no gradient on
    every = sum(MACS.values())
    passes = dict.fromkeys(arms, 2) | {"fzoo": 9, "bp": 1}
    costs = passes | {"bp": 1 + backward / every, "elasticzo": 2 + tail / every}
    assert seen == {arm: int(45 / costs[arm]) * passes[arm] for arm in arms}
    ends = {r.point["arm"]: r.metrics["forward_passes"][-1] for r in results if r.kind == "run"}
    assert ends == pytest.approx({arm: int(45 / costs[arm]) * costs[arm] for arm in arms})
    assert all(45 - costs[arm] < end <= 45 for arm, end in ends.items())


def test_the_memory_of_a_step_is_that_of_its_tensors() -> None:
    arms = ("mezo", "elasticzo", "bp")
    runs = [replace(IMAGES, arm=arm, batch=32) for arm in arms]
    preload = ["repro.artifacts.zo_methods.training"]
    found = {
        run.arm: metrics
        for run, metrics in run_isolated(measure_cost, runs, workers=1, preload=preload)
    }
    weights = 4 * 107_786
    pool1 = 4 * 32 * (6 * 784 + 6 * 196)  # the largest input and output together
    kept = 4 * 32 * (6 * 784 * 2 + 6 * 196 + 16 * 196 * 2)  # of BP: convolutions and ReLUs alone

    def is_of_objects(excess: int) -> bool:
        # Python takes memory for its objects in arenas of 1 MiB; one may fall into a step
        return min(abs(excess), abs(abs(excess) - 2**20)) < 2**16

    assert 0 <= found["mezo"]["weights_bytes"] - weights < 2**16
    assert is_of_objects(found["mezo"]["step_bytes"] - (pool1 + weights))  # the step's noise
    assert is_of_objects(found["elasticzo"]["step_bytes"] - found["mezo"]["step_bytes"])
    assert found["bp"]["step_bytes"] > kept + weights  # the gradients


def test_the_learning_rate_has_the_lowest_loss_on_held_out_items() -> None:
    def at(lr: float, *loss: float) -> Result:
        return Result("grid", {"lr": lr}, {"loss": list(loss), "accuracy": [1 / (1 + lr)]})

    assert best_rate([at(1, 0.5), at(2, 0.25), at(3), at(4, 0.75)]) == 2
    assert best_rate([at(1), at(2)]) is None


@pytest.mark.usefixtures("made_up_mnist", "in_this_process")
def test_a_run_that_exceeds_the_memory_is_named(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocesses, "train_run", lambda _: {"out_of_memory": "12 GB are missing"})
    monkeypatch.setattr(run_module, "measure_cost", lambda _: {"forwards": 2.0})
    with pytest.raises(ReproError, match=r"MeZO on mnist, lr .*12 GB are missing"):
        list(run_module.run(FEW, context))


@pytest.mark.usefixtures("made_up_mnist", "in_this_process")
def test_each_method_is_tuned_alike_and_trained_at_its_best_rate(
    context: Context, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    middle = {arm: ARMS[arm].rates["images"] for arm in ("mezo", "fzoo")}
    best_rate = {"mezo": 10**0.5 * middle["mezo"], "fzoo": middle["fzoo"]}
    cost = {"mezo": 2.0, "fzoo": 9.0, "bp": 3.0}
    seen: list[MethodRun] = []

    def metrics(task: TrainingTask) -> dict[str, Any]:
        run = task.run
        assert isinstance(run, MethodRun)
        seen.append(run)
        loss = [] if run.arm == "bp" else [abs(run.lr - best_rate[run.arm])]
        return {"steps": [run.steps], "loss": loss, "divergence": ""}

    monkeypatch.setattr(subprocesses, "train_run", metrics)
    monkeypatch.setattr(run_module, "measure_cost", lambda run: {"forwards": cost[run.arm]})
    config = replace(FEW, arms=("mezo", "fzoo", "bp"), image_forwards=100)
    results = list(run_module.run(config, context))
    grids = [run for run in seen if run.tuning]
    assert Counter(run.arm for run in grids) == dict.fromkeys(cost, 3)
    tried = [run.lr for run in grids if run.arm == "mezo"]
    assert tried == pytest.approx(
        [middle["mezo"] * 10**power for power in (-0.5, 0, 0.5)], rel=0.05
    )
    assert {run.arm: run.steps for run in grids} == {"mezo": 50, "fzoo": 11, "bp": 33}
    trained = {(run.arm, run.seed): (run.lr, run.steps) for run in seen if not run.tuning}
    assert trained == {
        (arm, seed): (lr, steps)
        for arm, lr, steps in (("mezo", tried[-1], 50), ("fzoo", middle["fzoo"], 11))
        for seed in (3, 4)
    }
    runs = {(r.point["arm"], r.seed): r.metrics for r in results if r.kind == "run"}
    assert [runs["mezo", 3]["at_edge"], runs["fzoo", 3]["at_edge"]] == [True, False]
    assert runs["fzoo", 4]["forward_passes"] == [99]
    assert runs["bp", 3]["divergence"] == "every learning rate of 3 diverged"
    assert "BP, SGD on mnist: every learning rate of 3 diverged" in capsys.readouterr().err


@pytest.mark.usefixtures("made_up_mnist", "in_this_process")
def test_more_seeds_need_neither_the_steps_nor_the_grids_of_earlier_records_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []

    def metrics(task: TrainingTask) -> dict[str, Any]:
        run = task.run
        assert isinstance(run, MethodRun)
        made.append((run.arm, "grid" if run.tuning else run.seed))
        loss = abs(run.lr - ARMS[run.arm].rates["images"])
        return {"steps": [run.steps], "loss": [loss], "accuracy": [0.5], "divergence": ""}

    def cost(run: MethodRun) -> dict[str, Any]:
        made.append((run.arm, "step"))
        return {"forwards": 2.0 if run.arm == "mezo" else 9.0}

    monkeypatch.setattr(subprocesses, "train_run", metrics)
    monkeypatch.setattr(run_module, "measure_cost", cost)
    clean = LocalExecutor(msgspec.structs.replace(capture(), dirty=False), workers=1)
    days = count(1)

    def recorded(arms: tuple[str, ...], seeds: tuple[int, ...], forwards: int = 60) -> list[Record]:
        made.clear()
        config = replace(FEW, arms=arms, seeds=seeds, image_forwards=forwards)
        path = run_artifact(ARTIFACT, "smoke", config, tmp_path, clean, again=False)
        if path is None:
            return []
        # two files of one second have the same name
        return read_run(
            path.rename(path.with_name(f"custom-2020010{next(days)}T000000Z-nocommit.jsonl"))
        )

    grid = [("mezo", "grid")] * 3
    assert len(recorded(("mezo",), (0,))) == 5
    assert made == [("mezo", "step"), *grid, ("mezo", 0)]
    (run,) = recorded(("mezo",), (0, 1))
    assert (made, run.seed, run.metrics["forward_passes"]) == ([("mezo", 1)], 1, [60])
    assert recorded(("mezo",), (1, 0)) == made == []
    others = recorded(("mezo", "fzoo"), (1,))
    assert made == [("fzoo", "step"), *[("fzoo", "grid")] * 3, ("fzoo", 1)]
    assert {record.point["arm"] for record in others} == {"fzoo"}
    recorded(("mezo",), (0,), forwards=80)  # a longer run has a grid of its own
    assert made == [("mezo", "step"), *grid, ("mezo", 0)]


@pytest.mark.usefixtures("made_up_mnist", "in_this_process", "engine")
@pytest.mark.parametrize(
    ("run", "learner"),
    [
        *((replace(IMAGES, arm=arm), FloatLearner) for arm in ARMS if "images" in ARMS[arm].rates),
        *((replace(TEXT, arm=arm), AnswerLearner) for arm in ARMS if "text" in ARMS[arm].rates),
    ],
    ids=lambda value: f"{value.arm}-{value.task}" if isinstance(value, MethodRun) else "",
)
def test_a_resumed_run_ends_as_an_uninterrupted_one(
    run: MethodRun, learner: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = replace(run, lr=1e-2)  # the weights move
    whole = train_run(TrainingTask(run, CheckpointStore(tmp_path / "whole")))
    store, steps, step = CheckpointStore(tmp_path / "stopped"), count(1), learner.step

    def stopped(self: Any, batch: Any) -> Any:
        if next(steps) == 6:
            raise KeyboardInterrupt
        return step(self, batch)

    monkeypatch.setattr(learner, "step", stopped)
    with pytest.raises(KeyboardInterrupt):
        train_run(TrainingTask(run, store))
    resumed = train_run(TrainingTask(run, store))
    assert next(steps) <= 6 + 9  # not from the start
    names = ("steps", "accuracy", "loss", "train_loss")
    assert [resumed[name] for name in names] == [whole[name] for name in names]
    assert len(set(whole["loss"])) == 4
    if run == replace(TEXT, lr=run.lr, arm=run.arm):  # prompts of up to 48 tokens
        assert whole["truncated"] == {"training": 0, "final": 0}
        assert whole["items"]["tuning"] == TEXT.tuning_items


@pytest.mark.usefixtures("made_up_mnist", "in_this_process")
def test_an_entry_is_all_that_a_new_method_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arm = ComparedMethod("MeZO, n = 4", 8, {"images": 1e-3}, settings={"perturbations": 4})
    monkeypatch.setitem(ARMS, "mezo_4", arm)
    config = replace(FEW, arms=("mezo", "mezo_4"), seeds=(0,))
    path = run_artifact(ARTIFACT, "smoke", config, tmp_path)
    assert path is not None
    records = read_run(path)
    ends = {r.point["arm"]: r.metrics["forward_passes"][-1] for r in records if r.kind == "run"}
    assert ends == {"mezo": 60, "mezo_4": 56}
    assert set(tables.ranking(records)["method"]) == {"MeZO", "MeZO, n = 4"}
    assert len(tables.learning_rates(records)) == 6
    figure = zo_methods(records)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["MeZO", "MeZO, n = 4"]


def result(kind: str, point: dict[str, Any], metrics: dict[str, Any], **of: Any) -> Record:
    usual = {"artifact": "zo_methods", "seed": None, "profile": "quick"}
    return made(point, metrics, kind=kind, **usual | of)


def point_of(arm: str, device: str = "cpu") -> dict[str, str]:
    return {"task": "mnist", "arm": arm, "device": device}


def curve(
    arm: str,
    seed: int,
    end: float,
    seconds: float,
    lr: float = 0.1,
    device: str = "cpu",
    **of: Any,
) -> Record:
    return result(
        "run",
        point_of(arm, device),
        {
            "steps": [0, 10], "forward_passes": [0, 20], "cpu_seconds": [0, seconds],
            "accuracy": [0.1, end], "loss": [2.3, 1 - end], "divergence": "",
            "at_edge": arm == "mezo",
            "settings": {"lr": lr},
        },
        seed=seed,
        **of,
    )  # fmt: skip


def step(arm: str, device: str = "cpu", **of: Any) -> Record:
    return result("step", point_of(arm, device), {"peak_bytes": 2e6, "weights_bytes": 1e6}, **of)


def test_ranks_are_of_accuracy_with_time_memory_and_published_gains_beside() -> None:
    records = [
        *(step(arm) for arm in ("mezo", "elasticzo", "bp")),
        curve("mezo", 0, 0.5, 4),
        curve("mezo", 1, 0.7, 4),
        curve("elasticzo", 0, 0.9, 8),
        result("run", point_of("bp"), {"divergence": "nan"}, seed=0),
    ]
    rows = tables.ranking(records).to_dict("records")
    assert [row["method"] for row in rows] == ["ElasticZO", "MeZO", "BP, SGD"]
    elastic, mezo, bp = rows
    # Student's t with one degree of freedom is 12.706; the standard error of 50 and 70 is 10
    assert mezo["at equal forward passes (%)"] == "60.00 ± 127.06"
    assert mezo["loss"] == "0.400 ± 1.271"
    assert mezo["learning rate"] == "0.1 (end of its grid)"
    assert elastic["at equal forward passes (%)"] == "90.00"
    assert elastic["at equal time (%)"] == "50.00"  # in MeZO's 4 s, half of its own way
    assert elastic["a step (ms)"] == "800"
    assert elastic["peak memory"] == "2 MB"
    assert elastic["gain over MeZO (points)"] == "+30.00"
    assert elastic["published, over clipped MeZO"] == "+7.73"  # 97.53 - 89.80, Table 1
    told = [bp[name] for name in ("rank", "at equal forward passes (%)", "CPU time")]
    assert told == ["–", "diverged", "–"]  # noqa: RUF001


def test_runs_that_shared_a_gpu_are_not_compared_by_time() -> None:
    on_gpu: Any = {"device": "cuda", "profile": "gpu"}
    records = [step("mezo", **on_gpu), curve("mezo", 0, 0.5, 4, **on_gpu)]
    (row,) = tables.ranking(records).to_dict("records")
    assert row["at equal forward passes (%)"] == "50.00"
    untimed = {row[name] for name in ("at equal time (%)", "CPU time", "a step (ms)")}
    assert untimed == {"–"}  # noqa: RUF001
    figure = zo_methods(records)
    passes, instead, _ = figure.axes
    assert [panel.get_xlabel() for panel in (passes, instead)] == ["forward passes, by FLOPs"] * 2
    assert [list(panel.lines[0].get_ydata()) for panel in (passes, instead)] == [
        [10, 50],  # per cent
        [2.3, 0.5],  # the loss
    ]


def test_times_of_another_processor_are_not_compared() -> None:
    other = msgspec.structs.replace(capture(), cpu="another")
    records = [
        *(step(arm) for arm in ("mezo", "fzoo", "bp")),
        curve("mezo", 0, 0.5, 4),
        curve("fzoo", 0, 0.6, 8),
        msgspec.structs.replace(curve("bp", 0, 0.9, 1), environment=other),
    ]
    rows = {row["method"]: row for row in tables.ranking(records).to_dict("records")}
    at_equal_time = {name: row["at equal time (%)"] for name, row in rows.items()}
    # FZOO, after the 4 seconds of MeZO, is half way from 10 to 60 %
    assert at_equal_time == {"BP, SGD": "–", "FZOO, N = 8": "35.00", "MeZO": "50.00"}  # noqa: RUF001
    figure = zo_methods(records)
    assert figure.axes[1].get_title(loc="left") == "without BP, SGD (on another processor)"
    split = curve("bp", 1, 0.9, 1)  # its seeds have two processors now
    (found,) = comparisons([*records, split])
    assert {line.name for line in found.timed} == {"mezo", "fzoo"}
    assert len(figure.axes[1].lines) == 2 * 2


@pytest.mark.gpu
@pytest.mark.parametrize("arm", [name for name, arm in ARMS.items() if "text" in arm.rates])
def test_every_method_trains_a_language_model_on_a_gpu(arm: str, tmp_path: Path) -> None:
    run = replace(TEXT, arm=arm, device="cuda")
    cost = measure_cost(run)
    assert cost["peak_bytes"] > cost["weights_bytes"] > 0
    assert 1 <= cost["forwards"] <= 9
    trained = train_run(TrainingTask(run, CheckpointStore(tmp_path)))
    assert trained["steps"] == [0, 3, 6, 9]
    assert not trained["divergence"]
    assert len(set(trained["loss"])) == 4


def test_the_figure_says_if_every_run_diverged() -> None:
    failed = result("run", point_of("bp"), {"divergence": "nan"}, seed=0)
    figure = zo_methods([step("bp"), failed])
    assert [text.get_text() for text in figure.axes[0].texts] == ["every run diverged"]


def test_only_runs_of_one_profile_and_rate_are_compared() -> None:
    newest = {"utc": "2026-02-01T00:00:00Z"}
    records = [
        *(step(arm) for arm in ("mezo", "bp")),
        step("mezo", profile="hours"),
        curve("bp", 0, 0.9, 4),
        curve("mezo", 0, 0.5, 4, profile="hours"),
        curve("mezo", 1, 0.7, 4, lr=0.2, profile="hours", **newest),
    ]
    (found,) = comparisons(records)
    (line,) = found.lines
    assert (found.profile, line.lr, line.final()) == ("hours", 0.2, [70.0])


def test_runs_on_a_gpu_are_compared_apart_from_those_on_a_cpu() -> None:
    """Also if both have a method, whose records would otherwise replace each other."""
    on_gpu: Any = {"device": "cuda", "profile": "gpu"}
    here = [step("mezo"), curve("mezo", 0, 0.5, 4)]
    there = [step("mezo", **on_gpu), curve("mezo", 0, 0.6, 1, **on_gpu)]
    found = comparisons(together([here, there]))
    assert [(one.title, bool(one.timed), one.lines[0].final()) for one in found] == [
        ("LeNet-5 on MNIST, CPU (quick)", True, [50.0]),
        ("LeNet-5 on MNIST, GPU (gpu)", False, [60.0]),
    ]


def test_older_peaks_of_lora_get_adams_moments() -> None:
    """Two numbers of 4 bytes for each of 1,000 adapter weights, as the present code measures."""
    measured = {"peak_bytes": 90_000, "parameters_bytes": 80_000}
    base = result("step", point_of("mezo"), measured)
    older = measured | {"parameters_bytes": 84_000}
    newer = older | {"state_bytes": 8_000, "peak_bytes": 98_000}
    for metrics in (older, newer):
        _, lora = with_present_names([base, result("step", point_of("lora"), metrics)])
        assert lora.metrics == newer
    other_task = result("step", {**point_of("mezo"), "task": "sst2"}, {"parameters_bytes": 4})
    alone = result("step", point_of("lora"), older)  # with nothing that tells the adapters' size
    assert with_present_names([other_task, alone])[1].metrics == older


def test_the_device_of_older_records_is_that_of_their_configuration() -> None:
    older = [
        result("step", {"task": "sst2", "arm": "mezo"}, {}, config=config)
        for config in ({}, {"device": "cuda"})
    ]
    points = [record.point for record in with_present_names(older)]
    assert [point["device"] for point in points] == ["cpu", "cuda"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tasks": ("shapes40",)}, "must be one of boolq.*sets of images: mnist"),
        ({"workers": 2}, "workers = 2 with device = 'cpu': runs beside each other would distort"),
        ({"device": "cuda"}, "device = 'cuda' with .*'mnist'.*: LeNet-5 is trained on the CPU"),
    ],
)
def test_what_cannot_be_run_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        replace(HOURS, **wrong)


def test_tasks_have_one_name_and_some_arm_to_train_them() -> None:
    assert Config(tasks=("yesno_facts",)).tasks == ("yesno-facts",)
    with pytest.raises(UsageError, match=r"task = 'fashion-mnist'.*sets of images: mnist"):
        Config(tasks=("fashion-mnist",))
    with pytest.raises(UsageError, match=r"arms = \['lora'\]: none of them can train mnist"):
        Config(tasks=("mnist",), arms=("lora",))
    with pytest.raises(UsageError, match="there is no split for seed 7"):
        Config(tasks=("sst2-k16",), seeds=(7,))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"context": 1 << 20}, r"N = 1048576: tiny-llama has \d+ positions"),
        ({"context": 4}, r"more than N = 4; \d+ prompts of task yesno-facts do not fit"),
        ({"tuning_items": 5000}, r"5000 training items are to be held out"),
        ({"text_batch": 5000}, r"\d+ training items remain, fewer than the batch size B = 5000"),
    ],
)
@pytest.mark.usefixtures("made_up_mnist")
def test_a_text_task_that_cannot_be_trained_is_refused_before_the_first_task(
    wrong: dict[str, Any], said: str, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "_compared", lambda *_: pytest.fail("a task was begun"))
    monkeypatch.setattr(run_module, "build", lambda: None)
    config = replace(SMOKE, tasks=("mnist", "yesno-facts"), **wrong)
    with pytest.raises(UsageError, match=said):
        list(run_module.run(config, context))


def test_a_run_whose_directions_the_engine_draws_is_that_engines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = (TEXT, IMAGES, replace(TEXT, device="cuda"), replace(TEXT, arm="bp"))
    before = [run.key() for run in runs]
    monkeypatch.setattr(training_module, "module_path", lambda: Path("other/engine.so"))
    assert [run.key() == key for run, key in zip(runs, before, strict=True)] == [
        False, True, True, True,
    ]  # fmt: skip
