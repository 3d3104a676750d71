"""Cells: kept under what decides their outcome, never trained twice, begun where others end."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from filelock import FileLock

from made_up import HERE
from repro.core.leftovers import temporary_file, tidy
from repro.execution.schedule import RunOutcome, train_all
from repro.measurement import environment as environment_module
from repro.measurement.environment import Environment
from repro.training import build as build_module
from repro.training import store as store_module
from repro.training.build import build
from repro.training.learners import FloatLearner
from repro.training.run import FloatSettings, IntegerSettings, NetworkRun
from repro.training.store import CheckpointStore, identity
from repro.training.trainer import TrainingTask, train_run

pytestmark = pytest.mark.usefixtures("made_up_mnist")

SGD = NetworkRun("mnist", "fp32", "full_bp", FloatSettings(lr=0.05, batch=16), 2, 0)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Grows by one with each step in this process."""
    made: list[None] = []
    step = FloatLearner.step

    def counted(self: FloatLearner, *batch: Any) -> Any:
        made.append(None)
        return step(self, *batch)

    monkeypatch.setattr(FloatLearner, "step", counted)
    return made


class InThisProcess:
    """A pool that runs a cell when it is waited for."""

    def __init__(self, store: CheckpointStore, here: Environment) -> None:
        self.store, self.here = store, here
        self.begun: list[NetworkRun] = []

    def refusal(self, run: NetworkRun) -> str:  # noqa: ARG002
        return ""

    def has_room(self, run: NetworkRun) -> bool:  # noqa: ARG002
        return True

    def start(self, run: NetworkRun) -> None:
        self.begun.append(run)

    def wait(self) -> list[RunOutcome]:
        run = self.begun.pop(0)
        return [RunOutcome(run, train_run(TrainingTask(run, self.store, self.here.code)))]


def curves_of(*cells: NetworkRun, here: Environment = HERE) -> list[dict[str, Any]]:
    store = CheckpointStore.of(here)
    pool = InThisProcess(store, here)
    return [curves for _, curves in train_all(cells, store, pool, here.code)]


def task(cell: NetworkRun, directory: Path) -> TrainingTask:
    return TrainingTask(cell, CheckpointStore(directory), {"commit": "b" * 40, "dirty": True})


def test_finished_cell_is_taken_over_with_the_provenance_of_its_training(
    steps: list[None],
) -> None:
    first = curves_of(SGD, SGD)
    assert len(steps) == 4  # two epochs of two minibatches, once
    assert first[0]["trained"]["commit"] == "a" * 40
    assert first[0]["trained"]["dirty"] is False
    later = msgspec.structs.replace(HERE, commit="c" * 40, dirty=True)
    assert curves_of(SGD, here=later) == first
    assert len(steps) == 4
    nowhere = msgspec.structs.replace(HERE, commit=None, dirty=None)
    (curves,) = curves_of(replace(SGD, seed=1), here=nowhere)
    assert curves["trained"].keys() == {"utc", "engine", "threads"}  # records have no null


def test_cell_says_how_many_threads_trained_it(tmp_path: Path) -> None:
    metrics = train_run(TrainingTask(SGD, CheckpointStore(tmp_path, threads=2), {}))
    assert metrics["trained"]["threads"] == torch.get_num_threads() == 2


def test_a_run_goes_on_from_whichever_state_is_the_furthest(
    tmp_path: Path, steps: list[None]
) -> None:
    """Two steps an epoch: a run of 6 epochs killed after one, and whole runs of 3 and of 4."""
    store = CheckpointStore(tmp_path)
    whole = train_run(task(replace(SGD, epochs=6), tmp_path / "whole"))
    train_run(task(replace(SGD, epochs=1), tmp_path))
    begun = store.checkpoint(replace(SGD, epochs=1)).read()
    assert begun is not None
    store.take_over(replace(SGD, epochs=6), begun)
    for epochs in (3, 4):
        train_run(task(replace(SGD, epochs=epochs), tmp_path))
    store.checkpoint(replace(SGD, epochs=4)).path.write_bytes(b"damaged")
    steps.clear()
    longer = train_run(task(replace(SGD, epochs=8), tmp_path))
    assert len(steps) == 2 * (8 - 3)
    for name in ("test_loss", "test_accuracy", "train_loss"):
        assert longer[name][:7] == whole[name]
    steps.clear()
    assert train_run(task(replace(SGD, epochs=6), tmp_path))["test_loss"] == whole["test_loss"]
    assert len(steps) == 2 * (6 - 3)
    store.checkpoint(replace(SGD, epochs=2)).save({"of": "another program"})
    done = store.progress(replace(SGD, epochs=6))
    assert done.epochs == 6
    assert done.metrics is not None


def test_shorter_run_and_run_in_integers_are_trained_on_their_own(tmp_path: Path) -> None:
    longer = train_run(task(replace(SGD, epochs=3), tmp_path))
    shorter = train_run(task(SGD, tmp_path))
    assert shorter["test_loss"] == longer["test_loss"][:3]
    integers = replace(SGD, precision="int8", settings=IntegerSettings(), method="full_zo")
    train_run(task(integers, tmp_path))
    longer = train_run(task(replace(integers, epochs=3), tmp_path))
    whole = train_run(task(replace(integers, epochs=3), tmp_path / "whole"))
    assert longer["test_loss"] == whole["test_loss"]


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1},
        {"epochs": 3},
        {"method": "cls1"},
        {"task": "fashion_mnist"},
        {"evaluation": "validation"},
        {"train_items": 16},
        {"settings": FloatSettings(lr=0.06, batch=16)},
        {"settings": FloatSettings(lr=0.05, batch=16, eps=0.1)},
        {"precision": "int8", "settings": IntegerSettings()},
        {"start": SGD},
        {"start": replace(SGD, seed=1)},
    ],
)
def test_everything_in_a_cell_is_part_of_its_key(changes: dict[str, Any], tmp_path: Path) -> None:
    key = CheckpointStore(tmp_path).checkpoint
    assert key(replace(SGD, **changes)) != key(SGD)
    assert key(replace(SGD)) == key(SGD)
    assert CheckpointStore(tmp_path, threads=2).checkpoint(SGD) != key(SGD)


@pytest.mark.parametrize(
    "changes",
    [
        {"cpu": "two"},
        {"gpu": "one"},
        {"cpu_capability": "AVX512"},
        {"onednn": False},
        {"versions": {"torch": "2.16"}},
    ],
)
def test_another_machine_or_library_trains_anew(changes: dict[str, Any]) -> None:
    other = msgspec.structs.replace(HERE, **changes)
    assert identity(other) != identity(HERE)
    same = msgspec.structs.replace(HERE, commit="d" * 40, dirty=True, cores=64, memory_bytes=2)
    assert identity(same) == identity(HERE)


def test_changed_code_trains_anew_and_changed_hyperparameters_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = tmp_path / "repro"
    for name in store_module._PACKAGES:
        (code / name).mkdir(parents=True)
    names = ("training/hyperparameters.py", "training/loop.py", "data/base.py")
    for name in names:
        (code / name).write_text("before")
    monkeypatch.setattr(environment_module, "SOURCE", code)

    def now() -> str:
        environment_module.source_sha256.cache_clear()
        return identity(HERE)

    found = [now()]
    try:
        for name in names:
            (code / name).write_text("after")
            found.append(now())
    finally:
        environment_module.source_sha256.cache_clear()
    assert found[0] == found[1]
    assert len(set(found[1:])) == 3


def test_cell_begins_with_the_weights_that_another_ends_with(steps: list[None]) -> None:
    first, second = SGD, replace(SGD, seed=1, start=SGD)
    (before,) = curves_of(first)
    (after,) = curves_of(second)
    assert len(steps) == 8  # the first was not trained again
    for name in ("test_loss", "test_accuracy", "train_loss"):
        assert after[name][0] == before[name][-1]
    assert after["test_loss"][1] != before["test_loss"][1]


@pytest.mark.parametrize("left", [None, 0, 100])
def test_damaged_or_missing_start_is_trained_again(left: int | None, tmp_path: Path) -> None:
    tuned = replace(SGD, seed=1, start=SGD)
    expected = train_run(task(tuned, tmp_path / "whole"))
    place = tmp_path / "damaged"
    train_run(task(SGD, place))
    path = CheckpointStore(place).checkpoint(SGD).path
    content = path.read_bytes()
    path.unlink()
    if left is not None:
        path.write_bytes(content[:left])
    found = train_run(task(tuned, place))
    for name in ("test_loss", "test_accuracy", "train_loss"):
        assert found[name] == expected[name]


def test_killed_cell_with_a_start_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: list[None]
) -> None:
    tuned = replace(SGD, seed=1, start=SGD, epochs=3)
    expected = train_run(task(tuned, tmp_path / "whole"))
    step = FloatLearner.step
    begun = len(steps)

    def killed(self: FloatLearner, *batch: Any) -> Any:
        if len(steps) == begun + 4 + 3:  # the start's four steps, and the second epoch's first
            raise KeyboardInterrupt
        return step(self, *batch)

    with monkeypatch.context() as patch:
        patch.setattr(FloatLearner, "step", killed)
        with pytest.raises(KeyboardInterrupt):
            train_run(task(tuned, tmp_path / "parts"))
    before = len(steps)
    found = train_run(task(tuned, tmp_path / "parts"))
    assert len(steps) == before + 4  # two epochs were left
    for name in ("test_loss", "test_accuracy", "train_loss"):
        assert found[name] == expected[name]


def test_a_cell_that_another_process_runs_is_waited_for_and_taken_over(
    tmp_path: Path, steps: list[None], capfd: pytest.CaptureFixture[str]
) -> None:
    store = CheckpointStore(tmp_path / "shared")
    other = CheckpointStore(tmp_path / "other")
    begun = replace(SGD, epochs=1)
    train_run(TrainingTask(begun, other, {}))
    state = other.checkpoint(begun).read()
    assert state is not None
    with ThreadPoolExecutor() as pool:
        with store.locked(SGD):
            waiting = pool.submit(train_run, TrainingTask(SGD, store, {}))
            said = ""
            while "waiting for another process that trains it" not in said:
                assert not waiting.done()
                said += capfd.readouterr().err
                time.sleep(0.01)
            store.take_over(SGD, state)  # the other one gets to its first epoch, and ends
            assert not waiting.done()
        found = waiting.result()
    assert len(steps) == 4  # two by the other one and two here
    expected = train_run(TrainingTask(SGD, CheckpointStore(tmp_path / "whole"), {}))
    for name in ("test_loss", "test_accuracy", "train_loss"):
        assert found[name] == expected[name]


def test_a_finished_start_is_not_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[NetworkRun] = []

    def counted(cell: NetworkRun) -> Any:
        built.append(cell)
        return build(cell)

    monkeypatch.setattr(build_module, "build", counted)
    tuned = [replace(SGD, seed=seed, start=SGD) for seed in (1, 2)]
    for cell in (SGD, *tuned):
        train_run(task(cell, tmp_path))
    assert built == [SGD, *tuned]


def test_what_starts_from_a_diverged_run_is_marked_and_not_trained(steps: list[None]) -> None:
    wild = replace(SGD, settings=FloatSettings(lr=1e30, batch=16))
    tuned = replace(SGD, seed=1, start=wild)
    (before,) = curves_of(wild)
    assert before["diverged"]
    trained = len(steps)
    for _ in range(2):
        (curves,) = curves_of(tuned)
        assert curves["diverged"]
        said = f"the run it starts from, mnist fp32 full_bp seed 0, {before['divergence']}"
        assert curves["divergence"] == said
        assert curves["seconds"] == []
    assert len(steps) == trained
    json.dumps(curves, allow_nan=False)


def test_leftovers_of_killed_and_of_old_code_are_removed(tmp_path: Path) -> None:
    directory, other = tmp_path / "runs" / "now", tmp_path / "runs" / "before"
    ages = {
        directory / "done.pt": 90,
        directory / ".done.pt.repro-tmp-abcd1234": 1,
        other / ".old.pt.repro-tmp-abcd1234": 1,
        other / "recent.pt": 1,
        other / "old.pt": 90,
    }
    for path, days in ages.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (then := time.time() - days * 86400, then))
    held = other / "held.lock"
    with temporary_file(other / "being_written.pt") as (_, being_written), FileLock(held):
        os.utime(held, (then := time.time() - 90 * 86400, then))
        tidy(directory)
        left = {path.name for path in (tmp_path / "runs").glob("*/*")}
    assert left == {"done.pt", "recent.pt", "held.lock", being_written.name}
    tidy(directory)
    assert not held.exists()


SCRIPT = """
import json, sys
from dataclasses import replace
sys.path.insert(0, {tests!r})
import test_run_cells as t
from repro.core.paths import cache_dir
from repro.execution.local import LocalExecutor
if __name__ == "__main__":
    starts = [replace(t.SGD, seed=seed) for seed in range(2)]
    cells = [replace(t.SGD, seed=10 + start.seed, start=start) for start in starts]
    runs = [list(LocalExecutor(t.HERE, workers=2).run(cells)) for _ in range(2)]
    keyed = [{{cell.seed: curves for cell, curves in run}} for run in runs]
    print(json.dumps([*keyed, len(list(cache_dir().glob("runs/*/*.pt")))]))
"""


@pytest.mark.slow
def test_parallel_processes_train_what_one_does(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parent)))
    done = subprocess.run(
        [sys.executable, str(script)], check=True, stdout=subprocess.PIPE, text=True
    )
    first, again, kept = json.loads(done.stdout)
    assert first == again  # seconds included: nothing was trained a second time
    assert kept == 4
    for seed in range(2):
        cell = replace(SGD, seed=10 + seed, start=replace(SGD, seed=seed))
        here = train_run(task(cell, tmp_path / "here"))
        for name in ("test_loss", "test_accuracy", "train_loss"):
            assert first[str(10 + seed)][name] == pytest.approx(here[name], rel=1e-6)


def test_training_asks_only_for_operations_that_repeat_their_bits() -> None:
    """On CUDA PyTorch then takes such kernels; here it would refuse those that have none."""
    script = """
import torch
from torch.nn.functional import cross_entropy
from repro.measurement.device import require_same_bits
from repro.methods.elasticzo import ElasticZO
from repro.models.lenet5 import lenet5
from repro.models.pointnet import pointnet

require_same_bits()
assert torch.are_deterministic_algorithms_enabled()
for model, inputs in ((lenet5(), torch.rand(4, 1, 28, 28)), (pointnet(), torch.rand(4, 32, 3))):
    for partition in (0, len(model)):
        method = ElasticZO(model, partition, lr=1e-3, eps=1e-2)
        method.step(lambda: cross_entropy(model(inputs), torch.arange(4)))
"""
    subprocess.run([sys.executable, "-c", script], check=True)
