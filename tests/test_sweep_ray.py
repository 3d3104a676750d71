"""A sweep on a real Ray cluster of two nodes, of which one is killed in the middle."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from repro.execution.local import LocalExecutor
from repro.measurement.environment import capture
from repro.training.cell import Cell, FloatSettings
from repro.training.cell_store import CellStore

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (extra: ray)"),
    pytest.mark.usefixtures("made_up_mnist"),
]

START = Cell("mnist", "fp32", "full_bp", FloatSettings(lr=0.05, batch=16), 2, 0)
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
from ray.cluster_utils import Cluster
import test_sweep_ray as t
from repro.execution.cluster import cluster

PLACE = Path({place!r})

def node(name):
    return {{
        "num_cpus": 1,
        "memory": 2**31,
        "object_store_memory": 80 * 2**20,
        "env_vars": {{"REPRO_CACHE_DIR": str(PLACE / name)}},
    }}

def kill_in_the_middle(nodes, second):
    while not list(PLACE.glob("second/cells/*/*.pt")):  # an epoch of a cell is done there
        time.sleep(0.02)
    nodes.remove_node(second, allow_graceful=False)
    print("killed", json.dumps(len(nodes.list_all_nodes())), flush=True)

if __name__ == "__main__":
    head = dict(include_dashboard=False, include_log_monitor=False, no_monitor=True)
    nodes = Cluster(initialize_head=True, head_node_args=node("first") | head)
    second = nodes.add_node(**node("second"))
    with cluster(nodes.address, threads=1, gpus=0) as executor:
        print("nodes", json.dumps(len(executor.nodes)), flush=True)
        threading.Thread(target=kill_in_the_middle, args=[nodes, second], daemon=True).start()
        for name in ("ended", "again"):
            ended = [(cell.seed, metrics) for cell, metrics in executor.run(t.cells())]
            print(name, json.dumps(ended), flush=True)
    nodes.shutdown()
"""


def cells() -> list[Cell]:
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
    assert "(NodeDiedError); begun again" in done.stderr
    assert sorted(seed for seed, _ in said["ended"]) == [1, 2, 3, 4]
    assert sorted(said["again"]) == sorted(said["ended"])  # dates and seconds included

    here = capture()
    store = CellStore.of(here)
    kept = list(store.directory.glob("*.pt"))
    assert len(kept) == 5  # each cell once, and the one that another starts from
    for path in kept:
        path.unlink()
    on_cluster = dict(said["ended"])
    for cell, metrics in LocalExecutor(here, workers=2).run(cells()):
        found = on_cluster[cell.seed]
        assert len(found["seconds"]) == cell.epochs
        assert [found[curve] for curve in CURVES] == [metrics[curve] for curve in CURVES]
