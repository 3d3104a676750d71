"""The records that figures, tables and verdicts are made from."""

from pathlib import Path

from repro.core.errors import ReproError
from repro.measurement.records import Record, latest_run, read_run


def newest_records(results: Path, slug: str) -> list[Record]:
    """Return the newest records of the artifact's highest profile.

    Raises:
        ReproError: there are none, or they are corrupted.
    """
    path = latest_run(results / slug)
    if path is None:
        msg = f"no records of {slug} in {results}: run `repro run {slug}` first"
        raise ReproError(msg)
    return read_run(path)
