"""Every claim with our value and verdict, from the records that stand."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from repro.artifacts import index
from repro.claims.claim import Claim
from repro.claims.index import CLAIMS
from repro.claims.verdict import (
    NOT_RUN,
    Finding,
    is_tested,
    judging_profiles,
    points_above,
    shown,
    verdict,
)
from repro.measurement.records import read_runs
from repro.report.runs import current_runs


@dataclass(frozen=True)
class ClaimRow:
    """One row of ``repro claims --json``: its fields are the stable, documented schema."""

    id: str
    """Identifier of the claim."""
    paper: str
    """``mezo`` or ``elasticzo``."""
    section: str
    """Section, figure or table of the paper."""
    artifact: str
    """Slug of the artifact that gives our value."""
    statement: str
    """The claim in our words."""
    relation: str
    """How ours is held against published: ``equals``, ``at least`` or ``at most``."""
    published: float
    """The paper's number."""
    digits: int
    """Decimals that the paper prints of it."""
    ours: float | None
    """Our number in the same unit; null if not run, or if the runs cannot tell."""
    interval: float | None
    """Half-width of the 95 % confidence interval of ``ours`` over seeds; null below two seeds."""
    bootstrap: tuple[float, float] | None
    """Ends of the interval of an accuracy, or of a difference of some, by the stratified bootstrap;
    null for all else and below two seeds. Verdicts are by ``interval``."""
    p_value: float | None
    """Of claims that one of several was trained to the higher accuracy: of an exact one-sided test
    over seeds; null for all else and below two seeds."""
    unit: str
    """``x`` is a ratio, ``GB`` is 1e9 bytes, ``MiB`` and ``KiB`` are 2**20 and 2**10, ``%`` is per
    cent, ``points`` percentage points, ``s`` seconds, ``settings`` a count."""
    basis: str
    """``analytic``, ``simulated``, ``measured``, ``timed`` or ``trained``."""
    verdict: str
    """One of ``repro.claims.verdict.VERDICTS``."""
    reason: str
    """How our value came about; where it differs, the suspected cause."""
    profile: str | None
    """Lowest profile of the records behind our value or verdict, or null if not run."""
    n_seeds: int
    """Independent seeds behind our value or verdict; 0 where nothing is random."""
    records: str | None
    """Name of the newest of ``record_files``, or null if not run."""
    record_files: list[str]
    """Names of the files of records that the artifact is read from; empty if not run."""

    @property
    def shown_verdict(self) -> str:
        """The verdict as people read it."""
        return shown(self.verdict, self.profile)

    @property
    def difference(self) -> float | None:
        """``ours`` less ``published``, or null without it."""
        return None if self.ours is None else self.ours - self.published

    def as_dict(self) -> dict[str, Any]:
        """Return the row as a JSON object, with ``difference``."""
        return {**asdict(self), "difference": self.difference}


def claim_rows(results: Path, slugs: Iterable[str] = index.SLUGS) -> list[ClaimRow]:
    """Return the rows of the claims of ``slugs``, each from the records that stand.

    Raises:
        UsageError: ``results`` is not a directory.
        ReproError: a file of records is corrupted or of a newer schema.
    """
    return [row for slug in slugs for row in run_rows(slug, current_runs(results, slug))]


def run_rows(slug: str, runs: Sequence[Path]) -> list[ClaimRow]:
    """Return the rows of an artifact's claims from the files ``runs``, newest first.

    Without any, the claims are not run.
    """
    artifact = index.load(slug)
    claims = [CLAIMS[claim_id] for claim_id in artifact.claims]
    if not runs:
        reason = f"no records yet: repro run {slug}"
        return [_row(claim, Finding(claim.id, None, reason), None, []) for claim in claims]
    records = read_runs(runs)
    found = {finding.claim_id: finding for finding in artifact.findings(records)}
    names = [run.name for run in runs]
    return [_row(claim, found[claim.id], records[0].profile, names) for claim in claims]


def _row(claim: Claim, finding: Finding, run_profile: str | None, files: list[str]) -> ClaimRow:
    profile = (finding.profile or run_profile) if finding.is_run else None
    label, reason = verdict(claim, finding), finding.reason
    if (points := points_above(claim, finding)) > 0:
        reason += f"; {points:g} points above the published"
    if finding.is_run and label == NOT_RUN:
        judging = ", ".join(judging_profiles(claim))
        reason += f"; profile {profile}, of which only {judging} gives a verdict"
    return ClaimRow(
        id=claim.id,
        paper=claim.paper,
        section=claim.section,
        artifact=claim.artifact,
        statement=claim.statement,
        relation=claim.relation,
        published=claim.published,
        digits=claim.digits,
        ours=finding.ours,
        interval=finding.interval,
        bootstrap=finding.bootstrap,
        p_value=finding.p_value if is_tested(claim) else None,
        unit=claim.unit,
        basis=claim.basis,
        verdict=label,
        reason=reason,
        profile=profile,
        n_seeds=finding.n_seeds,
        records=files[0] if finding.is_run else None,
        record_files=files if finding.is_run else [],
    )
