"""Our accuracy for every number of the table."""

from collections.abc import Sequence

from repro.artifacts.elasticzo_table2 import ARTIFACT
from repro.claims.elasticzo import QUANTITIES
from repro.claims.trained import findings as trained
from repro.claims.verdict import Finding
from repro.measurement.records import Record


def findings(records: Sequence[Record]) -> list[Finding]:
    """Return a finding for every claim of the artifact."""
    return trained({claim_id: QUANTITIES[claim_id] for claim_id in ARTIFACT.claims}, records)
