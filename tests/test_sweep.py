"""Sweeps: what runs when, what a lost process costs, what is refused, what is not done again."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pebble import ProcessExpired

from repro.artifacts.base import Artifact, Context, Result
from repro.artifacts.shared.training_runs import results
from repro.cli import main
from repro.core.errors import ReproError, UnknownRunsError
from repro.execution.cluster import Node, require_alike, run_job, states_of
from repro.execution.local import LocalExecutor, LocalPool
from repro.execution.run_memory import run_bytes
from repro.execution.schedule import (
    ATTEMPTS,
    DryRunExecutor,
    RunOutcome,
    RunsFailedError,
    described,
    train_all,
)
from repro.harness import dry_run_artifact, run_artifact
from repro.measurement.environment import Environment, capture
from repro.measurement.records import read_run
from repro.measurement.result_cache import ResultCache
from repro.training.run import FloatSettings, IntegerSettings, NetworkRun
from repro.training.store import CheckpointStore, identity
from repro.training.trainer import TrainingTask, train_run

SGD = NetworkRun("mnist", "fp32", "full_bp", FloatSettings(lr=0.05, batch=16), 2, 0)
CURVES = ("test_loss", "test_accuracy", "train_loss")


@pytest.fixture(scope="module")
def here() -> Environment:
    return capture()


class Scripted:
    """A pool whose cells end as they are told, and are in the store if they end well."""

    def __init__(self, store: CheckpointStore, *, room: int = 9, **ends: Any) -> None:
        self.store, self.room, self.ends = store, room, ends
        self.running: list[NetworkRun] = []
        self.begun: list[str] = []
        self.most = 0

    def refusal(self, run: NetworkRun) -> str:
        return "too large" if "refused" in self.ends.get(name(run), []) else ""

    def has_room(self, run: NetworkRun) -> bool:  # noqa: ARG002
        return len(self.running) < self.room

    def start(self, run: NetworkRun) -> None:
        self.begun.append(name(run))
        self.running.append(run)
        self.most = max(self.most, len(self.running))

    def wait(self) -> list[RunOutcome]:
        cell = self.running.pop(0)
        if left := self.ends.get(name(cell), []):
            end = left.pop(0)
            return [RunOutcome(cell, problem=end, lost=end == "lost")]
        self.store.checkpoint(cell).save(state_after(cell.epochs, of=name(cell)))
        return [RunOutcome(cell, {"of": name(cell)})]


def state_after(epochs: int, **counts: Any) -> dict[str, Any]:
    return {"curve": {"seconds": [float(n) for n in range(epochs + 1)]}, "counts": counts}


def name(cell: NetworkRun) -> str:
    return f"{'tuned' if cell.start else 'cell'}{cell.seed}"


def cells(*seeds: int) -> list[NetworkRun]:
    return [replace(SGD, seed=seed) for seed in seeds]


def outcome(wanted: list[NetworkRun], pool: Scripted) -> list[str]:
    return [metrics["of"] for _, metrics in train_all(wanted, pool.store, pool, {})]


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "runs")


def test_cells_that_are_done_are_not_begun(store: CheckpointStore) -> None:
    assert outcome(cells(0, 1), Scripted(store)) == ["cell0", "cell1"]
    pool = Scripted(store)
    assert outcome(cells(0, 2, 1, 2), pool) == ["cell0", "cell1", "cell2"]
    assert pool.begun == ["cell2"]


def test_no_more_cells_run_than_there_is_room_for(store: CheckpointStore) -> None:
    pool = Scripted(store, room=2)
    outcome(cells(0, 1, 2, 3), pool)
    assert pool.most == 2


def test_a_cell_begins_when_the_one_it_starts_from_has_ended(store: CheckpointStore) -> None:
    first, second = cells(0, 1)
    tuned = [replace(SGD, seed=seed, start=first) for seed in (5, 6)]
    pool = Scripted(store)
    assert outcome([*tuned, second], pool) == ["cell1", "tuned5", "tuned6"]
    assert pool.begun == ["cell0", "cell1", "tuned5", "tuned6"]  # and the start only once


def test_a_lost_cell_is_begun_again_and_not_for_ever(
    store: CheckpointStore, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = Scripted(store, cell0=["lost"] * (ATTEMPTS - 1), cell1=["lost"] * ATTEMPTS)
    with pytest.raises(
        RunsFailedError, match=rf"1 training run failed(.|\n)*seed 1 .*{ATTEMPTS} attempts"
    ):
        outcome(cells(0, 1, 2), pool)
    assert pool.begun.count("cell0") == pool.begun.count("cell1") == ATTEMPTS
    assert "seed 0: lost; retrying" in capsys.readouterr().err
    assert outcome(cells(0, 2), Scripted(store)) == ["cell0", "cell2"]


def test_a_cell_that_fails_by_itself_is_begun_once_and_takes_with_it_what_starts_from_it(
    store: CheckpointStore,
) -> None:
    first, second = cells(0, 1)
    tuned = replace(SGD, seed=5, start=first)
    pool = Scripted(store, cell0=["no such file"])
    with pytest.raises(RunsFailedError) as failure:
        outcome([tuned, second], pool)
    assert list(failure.value.problems) == [first, tuned]
    assert "2 training runs failed" in str(failure.value)
    assert pool.begun == ["cell0", "cell1"]
    again = Scripted(store)
    assert outcome([tuned, second], again) == ["cell1", "tuned5"]  # with what was missing alone
    assert again.begun == ["cell0", "tuned5"]


def test_a_cell_that_is_too_large_is_refused_and_the_others_run(store: CheckpointStore) -> None:
    pool = Scripted(store, cell1=["refused"])
    with pytest.raises(RunsFailedError, match=r"seed 1 .*: too large"):
        outcome(cells(0, 1, 2), pool)
    assert pool.begun == ["cell0", "cell2"]


def test_labels_tell_all_cells_of_a_grid_apart() -> None:
    grid = [
        SGD,
        replace(SGD, settings=FloatSettings(lr=0.06, batch=16)),
        replace(SGD, settings=FloatSettings(lr=0.05, batch=16, eps=0.1)),
        replace(SGD, epochs=3),
        replace(SGD, train_items=16),
        replace(SGD, start=SGD),
        replace(SGD, start=replace(SGD, epochs=5)),
    ]
    assert len({described(cell) for cell in grid}) == len(grid)
    assert described(SGD) == "mnist fp32 full_bp seed 0 (2 epochs, lr 0.05, batch 16)"


@pytest.mark.parametrize(
    ("cell", "measured"),
    [
        (NetworkRun("mnist", "fp32", "full_bp", FloatSettings(lr=0.05), 1, 0), 787),
        (NetworkRun("mnist", "int8", "cls1", IntegerSettings(), 1, 0), 1217),
        (NetworkRun("shapes40", "fp32", "full_bp", FloatSettings(lr=0.05), 1, 0), 1461),
        (NetworkRun("shapes40", "fp32", "full_zo", FloatSettings(lr=0.05), 1, 0), 992),
    ],
    ids=lambda value: value.label() if isinstance(value, NetworkRun) else "",
)
def test_the_estimate_of_memory_is_above_what_a_process_took(
    cell: NetworkRun, measured: int
) -> None:
    """Peaks of resident memory in MiB, of a process that set up, did three steps, evaluated."""
    assert 1 <= run_bytes(cell) / 2**20 / measured < 1.7


def test_processes_are_no_more_than_memory_and_the_gpu_hold(
    store: CheckpointStore, here: Environment
) -> None:
    each = run_bytes(SGD)
    executor = LocalExecutor(here, workers=8, memory=2 * each, gpus_per_run=0.4)
    first, second, third = cells(0, 1, 2)

    def room(cell: NetworkRun, *running: NetworkRun, **changes: Any) -> bool:
        pool = LocalPool(replace(executor, **changes), store, None)  # type: ignore[arg-type]
        pool._running = dict(enumerate(running))  # type: ignore[arg-type]
        return pool.has_room(cell)

    assert room(second, first)
    assert not room(third, first, second)
    assert room(third, first, second, memory=3 * each)
    assert not room(third, first, second, memory=3 * each, workers=2)
    on_gpu = [replace(cell, device="cuda") for cell in (first, second, third)]
    assert room(on_gpu[2], on_gpu[0], second, memory=9 * each)
    assert not room(on_gpu[2], *on_gpu[:2], memory=9 * each)
    small = LocalPool(replace(executor, memory=each - 1), store, None)  # type: ignore[arg-type]
    assert small.refusal(SGD).startswith("it takes up to 8")
    assert LocalPool(executor, store, None).refusal(SGD) == ""  # type: ignore[arg-type]


def test_a_pool_tells_the_failures_of_its_processes_apart(
    store: CheckpointStore, here: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    ends = {
        SGD: {"seconds": [1.0]},
        replace(SGD, seed=1): ProcessExpired("died", 9),
        replace(SGD, seed=2): ReproError("no data"),
        replace(SGD, seed=3): ValueError("a fault of ours"),
    }
    for end in ends.values():
        if isinstance(end, Exception):
            end.traceback = f"where {end} was raised\n"  # type: ignore[union-attr] # as pebble does
    pool = LocalPool(LocalExecutor(here, workers=2), store, None)  # type: ignore[arg-type]
    for run, end in ends.items():
        future: Future[Any] = Future()
        if isinstance(end, Exception):
            future.set_exception(end)
        else:
            future.set_result(end)
        pool._running[future] = run
    outcomes = {outcome.run: outcome for outcome in pool.wait()}
    done, died, refused, failed = (outcomes[run] for run in ends)
    assert (done.metrics, done.problem) == ({"seconds": [1.0]}, "")
    assert (died.lost, refused.lost, failed.lost) == (True, False, False)
    assert refused.problem == "no data"
    assert failed.problem == "ValueError: a fault of ours"
    assert capsys.readouterr().err == "where a fault of ours was raised\n"  # of no expected error


@dataclass(frozen=True)
class Seeds:
    """The configuration of an artifact that trains one cell a seed."""

    seeds: tuple[int, ...] = (0, 1)
    lr: float = 0.05
    device: str = "cpu"


def run(config: Seeds, context: Context) -> Iterator[Result]:
    settings = FloatSettings(lr=config.lr, batch=16)
    yield from results([replace(SGD, seed=s, settings=settings) for s in config.seeds], context)


ARTIFACT = Artifact(
    slug="trained",
    paper="elasticzo",
    title="cells",
    run=run,
    profiles={"smoke": Seeds(), "quick": Seeds((0, 1, 2, 3)), "paper": Seeds((0, 1, 2, 3))},
    selector_fields=("seeds",),
    takes_recorded=True,
)


@dataclass
class Counting:
    """An executor that makes curves up, and counts what it is asked for."""

    environment: Environment
    asked: list[int]

    def run(self, cells: Any) -> Iterator[tuple[NetworkRun, dict[str, Any]]]:
        for cell in cells:
            self.asked.append(cell.seed)
            yield cell, {"test_accuracy": [0.1, cell.seed / 10], "diverged": False}


def sweep(
    executor: Counting, out: Path, *seeds: int, lr: float = 0.05, again: bool = False
) -> Path | None:
    config = Seeds(seeds, lr)
    return run_artifact(ARTIFACT, "paper", config, out, executor, again=again)


def test_what_is_recorded_is_neither_made_nor_recorded_again(
    tmp_path: Path, here: Environment
) -> None:
    executor = Counting(msgspec.structs.replace(here, dirty=False), [])
    first = sweep(executor, tmp_path, 0, 1)
    assert first is not None
    first = first.rename(first.with_name("paper-20200101T000000Z-nocommit.jsonl"))
    second = sweep(executor, tmp_path, 1, 2)
    assert second is not None
    assert executor.asked == [0, 1, 2]
    assert [record.seed for record in read_run(second)] == [2]
    second.rename(second.with_name("paper-20200102T000000Z-nocommit.jsonl"))
    assert sweep(executor, tmp_path, 0, 1, 2) is None
    anew = sweep(executor, tmp_path, 0, again=True)
    assert anew is not None
    assert [record.metrics["test_accuracy"] for record in read_run(anew)] == [[0.1, 0.0]]
    assert executor.asked == [0, 1, 2, 0]


def test_points_that_a_run_left_behind_long_ago_are_removed(
    tmp_path: Path, here: Environment
) -> None:
    old, new = (ResultCache("trained", {"code": code}) for code in ("old", "new"))
    for store, days in ((old, 31), (new, 29)):
        store.put({"n": 1}, {"bytes": 7})
        (path,) = store.directory.iterdir()
        then = time.time() - days * 24 * 3600
        os.utime(path, (then, then))
    sweep(Counting(here, []), tmp_path, 0)
    assert old.get({"n": 1}) is None
    assert new.get({"n": 1}) == {"bytes": 7}


def test_other_settings_and_changed_code_are_not_what_is_recorded(
    tmp_path: Path, here: Environment
) -> None:
    clean, changed = (msgspec.structs.replace(here, dirty=dirty) for dirty in (False, True))
    dirty = Counting(changed, [])
    path = sweep(dirty, tmp_path, 0)
    assert path is not None
    path.rename(path.with_name("paper-20200101T000000Z-abcdef0-dirty.jsonl"))
    executor = Counting(clean, [])
    sweep(executor, tmp_path, 0)
    assert executor.asked == [0]
    sweep(executor, tmp_path, 0, lr=0.06)  # no profile's: no profile's records stand for it
    assert executor.asked == [0, 0]


def test_a_configuration_of_no_profile_is_recorded_once_whatever_is_run_between(
    tmp_path: Path, here: Environment
) -> None:
    executor = Counting(msgspec.structs.replace(here, dirty=False), [])

    def files_after(day: int, *seeds: int, lr: float) -> int:
        path = sweep(executor, tmp_path, *seeds, lr=lr)
        if path is not None:
            path.rename(path.with_name(f"custom-2020010{day}T000000Z-nocommit.jsonl"))
        return len(list(tmp_path.glob("trained/custom-*.jsonl")))

    assert files_after(1, 0, lr=0.06) == 1
    assert files_after(2, 0, lr=0.06) == 1
    assert files_after(3, 0, lr=0.07) == 2  # the same point and seed, otherwise trained
    assert files_after(4, 0, lr=0.06) == 2
    assert executor.asked == [0, 0]
    assert files_after(5, 0, 1, lr=0.06) == 3
    assert executor.asked == [0, 0, 1]


@pytest.mark.usefixtures("made_up_mnist")
def test_a_survey_tells_done_from_begun_and_from_to_do(
    tmp_path: Path, here: Environment, capsys: pytest.CaptureFixture[str]
) -> None:
    store = CheckpointStore.of(here)
    train_run(TrainingTask(replace(SGD, seed=0), store, {}))
    train_run(TrainingTask(replace(SGD, seed=1, epochs=1), store, {}))
    begun = store.checkpoint(replace(SGD, seed=1, epochs=1)).read()
    assert begun is not None
    store.take_over(replace(SGD, seed=1), begun)
    survey = DryRunExecutor(here)
    config = Seeds((0, 1, 2))
    assert dry_run_artifact(ARTIFACT, "paper", config, tmp_path / "out", survey, again=False) == 0
    assert [line.split("mnist")[0].strip() for line in survey.lines()] == [
        "done", "begun, 1 of 2 epochs", "to do",
    ]  # fmt: skip
    longer = DryRunExecutor(here)
    with pytest.raises(UnknownRunsError):
        list(longer.run([replace(SGD, seed=0, epochs=5)]))
    assert longer.lines()[0].startswith("begun, 2 of 5 epochs")  # it continues the shorter run
    started, missing = (replace(SGD, seed=0, start=replace(SGD, seed=seed)) for seed in (0, 5))
    train_run(TrainingTask(started, store, {}))
    store.checkpoint(replace(SGD, seed=0)).remove()
    starts = DryRunExecutor(here)
    with pytest.raises(UnknownRunsError, match="1 training run"):
        list(starts.run([started, missing]))
    # the start of a run that is done is not needed any more
    states = [line.split("mnist")[0].strip() for line in starts.lines()]
    assert (states, next(iter(starts.seen))) == (["done", "to do", "to do"], started)
    assert not (tmp_path / "out").exists()
    capsys.readouterr()


@pytest.mark.usefixtures("made_up_mnist")
def test_a_state_from_elsewhere_is_kept_only_if_it_is_further(tmp_path: Path) -> None:
    far, near = CheckpointStore(tmp_path / "far"), CheckpointStore(tmp_path / "near")
    train_run(TrainingTask(SGD, far, {}))
    state = far.checkpoint(SGD).read()
    assert state is not None
    near.checkpoint(SGD).save(state_after(1))
    near.take_over(SGD, state)
    assert near.progress(SGD) == far.progress(SGD)
    far.checkpoint(replace(SGD, seed=1)).save(state_after(1))
    less = far.checkpoint(replace(SGD, seed=1)).read()
    assert less is not None
    near.take_over(SGD, less)
    assert near.progress(SGD).epochs == 2
    ended = state_after(1)
    ended["curve"]["divergence"] = "epoch 2, minibatch 1: loss is nan"
    other = replace(SGD, seed=1)
    near.checkpoint(other).save(state_after(1))
    far.checkpoint(other).save(ended)
    diverged = far.checkpoint(other).read()
    assert diverged is not None
    near.take_over(other, diverged)
    assert near.progress(other).metrics is not None  # nobody trains into the divergence again


@pytest.mark.usefixtures("made_up_mnist")
def test_a_run_trained_before_the_commit_of_its_code_is_clean_afterwards(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "store")
    before = train_run(TrainingTask(SGD, store, {"commit": "a" * 40, "dirty": True}))
    after = train_run(TrainingTask(SGD, store, {"commit": "b" * 40, "dirty": False}))
    assert (before["trained"]["dirty"], after["trained"]["dirty"]) == (True, False)
    assert after["trained"]["commit"] == "b" * 40
    assert {**before, "trained": None} == {**after, "trained": None}
    dirty = train_run(TrainingTask(SGD, store, {"commit": "c" * 40, "dirty": True}))
    assert dirty["trained"]["dirty"] is True
    for code, is_dirty in (({"commit": "d" * 40, "dirty": False}, False), ({"dirty": True}, True)):
        ((_, found),) = train_all([SGD], store, Scripted(store), code)  # nothing is trained
        assert found["trained"]["dirty"] is is_dirty
        assert found["trained"]["commit"] == code.get("commit", "a" * 40)


@pytest.mark.usefixtures("made_up_mnist")
def test_a_run_by_another_engine_than_the_commands_is_refused(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "store")
    by_engine = replace(SGD, engine="native")
    with pytest.raises(ReproError, match="on-device engine have changed since the command began"):
        train_run(TrainingTask(by_engine, store, engine="an earlier one"))
    train_run(TrainingTask(SGD, store, engine="an earlier one"))  # PyTorch trains it


@pytest.mark.usefixtures("made_up_mnist")
def test_a_node_goes_on_with_what_it_is_sent(
    tmp_path: Path, here: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = replace(SGD, seed=9)
    tuned = replace(SGD, start=start)
    driver = CheckpointStore(tmp_path / "driver")
    train_run(TrainingTask(start, driver, {}))
    expected = train_run(TrainingTask(tuned, CheckpointStore(tmp_path / "whole"), {}))
    monkeypatch.setenv("REPRO_CACHE_DIR", str(tmp_path / "node"))
    sent = tuple(states_of(tuned, driver))
    assert [cell for cell, _ in sent] == [start]
    metrics, state = run_job(tuned, 1, identity(here), {"commit": "a" * 40}, "", sent)
    driver.take_over(tuned, state)
    assert driver.progress(tuned).metrics == metrics
    assert [metrics[curve] for curve in CURVES] == [expected[curve] for curve in CURVES]
    assert metrics["trained"]["commit"] == "a" * 40
    trained = CheckpointStore.of(here).progress(start).metrics
    assert trained == driver.progress(start).metrics  # seconds included: it was not run again


def test_a_node_that_is_not_what_the_sweep_began_with_runs_nothing(tmp_path: Path) -> None:
    with pytest.raises(ReproError, match="joined later differs"):
        run_job(SGD, 1, "other", {}, "", ())
    assert not (tmp_path / "cache").exists()


def test_nodes_must_be_alike_and_have_the_code_that_is_here(here: Environment) -> None:
    change = msgspec.structs.replace
    node = change(here, commit=None, dirty=None, cpu="of the nodes")
    alike = {"a:1": Node(node, ""), "b:1": Node(node, "")}
    found = require_alike(alike, here)
    assert (found.cpu, found.commit) == ("of the nodes", here.commit)
    for changes, message in (
        ({"source_sha256": "other"}, "b:1: hash of the source is other, here "),
        ({"versions": here.versions | {"torch": "0.1"}}, "b:1: version of torch is 0.1, here "),
        ({"versions": here.versions | {"own": "1"}}, "b:1: version of own is 1, here absent"),
        ({"cpu": "another"}, "b:1: processor is another, on a:1 of the nodes"),
        ({"gpu": "one"}, "b:1: GPU is one, on a:1"),
    ):
        with pytest.raises(ReproError, match=message):
            require_alike(alike | {"b:1": Node(change(node, **changes), "")}, here)


def test_ray_that_is_not_installed_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["sweep", "elasticzo_fig2", "--profile", "smoke", "--executor", "ray"]) == 2
    assert "pip install '.[ray]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give the artifact to sweep: elasticzo_search, elasticzo_table1"),
        (["mezo_fig3"], "mezo_fig3 has no training runs to sweep; use repro run, or"),
        (["mezo_fig4"], "whose times are results; use repro run --only-missing, or sweep one"),
        (["elasticzo_fig2", "--threads", "0"], "threads = 0"),
        (["elasticzo_fig2", "--workers", "0"], "workers = 0"),
        (["elasticzo_fig2", "--memory", "-1"], "memory = -1"),
        (["elasticzo_fig2", "--gpus-per-run", "1.5"], "--gpus-per-run 1.5: must be at most 1"),
        (
            ["elasticzo_fig2", "--address", "auto", "--dry-run"],
            "without --executor ray; add it",
        ),
        (
            ["elasticzo_fig2", "--executor", "ray", "--workers", "2"],
            "--workers 2 has no effect with --executor ray",
        ),
        (
            ["elasticzo_fig2", "--executor", "ray", "--memory", "2"],
            "--memory 2.0 has no effect with --executor ray",
        ),
        (
            ["elasticzo_fig2", "--gpus-per-run", "0.5"],
            "without --device cuda; add it, or leave",
        ),
    ],
)
def test_wrong_options_of_a_sweep(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_an_artifact_that_takes_no_records_refuses_to_fill_gaps(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "mezo_fig3", "--profile", "smoke", "--only-missing"]) == 2
    assert "mezo_fig3 cannot take results from earlier records" in capsys.readouterr().err


def test_an_artifact_without_language_models_saves_none(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["run", "mezo_fig3", "--save-models", str(tmp_path / "models")]) == 2
    assert "mezo_fig3 saves no models" in capsys.readouterr().err
    assert not (tmp_path / "models").exists()


def test_an_artifact_can_be_swept_if_its_run_trains_and_is_not_timed() -> None:
    from repro.artifacts.index import SLUGS, load

    directory = Path(__file__).parents[1] / "repro/artifacts"
    for slug in SLUGS:
        files = [directory / f"{slug}.py", *(directory / slug).glob("*.py")]
        text = "".join(file.read_text() for file in files if file.is_file())
        modules = ("training_runs", "ablation", "images")
        trains = any(f"repro.artifacts.shared.{name}" in text for name in modules)
        assert load(slug).can_sweep == (trains and not load(slug).timed), slug


SCRIPT = """
import sys
sys.path.insert(0, {tests!r})
import test_sweep as t
if __name__ == "__main__":
    list(t.LocalExecutor(t.capture(), workers=2).run(t.long_cells()))
"""


def long_cells() -> list[NetworkRun]:
    return [replace(SGD, seed=seed, epochs=400) for seed in (0, 1)]


@pytest.mark.slow
@pytest.mark.usefixtures("made_up_mnist")
def test_a_killed_worker_and_a_killed_driver_lose_nothing(
    tmp_path: Path, here: Environment
) -> None:
    script = tmp_path / "sweep.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parent)))
    store, wanted = CheckpointStore.of(here), long_cells()

    def workers() -> list[int]:
        """Processes with a lock in the store, by what Linux shows of their open files."""
        links = Path("/proc").glob("[0-9]*/fd/*")
        held = (link.parts[2] for link in links if _target(link).startswith(str(store.directory)))
        return sorted({int(process) for process in held})

    def wait_for_epochs(seed: int, epochs: int) -> None:
        while store.progress(wanted[seed]).epochs < epochs:
            time.sleep(0.05)

    with subprocess.Popen(
        [sys.executable, str(script)], stderr=subprocess.PIPE, text=True
    ) as driver:
        wait_for_epochs(0, 5)
        os.kill(workers()[0], signal.SIGKILL)
        wait_for_epochs(1, 20)
        driver.kill()
        orphans = workers()
        assert driver.stderr is not None
        driver.stderr.close()
    assert orphans  # which end with it
    while any(Path(f"/proc/{process}").exists() for process in orphans):
        time.sleep(0.2)
    begun = [store.progress(cell).epochs for cell in wanted]
    done = subprocess.run(
        [sys.executable, str(script)], check=True, stderr=subprocess.PIPE, text=True
    )
    assert "retrying" not in done.stderr
    for cell, epochs in zip(wanted, begun, strict=True):
        metrics = store.progress(cell).metrics
        assert metrics is not None
        assert 0 < epochs < cell.epochs == len(metrics["seconds"])
        expected = train_run(TrainingTask(cell, CheckpointStore(tmp_path / "whole"), {}))
        assert [metrics[curve] for curve in CURVES] == [expected[curve] for curve in CURVES]


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:  # it was closed meanwhile, or is another user's
        return ""
