"""Draws every figure of an artifact from its newest records."""

from pathlib import Path

from repro.artifacts import index
from repro.drawing.style import save
from repro.measurement.records import latest_run, read_run


def draw(results: Path, slug: str) -> list[Path]:
    """Write the artifact's figures under ``results/<slug>/figures`` and return their paths.

    Returns an empty list where there are no records yet.

    Raises:
        ReproError: the records are corrupted, or the directory cannot be written.
    """
    path = latest_run(results / slug)
    if path is None:
        return []
    records = read_run(path)
    directory = results / slug / "figures"
    return [
        written
        for name, figure in index.load(slug).figures().items()
        for written in save(figure(records), directory, name)
    ]
