"""Draws every figure of an artifact from its newest records."""

from pathlib import Path

from repro.artifacts import index
from repro.drawing.style import save
from repro.report.newest import newest_records


def draw(results: Path, slug: str) -> list[Path]:
    """Write the artifact's figures under ``results/<slug>/figures`` and return their paths.

    Raises:
        ReproError: there are no records or they are corrupted, or nothing can be written there.
    """
    records = newest_records(results, slug)
    directory = results / slug / "figures"
    return [
        written
        for name, figure in index.load(slug).figures().items()
        for written in save(figure(records), directory, name)
    ]
