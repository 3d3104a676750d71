"""Draws every figure of an artifact from one file of records."""

from pathlib import Path

from repro.artifacts import index
from repro.drawing.style import save
from repro.measurement.records import read_run


def draw(slug: str, run: Path, directory: Path) -> list[Path]:
    """Write the artifact's figures of the records ``run`` to ``directory``; return their paths.

    Raises:
        ReproError: the records are corrupted, or the directory cannot be written.
    """
    records = read_run(run)
    return [
        written
        for name, figure in index.load(slug).figures().items()
        for written in save(figure(records), directory, name)
    ]
