"""Which files of records figures, tables and verdicts are made from."""

from pathlib import Path

from repro.artifacts import index
from repro.core.errors import ReproError, UsageError
from repro.measurement.records import latest_run, profile_runs, run_files


def current_runs(results: Path, slug: str) -> list[Path]:
    """Return the files that people read the artifact's results from, newest first.

    An artifact with selector fields is read from all runs of its profiles, as each may hold other
    training runs; any other from the newest run of its highest profile. Runs of no profile count
    where the artifact ``reads_custom``.

    Raises:
        UsageError: ``results`` is not a directory.
        ReproError: a file there has a name that no run gives.
    """
    if not results.is_dir():
        msg = f"results directory {results} does not exist; give --results DIR, or run something"
        raise UsageError(msg)
    directory = results / slug
    artifact = index.load(slug)
    if artifact.reads_custom:
        return run_files(directory)[::-1]
    if artifact.selector_fields:
        return profile_runs(directory)
    newest = latest_run(directory)
    return [] if newest is None else [newest]


def require_runs(results: Path, slug: str) -> list[Path]:
    """Return what ``current_runs`` does, if it is anything.

    Raises:
        UsageError: ``results`` is not a directory.
        ReproError: there are no records of the artifact.
    """
    runs = current_runs(results, slug)
    if not runs:
        msg = f"no records of {slug} in {results}: run `repro run {slug}` first"
        raise ReproError(msg)
    return runs
