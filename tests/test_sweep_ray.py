"""A sweep on a real Ray cluster of two nodes, of which one is killed in the middle."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from repro.execution.local import LocalExecutor
from repro.measurement.environment import capture
from repro.measurement.records import Record, read_run
from repro.training.run import FloatSettings, NetworkRun
from repro.training.store import CheckpointStore

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (extra: ray)"),
    pytest.mark.usefixtures("made_up_mnist"),
]

START = NetworkRun("mnist", "fp32", "full_bp", FloatSettings(lr=0.05, batch=16), 2, 0)
CURVES = ("test_loss", "test_accuracy", "train_loss")
RAY = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",  # whether or not this user has a token
    "RAY_enable_metrics_collection": "0",
    "RAY_memory_monitor_refresh_ms": "0",  # other processes' memory is not the test's matter
    "RAY_worker_niceness": "0",
    # a dead node is noticed, and its workers end, in one second and not in fifteen
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "2",
    "RAY_raylet_death_check_interval_milliseconds": "100",
}
"""Settings of ``ray_config_def.h`` and ``ray_constants.py``."""

SCRIPT = """
import json, sys, threading, time
from pathlib import Path

sys.path.insert(0, {tests!r})
import test_sweep_ray as t
from repro.execution.cluster import cluster

PLACE = Path({place!r})

def kill_in_the_middle(nodes, second):
    while not list(PLACE.glob("second/runs/*/*.pt")):  # a run has begun there
        time.sleep(0.02)
    nodes.remove_node(second, allow_graceful=False)
    print("killed", json.dumps(len(nodes.list_all_nodes())), flush=True)

if __name__ == "__main__":
    nodes, second = t.two_nodes(PLACE)
    with cluster(nodes.address, threads=1, gpus=0) as executor:
        print("nodes", json.dumps(len(executor.nodes)), flush=True)
        threading.Thread(target=kill_in_the_middle, args=[nodes, second], daemon=True).start()
        for name in ("ended", "again"):
            ended = [(cell.seed, metrics) for cell, metrics in executor.run(t.cells())]
            print(name, json.dumps(ended), flush=True)
    nodes.shutdown()
"""


CLUSTER = """
import sys
from pathlib import Path

sys.path.insert(0, {tests!r})
import test_sweep_ray as t

if __name__ == "__main__":
    nodes, second = t.two_nodes(Path({place!r}))
    print("address", nodes.address, flush=True)
    sys.stdin.readline()
    nodes.remove_node(second, allow_graceful=False)
    sys.stdin.read()
    nodes.shutdown()
"""
"""A cluster that loses its second node at a first line of input, and ends with its input."""
EPOCHS = 200
SWEEP = ["--profile", "smoke", "--methods", "full_bp", "cls1", "--seeds", "0", "1", "2"]
"""Of ``elasticzo_fig2``: six cells, three for each of two nodes."""


def two_nodes(place: Path) -> Any:
    """Begin a cluster of two nodes with a CPU each; return it, and the second node."""
    from ray.cluster_utils import Cluster

    def node(name: str) -> dict[str, Any]:
        return {
            "num_cpus": 1,
            "memory": 2**31,
            "object_store_memory": 80 * 2**20,
            "env_vars": {"REPRO_CACHE_DIR": str(place / name)},
        }

    head = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
    nodes = Cluster(initialize_head=True, head_node_args=node("first") | head)
    return nodes, nodes.add_node(**node("second"))


def cells() -> list[NetworkRun]:
    long = [replace(START, seed=seed, epochs=300) for seed in (1, 2, 3)]
    return [*long, replace(START, seed=4, start=START)]


@pytest.fixture
def ray_directory() -> Iterator[str]:
    """Where Ray keeps its sockets, whose paths may have 107 characters; removed with its logs."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as directory:
        yield directory


def test_a_killed_node_loses_nothing_and_nothing_is_done_twice(
    tmp_path: Path, ray_directory: str
) -> None:
    script = tmp_path / "sweep.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parent), place=str(tmp_path)))
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **RAY, "RAY_TMPDIR": ray_directory},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = {}
    for line in done.stdout.splitlines():
        name, _, value = line.partition(" ")
        if name in ("nodes", "killed", "ended", "again"):  # Ray prints, too
            said[name] = json.loads(value)
    assert (said["nodes"], said["killed"]) == (2, 1)
    assert done.stderr.count("its worker or node was lost") == 1
    assert "(NodeDiedError); retrying" in done.stderr
    assert sorted(seed for seed, _ in said["ended"]) == [1, 2, 3, 4]
    assert sorted(said["again"]) == sorted(said["ended"])  # dates and seconds included

    here = capture()
    store = CheckpointStore.of(here)
    kept = list(store.directory.glob("*.pt"))
    assert len(kept) == 5  # each cell once, and the one that another starts from
    for path in kept:
        path.unlink()
    on_cluster = dict(said["ended"])
    for cell, metrics in LocalExecutor(here, workers=2).run(cells()):
        found = on_cluster[cell.seed]
        assert len(found["seconds"]) == cell.epochs
        assert [found[curve] for curve in CURVES] == [metrics[curve] for curve in CURVES]


def sweep(out: Path, cache: Path, *options: str) -> "subprocess.Popen[str]":
    """Begin ``repro sweep`` as a user does."""
    where = ["--epochs", str(EPOCHS), "--out", str(out), *options]
    return subprocess.Popen(
        [sys.executable, "-m", "repro", "sweep", "elasticzo_fig2", *SWEEP, *where],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "REPRO_CACHE_DIR": str(cache)},
    )


def recorded(command: "subprocess.Popen[str]") -> tuple[list[Record], str]:
    """Return the records that a sweep has written, and what it said meanwhile."""
    said, complaints = command.communicate(timeout=300)
    assert command.returncode == 0, complaints
    return read_run(Path(said.splitlines()[-1])), complaints


def states(cache: Path) -> set[str]:
    """Return the names of the cells that are done or begun in a cache directory."""
    return {path.name for path in cache.glob("runs/*/*.pt")}


def results_of(records: list[Record], *names: str) -> dict[tuple[str, int | None], list[Any]]:
    return {
        (record.point["method"], record.seed): [record.metrics[name] for name in names]
        for record in records
    }


def test_the_command_loses_a_node_and_records_each_cell_once(
    tmp_path: Path, ray_directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**RAY, "RAY_TMPDIR": ray_directory}.items():
        monkeypatch.setenv(name, value)
    script = tmp_path / "cluster.py"
    script.write_text(CLUSTER.format(tests=str(Path(__file__).parent), place=str(tmp_path)))
    first, second, driver = (tmp_path / name for name in ("first", "second", "driver"))
    with subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as nodes:
        assert nodes.stdin is not None
        assert nodes.stdout is not None
        lines = (line.split() for line in nodes.stdout)
        address = next(words[1] for words in lines if words[:1] == ["address"])
        on_ray = ["--executor", "ray", "--address", address]
        command = sweep(tmp_path / "out", driver, *on_ray)
        # until the second node has ended a cell, which the driver has, and begun another
        while not (states(second) & states(driver) and states(second) - states(driver)):
            assert command.poll() is None, command.communicate()
            time.sleep(0.02)
        (lost,) = states(second) - states(driver)
        nodes.stdin.write("kill\n")
        nodes.stdin.flush()
        records, complaints = recorded(command)
        again, _ = recorded(sweep(tmp_path / "again", driver, *on_ray))
        nodes.stdin.close()

    assert complaints.count("(NodeDiedError); retrying") == 1
    asked = [(method, seed) for method in ("cls1", "full_bp") for seed in (0, 1, 2)]
    assert sorted((r.point["method"], r.seed or 0) for r in records) == asked  # none lost or twice
    assert all(len(record.metrics["seconds"]) == EPOCHS for record in records)
    assert len(states(driver)) == len(asked)
    # a cell leaves its state wherever it is trained: on two nodes only the one that was lost
    assert states(first) | states(second) == states(driver)
    assert states(first) & states(second) == {lost}
    everything = ("seconds", "trained", *CURVES)  # with dates and seconds: read, not trained again
    assert results_of(again, *everything) == results_of(records, *everything)
    here, _ = recorded(sweep(tmp_path / "here", tmp_path / "local", "--workers", "2"))
    assert results_of(here, *CURVES) == results_of(records, *CURVES)
