"""Draw every figure of an artifact from its records."""

from collections.abc import Sequence
from pathlib import Path

from repro.artifacts import index
from repro.core.paths import sha256_of
from repro.measurement.records import read_runs
from repro.report.kept import kept, key_of


def draw(slug: str, runs: Sequence[Path], directory: Path) -> list[Path]:
    """Write the artifact's figures of the records in ``runs`` to ``directory``; return their paths.

    Figures already drawn from the same records by the same code are kept.

    Raises:
        ReproError: the records are corrupted, or the directory cannot be written.
    """
    key = key_of(runs, str(directory.resolve()))
    drawn: list[Path] = []

    def hashes() -> dict[str, str]:
        drawn.extend(_draw(slug, runs, directory))
        return {path.name: sha256_of(path) for path in drawn}

    name = f"figures-{slug}"
    expected = kept(name, key, hashes)
    paths = [directory / file for file in expected]
    if drawn or all(path.is_file() and sha256_of(path) == expected[path.name] for path in paths):
        return paths
    return _draw(slug, runs, directory)  # the files were changed or removed


def _draw(slug: str, runs: Sequence[Path], directory: Path) -> list[Path]:
    from repro.plotting.style import save  # imports seaborn, which takes seconds

    records = read_runs(runs)
    return [
        written
        for name, figure in index.load(slug).figures.items()
        for written in save(figure(records), directory, name)
    ]
