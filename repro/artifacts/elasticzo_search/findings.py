"""No claim is answered by the search."""

from collections.abc import Sequence

from repro.claims.verdict import Finding
from repro.measurement.records import Record


def findings(records: Sequence[Record]) -> list[Finding]:  # noqa: ARG001 - the same for all
    """Return nothing: the paper does not publish what it searched."""
    return []
