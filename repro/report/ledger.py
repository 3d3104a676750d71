"""Read the statements from the records, or from the summary in the package."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from repro import __version__
from repro.artifacts import index
from repro.core.paths import results_dir
from repro.report.claims_table import ClaimRow, claim_rows
from repro.report.summary import read_summary


@dataclass(frozen=True)
class Ledger:
    """The statements with our values and verdicts."""

    rows: Sequence[ClaimRow]
    note: str = ""
    """A line for the user about the source; empty if the records are read."""


def read_ledger(results: Path | None) -> Ledger:
    """Return the statements from the records in ``results``.

    Without ``results``, read the default directory; if it holds no records, as outside a clone,
    return the package's summary.

    Raises:
        UsageError: ``results`` is not a directory.
        ReproError: a file of records is corrupted or of a newer schema.
    """
    directory = results or results_dir()
    held = any(next((directory / slug).glob("*.jsonl"), None) for slug in index.SLUGS)
    if results is not None or "REPRO_RESULTS" in os.environ or held:
        return Ledger(claim_rows(directory))
    rows = [msgspec.convert(claim, ClaimRow) for claim in read_summary().claims]
    note = (
        f"No records in {directory}: these are the results that zo-repro {__version__} was "
        "released with.\n"
    )
    return Ledger(rows, note)
