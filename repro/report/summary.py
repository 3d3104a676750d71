"""The summary of the ledger in the package, for use without the records.

``repro report --readme`` writes it, and a test compares it with the committed records.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.artifacts import index
from repro.core import atomic
from repro.measurement.records import Record, read_runs
from repro.report.runs import current_runs

SUMMARY = Path(__file__).with_name("summary.json")


@dataclass(frozen=True)
class Summary:
    """The verdicts and costs of all artifacts at the time of the release."""

    claims: list[dict[str, Any]]
    """The statements, each as ``repro claims --json`` prints it."""
    recorded_seconds: dict[str, float]
    """Compute time in the records, by slug; artifacts without recorded times are missing."""


def read_summary() -> Summary:
    """Return the package's summary."""
    return Summary(**json.loads(SUMMARY.read_text(encoding="utf-8")))


def write_summary(results: Path, claims: Sequence[dict[str, Any]], path: Path) -> None:
    """Write the statements and the recorded time of each artifact, one statement a line."""
    known = recorded_times(results)
    lines = ",\n".join(json.dumps(claim, ensure_ascii=False) for claim in claims)
    text = f'{{"recorded_seconds": {json.dumps(known)},\n"claims": [\n{lines}\n]}}\n'
    atomic.replace(path, text.encode())


def recorded_times(results: Path) -> dict[str, int]:
    """Return the compute time in seconds of each artifact's current records, if recorded."""
    known = {}
    for slug in index.SLUGS:
        paths = current_runs(results, slug)
        total = recorded_seconds(read_runs(paths)) if paths else None
        if total is not None:
            known[slug] = round(total)
    return known


def recorded_seconds(records: Sequence[Record]) -> float | None:
    """Return the total compute time of the records, or ``None`` if none holds a time."""
    found = [seconds for record in records if (seconds := seconds_of(record)) is not None]
    return sum(found) if found else None


def seconds_of(record: Record) -> float | None:
    """Return the duration of a record: the sum over its epochs, or the last time of its clock."""
    seconds = record.metrics.get("seconds")
    if not isinstance(seconds, list) or not seconds:
        return None
    return float(seconds[-1] if seconds[0] == 0 else sum(seconds))
