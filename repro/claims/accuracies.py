"""Compute our values for an artifact's claims on accuracies."""

from collections.abc import Iterable

from repro.claims import trained
from repro.claims.elasticzo import QUANTITIES
from repro.claims.index import of_artifact
from repro.claims.verdict import Finding
from repro.measurement.records import Record


def findings(slug: str, records: Iterable[Record]) -> list[Finding]:
    """Return a finding for every claim of the artifact ``slug``, from its records."""
    quantities = {claim.id: QUANTITIES[claim.id] for claim in of_artifact(slug)}
    return trained.findings(quantities, records)
