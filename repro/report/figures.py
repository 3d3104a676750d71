"""Draws every figure of an artifact from its records."""

from collections.abc import Sequence
from pathlib import Path

from repro.artifacts import index
from repro.measurement.records import read_runs
from repro.plotting.style import save


def draw(slug: str, runs: Sequence[Path], directory: Path) -> list[Path]:
    """Write the artifact's figures of the records in ``runs`` to ``directory``; return their paths.

    Raises:
        ReproError: the records are corrupted, or the directory cannot be written.
    """
    records = read_runs(runs)
    return [
        written
        for name, figure in index.load(slug).figures().items()
        for written in save(figure(records), directory, name)
    ]
