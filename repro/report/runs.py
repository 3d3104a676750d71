"""Select the files of records from which figures, tables and verdicts are made."""

from pathlib import Path

from repro.artifacts import index
from repro.core.errors import ReproError, UsageError
from repro.measurement.records import CUSTOM, profile_of, rank, run_files

RECORDS = "REPRO_RECORDS"
"""Environment variable with the record files that a notebook shows, separated as in ``PATH``."""


def current_runs(results: Path, slug: str) -> list[Path]:
    """Return the files that hold the artifact's current results, newest first.

    For an artifact with selector fields these are all runs of its profiles, since each may hold
    other training runs; smoke runs count only if there are no others. For any other artifact it is
    the newest run of its highest profile. Custom runs count only if the artifact ``reads_custom``.

    Raises:
        UsageError: ``results`` is not a directory.
        ReproError: a file there does not have the name of a run file.
    """
    if not results.is_dir():
        msg = f"results directory {results} does not exist; give --results DIR, or run something"
        raise UsageError(msg)
    artifact = index.load(slug)
    runs = run_files(results / slug)[::-1]
    if not artifact.reads_custom:  # a profile's results come from its own configuration
        runs = [path for path in runs if profile_of(path) != CUSTOM]
    if artifact.reads_custom or artifact.selector_fields:
        # a smoke run shows only that the artifact runs
        return [path for path in runs if profile_of(path) != "smoke"] or runs
    # of several with the highest rank the first, which is the newest
    return [max(runs, key=lambda path: rank(profile_of(path)))] if runs else []


def require_runs(results: Path, slug: str) -> list[Path]:
    """Return ``current_runs``, which must not be empty.

    Raises:
        UsageError: ``results`` is not a directory.
        ReproError: there are no records of the artifact, or only custom ones.
    """
    runs = current_runs(results, slug)
    if not runs:
        if run_files(results / slug):
            raise ReproError(
                f"only custom runs of {slug} in {results}, which reports leave out: run a profile "
                "as it is, or give --report to the custom run"
            )
        raise ReproError(f"no records of {slug} in {results}: run `repro run {slug}` first")
    return runs
