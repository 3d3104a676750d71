"""The paper puts no number on its loss curves."""

from collections.abc import Sequence

from repro.claims.verdict import Finding
from repro.measurement.records import Record


def findings(records: Sequence[Record]) -> list[Finding]:  # noqa: ARG001 - the same for all
    """Return nothing: there is no number to hold ours against."""
    return []
