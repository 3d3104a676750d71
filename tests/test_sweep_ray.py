"""A sweep on a real Ray cluster of two nodes, of which one is killed in the middle."""

import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

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

SCRIPT = """
import os, sys, threading, time
from pathlib import Path

sys.path.insert(0, {tests!r})
import ray
from ray.cluster_utils import Cluster
import test_sweep_ray as t
from repro.execution.cluster import cluster

def kill(nodes, cache):
    while not list((cache / "cells").glob("*/*.pt")):  # an epoch of a cell is done there
        time.sleep(0.02)
    nodes.remove_node(nodes.worker_nodes_by_name["second"], allow_graceful=False)
    print("killed", flush=True)

if __name__ == "__main__":
    place = Path({place!r})
    nodes = Cluster(
        initialize_head=True, head_node_args={{"num_cpus": 0, "include_dashboard": False}}
    )
    nodes.worker_nodes_by_name = {{
        name: nodes.add_node(num_cpus=1, env_vars={{"REPRO_CACHE_DIR": str(place / name)}})
        for name in ("first", "second")
    }}
    with cluster(nodes.address, threads=1, gpus=0) as executor:
        assert len(executor.nodes) == 2
        threading.Thread(target=kill, args=[nodes, place / "second"], daemon=True).start()
        ended = [cell.seed for cell, _ in executor.run(t.cells())]
        print("ended", *ended, flush=True)
        again = [cell.seed for cell, _ in executor.run(t.cells())]
        print("again", *again, flush=True)
    nodes.shutdown()
"""


def cells() -> list[Cell]:
    long = [replace(START, seed=seed, epochs=150) for seed in (1, 2, 3)]
    return [*long, replace(START, seed=4, start=START)]


def test_a_killed_node_loses_nothing_and_nothing_is_done_twice(tmp_path: Path) -> None:
    script = tmp_path / "sweep.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parent), place=str(tmp_path)))
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = dict(line.partition(" ")[::2] for line in done.stdout.splitlines())
    assert "killed" in said
    assert sorted(said["ended"].split()) == sorted(said["again"].split()) == ["1", "2", "3", "4"]
    assert "its worker or node was lost (NodeDiedError); begun again" in done.stderr

    here = capture()
    store = CellStore.of(here)
    kept = list(store.directory.glob("*.pt"))
    assert len(kept) == 5  # each cell once, and the one that another starts from
    on_cluster = {cell: store.progress(cell).metrics for cell in cells()}
    for path in kept:
        path.unlink()
    for cell, metrics in LocalExecutor(here, workers=2).run(cells()):
        found = on_cluster[cell]
        assert found is not None
        assert [found[curve] for curve in CURVES] == [metrics[curve] for curve in CURVES]
