"""Which file of records figures, tables and verdicts are made from."""

from pathlib import Path

from repro.core.errors import ReproError, UsageError
from repro.measurement.records import latest_run


def newest_run(results: Path, slug: str) -> Path:
    """Return the newest records of the artifact's highest profile.

    Raises:
        UsageError: ``results`` is not a directory.
        ReproError: there are no records of the artifact.
    """
    require_results(results)
    path = latest_run(results / slug)
    if path is None:
        msg = f"no records of {slug} in {results}: run `repro run {slug}` first"
        raise ReproError(msg)
    return path


def require_results(results: Path) -> None:
    """Raise ``UsageError`` unless ``results`` is a directory."""
    if not results.is_dir():
        msg = f"results directory {results} does not exist; give --results DIR, or run something"
        raise UsageError(msg)
