"""Every kind of training run of Table 1, stopped at every epoch, or with a living orphan."""

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from repro.core.names import METHODS, PRECISIONS, Engine, MethodName, Precision
from repro.training import loop
from repro.training.run import FloatSettings, IntegerSettings, NetworkRun
from repro.training.store import CheckpointStore
from repro.training.trainer import TrainingTask, train_run

pytestmark = pytest.mark.usefixtures("engine", "made_up_mnist")

EPOCHS = 4


def table() -> Iterator[tuple[Precision, MethodName, Engine]]:
    """The rows and columns of the table: INT8* by full BP would be INT8."""
    for precision, method, engine in product(PRECISIONS, METHODS, ("torch", "native")):
        if (precision, method) != ("int8_star", "full_bp"):
            yield precision, method, engine  # type: ignore[misc]


def run(network_run: NetworkRun, directory: Path) -> dict[str, Any]:
    return train_run(TrainingTask(network_run, CheckpointStore(directory)))


def without_times(metrics: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metrics.items() if name not in ("seconds", "trained")}


class StoppedError(Exception):
    """The run was ended here."""


@pytest.mark.parametrize(("precision", "method", "engine_name"), list(table()))
def test_a_run_stopped_at_every_epoch_is_the_uninterrupted_one(
    precision: Precision,
    method: MethodName,
    engine_name: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = (
        FloatSettings(lr=0.02, batch=12) if precision == "fp32" else IntegerSettings(batch=12)
    )
    network_run = NetworkRun("mnist", precision, method, settings, EPOCHS, 0, engine=engine_name)
    expected = run(network_run, tmp_path / "whole")
    save = loop._Saver.save

    def save_and_stop(saver: Any) -> None:
        save(saver)
        raise StoppedError

    monkeypatch.setattr(loop._Saver, "save", save_and_stop)
    for _ in range(1 + EPOCHS):  # before the first epoch, and after each
        with pytest.raises(StoppedError):
            run(network_run, tmp_path / "parts")
    monkeypatch.setattr(loop._Saver, "save", save)
    found = run(network_run, tmp_path / "parts")
    assert len(found["seconds"]) == EPOCHS
    assert without_times(found) == without_times(expected)


ORPHAN = """
import json, os, signal, sys
from pathlib import Path
sys.path[:0] = {paths!r}
from faults.test_resume import FloatSettings, NetworkRun, run
from repro.core import atomic

network_run = NetworkRun("mnist", "fp32", "cls1", FloatSettings(lr=0.02, batch=12), 6, 0)
place, end = Path(sys.argv[1]), sys.argv[2]
run(NetworkRun("mnist", "fp32", "cls1", FloatSettings(lr=0.02, batch=12), 1, 1), place / "first")
saving, reached = os.pipe()
going, go = os.pipe()
orphan = os.fork()
if orphan == 0:  # stops in the middle of its third save, as an orphan may
    os.close(go)
    sync, saves = os.fsync, []
    def stop(descriptor):
        saves.append(None)
        if len(saves) == 3:
            os.write(reached, b"x")
            os.read(going, 1)
        sync(descriptor)
    atomic.os.fsync = stop
    run(network_run, place / "parts")
    os._exit(0)
os.read(saving, 1)
said, say = os.pipe()
resumed = os.fork()
if resumed == 0:
    os.dup2(say, 2)
    metrics = run(network_run, place / "parts")
    (place / "resumed").write_text(json.dumps(metrics))
    os._exit(0)
os.read(said, 1)  # it waits for the other one
if end == "killed":
    os.kill(orphan, signal.SIGKILL)
else:
    os.write(go, b"x")
os.waitpid(orphan, 0)
assert os.waitstatus_to_exitcode(os.waitpid(resumed, 0)[1]) == 0
"""


@pytest.mark.parametrize("end", ["killed", "goes on"])
def test_a_resumed_run_and_an_orphan_do_not_write_the_same_state(end: str, tmp_path: Path) -> None:
    tests = Path(__file__).parents[1]
    script = ORPHAN.format(paths=[str(tests.parent), str(tests)])
    subprocess.run([sys.executable, "-c", script, tmp_path, end], check=True, timeout=300)
    resumed = json.loads((tmp_path / "resumed").read_text())
    network_run = NetworkRun("mnist", "fp32", "cls1", FloatSettings(lr=0.02, batch=12), 6, 0)
    assert without_times(resumed) == without_times(run(network_run, tmp_path / "whole"))
    kept = run(network_run, tmp_path / "parts")  # from its checkpoint: the last that was written
    assert kept == resumed
