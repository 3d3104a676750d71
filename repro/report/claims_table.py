"""The ledger: every published statement with our values by basis and one verdict."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import msgspec

from repro import __version__
from repro.artifacts import index
from repro.claims.claim import Basis, Claim
from repro.claims.elasticzo import QUANTITIES
from repro.claims.index import CLAIMS
from repro.claims.loss_curves import CONTRASTS
from repro.claims.plausible import contrast_range, plausible_ranges
from repro.claims.quantity import Accuracy, Point, key
from repro.claims.statistics import holm
from repro.claims.verdict import (
    CORRECTED,
    NOT_RUN,
    UNDECIDED,
    Finding,
    best_epoch_verdict,
    is_ranking,
    judging_profiles,
    shown,
    verdict,
)
from repro.core.errors import ReproError
from repro.core.paths import results_dir
from repro.measurement.records import of_kind, rank, read_run, read_runs, together
from repro.report.commands import command_of, missing_command
from repro.report.runs import current_runs
from repro.report.summary import read_summary

SCHEMA = 2
"""Version of ``repro claims --json``; docs/json.md has the fields."""
BASES: dict[Basis, str] = {name: name for name in get_args(Basis)} | {"analytic": "equations"}
"""The ledger's name of each basis."""
_OF_THE_CLAIM = (
    *("id", "paper", "section", "artifact", "quote", "statement", "is_stated", "relation"),
    *("published", "digits", "unit"),
)
"""Fields copied from the claim."""
_OPEN_SETTINGS = "elasticzo_discrepancies"
"""The artifact that varies the settings left open by the ElasticZO paper."""


@dataclass(frozen=True)
class ClaimRow:
    """One statement of the ledger."""

    id: str
    """Identifier of the statement."""
    paper: str
    """``mezo`` or ``elasticzo``."""
    section: str
    """Section, figure or table of the paper."""
    artifact: str
    """Slug of the artifact that gives our value."""
    quote: str
    """The paper's words; for a number in a table, its row and column."""
    statement: str
    """The statement in our words."""
    is_stated: bool
    """Whether the paper states it explicitly; a ranking may be our reading of a table."""
    relation: str
    """How our value is compared with the published one: ``equals``, ``at least`` or ``at most``."""
    published: float
    """The paper's number; if ``printed`` differs, after the ``correction``."""
    printed: float
    """The number as printed in the paper."""
    digits: int
    """Number of decimals printed in the paper."""
    unit: str
    """``x`` is a ratio, ``GB`` is 1e9 bytes, ``MiB`` and ``KiB`` are 2**20 and 2**10, ``%`` is per
    cent, ``points`` percentage points, ``s`` seconds, ``nats`` a loss, ``settings`` a count and
    ``billion`` one of parameters."""
    basis: str
    """The statement's own basis, a name in ``BASES``."""
    values: dict[str, float]
    """Our value on each available basis, by the names in ``BASES``. A second value on the
    statement's own basis is named after its engine or data set, as in ``trained, torch``, or after
    its claim."""
    notes: dict[str, str]
    """Remarks on the values of other bases, by the same names."""
    ours: float | None
    """Our value on the statement's own basis; null if not run, or if the runs are inconclusive."""
    verdict: str
    """One of ``repro.claims.verdict.VERDICTS``."""
    correction: str
    """The corrected error of the paper, if the verdict depends on it."""
    corrected: float | None
    """Our value with that correction."""
    reason: str
    """How our value was obtained and, if it differs, the suspected cause."""
    inconclusive: str
    """Why the value decides nothing; empty if it does."""
    setting_unknown: tuple[str, ...]
    """Settings that affect the result but are missing in the paper or in our copy of it."""
    plausible: tuple[float, float] | None
    """Smallest and largest mean obtained with other values of those settings, if they were
    tried."""
    interval_kind: str | None
    """``prediction`` for one further run, ``confidence`` for a ranking's mean; null without
    interval."""
    interval: float | None
    """Half-width of the 95 % interval that decides the verdict."""
    bootstrap: tuple[float, float] | None
    """Ends of the 95 % interval of the mean by the stratified bootstrap."""
    p_value: float | None
    """For rankings, the p-value of an exact one-sided test over seeds."""
    p_holm: float | None
    """The same p-value, adjusted for the number of rankings that the artifact tests (Holm)."""
    n_seeds: int
    """Number of independent seeds behind our value; 0 if nothing is random."""
    last_epoch: float | None
    """Our value from the last epoch of each run, which decides the verdict."""
    best_epoch: float | None
    """Our value from the best epoch of each run. The paper does not say which one it prints."""
    best_epoch_verdict: str
    """The verdict if the paper printed the best epoch."""
    engine: str
    """The engine that trained the runs: ``torch`` (PyTorch), ``native`` (the C++ engine), or
    both."""
    profile: str | None
    """Lowest profile among the records behind our value or verdict; null if not run."""
    command: str
    """The command that produces such records."""
    records: str | None
    """Name of the newest of ``record_files``; null if not run."""
    record_files: list[str]
    """Names of the files with the records behind our value; empty if not run."""

    @property
    def shown_verdict(self) -> str:
        """The verdict in words; of an undecided one also whether our result differs."""
        told = shown(self.verdict, self.profile)
        return f"{told} (differs)" if self.verdict == UNDECIDED and self.differs else told

    @property
    def difference(self) -> float | None:
        """``ours`` minus ``published``; null without ``ours``."""
        return None if self.ours is None else self.ours - self.published

    @property
    def differs(self) -> bool:
        """Whether the published number, or a difference of 0, lies outside our interval."""
        if self.difference is None or self.interval is None:
            return False
        if self.inconclusive:
            return False
        above, below = self.difference > self.interval, self.difference < -self.interval
        return {"equals": above or below, "at least": below, "at most": above}[self.relation]

    def as_dict(self) -> dict[str, Any]:
        """Return the row as a JSON object, with ``difference`` and the schema's version."""
        return {"schema": SCHEMA, **asdict(self), "difference": self.difference}


@dataclass(frozen=True)
class _Found:
    """A claim with our finding and the records behind it."""

    claim: Claim
    finding: Finding
    profile: str | None
    files: list[str]
    command: str


def claim_rows(results: Path, slugs: Iterable[str] = index.SLUGS) -> list[ClaimRow]:
    """Return the statements of ``slugs``, each judged from the current records.

    Raises:
        UsageError: ``results`` is not a directory.
        ReproError: a file of records is corrupted or of a newer schema.
    """
    found = [f for slug in slugs for f in _found(slug, current_runs(results, slug))]
    return _rows(found, results)


def run_rows(slug: str, runs: Sequence[Path]) -> list[ClaimRow]:
    """Return the statements of one artifact from the files ``runs``, newest first.

    Without files, the statements count as not run. Records of other settings are searched in the
    results directory of the newest file.

    Raises:
        ReproError: a file of records is corrupted or of a newer schema.
    """
    return _rows(_found(slug, runs), runs[0].parents[1] if runs else None)


@cache
def _ranges_of(runs: tuple[Path, ...]) -> Mapping[str, tuple[float, float]]:
    """Read the files only once for all artifacts of a report; record files never change."""
    return plausible_ranges(read_runs(runs)) if runs else {}


def _found(slug: str, runs: Sequence[Path]) -> list[_Found]:
    artifact = index.load(slug)
    claims = [CLAIMS[claim_id] for claim_id in artifact.claims]
    if not runs:
        commands = {claim: missing_command(artifact, points_of(claim)) for claim in claims}
        return [
            _Found(c, Finding(c.id, None, f"no records yet: {commands[c]}"), None, [], commands[c])
            for c in claims
        ]
    content = {run.name: read_run(run) for run in runs}
    for run in runs:
        if (made := content[run.name][0].artifact) != slug:
            raise ReproError(f"{run}: records of {made} among those of {slug}; move the file away")
    records = together(content.values())
    by_id = {finding.claim_id: finding for finding in artifact.findings(records)}
    found = []
    for claim in claims:
        finding = by_id[claim.id]
        if claim in CONTRASTS:  # of all runs, as those with earlier settings were replaced
            every = chain.from_iterable(content.values())
            finding = replace(finding, plausible=contrast_range(CONTRASTS[claim], every))
        points = points_of(claim)
        if points:  # the training runs there, by the engine of the finding
            at = {key(point) for point in points}
            # ``in``, as the engine of a finding can be "native and torch"
            used = [
                record
                for record in of_kind(records, "run")
                if key(record.point) in at and record.engine in (finding.engine or record.engine)
            ]
            command = command_of(artifact, used) if used else missing_command(artifact, points)
        else:
            judged = [r for r in records if r.profile == (finding.profile or r.profile)]
            used = list(finding.records) or judged or records
            command = command_of(artifact, used)
        # by identity: records hold dictionaries, so they cannot be members of a set
        used_ids = {id(record) for record in used}
        names = [name for name, made in content.items() if used_ids & {id(r) for r in made}]
        profile = min((record.profile for record in used or records), key=rank)
        found.append(_Found(claim, finding, profile, names, command))
    return found


def points_of(claim: Claim) -> list[Point]:
    """Return the points of a claim's training runs."""
    if claim in CONTRASTS:
        return [point for pair in CONTRASTS[claim].pairs for point in pair if point is not None]
    quantity = QUANTITIES.get(claim.id)
    if isinstance(quantity, Accuracy):
        return [quantity.point]
    return [point for pair in quantity.pairs for point in pair] if quantity else []


def _rows(found: Sequence[_Found], results: Path | None) -> list[ClaimRow]:
    """Return a row for each statement, combining the values of equal claims.

    P-values are adjusted for the number of rankings that each artifact tests.
    """
    ranges = _ranges_of(tuple(current_runs(results, _OPEN_SETTINGS))) if results else {}
    others: dict[str, list[_Found]] = {}
    for one in found:
        if one.claim.same_as:
            others.setdefault(one.claim.same_as, []).append(one)
    rows = [
        _row(one, others.get(one.claim.id, []), ranges.get(one.claim.id))
        for one in found
        if not one.claim.same_as
    ]
    adjusted: dict[str, float] = {}
    for slug in {row.artifact for row in rows}:
        tested = {
            row.id: row.p_value for row in rows if row.artifact == slug and row.p_value is not None
        }
        adjusted |= zip(tested, holm(list(tested.values())), strict=True)
    return [replace(row, p_holm=adjusted.get(row.id)) for row in rows]


def _row(
    found: _Found, others: Sequence[_Found], plausible: tuple[float, float] | None
) -> ClaimRow:
    claim, files = found.claim, found.files
    ranges = [ends for ends in (found.finding.plausible, plausible) if ends]
    if ranges:
        lows, highs = zip(*ranges, strict=True)
        plausible = min(lows), max(highs)
    finding = replace(found.finding, plausible=plausible)
    if finding.is_run:
        finding = replace(finding, profile=finding.profile or found.profile)
    profile = finding.profile
    label, by_best = verdict(claim, finding), best_epoch_verdict(claim, finding)
    reason = finding.reason
    if by_best != label:
        reason += f"; by the best epoch the verdict would be: {by_best}"
    if finding.is_run and label == NOT_RUN:
        judging = ", ".join(judging_profiles(claim))
        reason += f"; the run has profile {profile}, and only {judging} gives a verdict"
    if claim.remark:
        reason += f"; {claim.remark}"
    values: dict[str, float] = {}
    notes: dict[str, str] = {}
    for one in (found, *others):
        name = BASES[one.claim.basis]
        if name in values or (one is not found and one.claim.basis == claim.basis):
            name = one.claim.id
        if one.finding.ours is not None:
            values[name] = one.finding.ours
            if one is not found:
                notes[name] = one.finding.reason
        values |= {f"{name}, {what}": value for what, value in one.finding.others.items()}
    ranking = is_ranking(claim)
    interval = finding.interval if ranking else finding.prediction
    kind = "confidence" if ranking else "prediction"
    return ClaimRow(
        **{name: getattr(claim, name) for name in _OF_THE_CLAIM},
        printed=claim.published if claim.printed is None else claim.printed,
        basis=BASES[claim.basis],
        values=values,
        notes=notes,
        ours=finding.ours,
        verdict=label,
        correction=claim.correction or (finding.correction if label == CORRECTED else ""),
        corrected=finding.corrected if label == CORRECTED else None,
        reason=reason,
        inconclusive=finding.inconclusive,
        setting_unknown=claim.unknown,
        plausible=finding.plausible if claim.unknown else None,
        interval_kind=kind if interval is not None else None,
        interval=interval,
        bootstrap=finding.bootstrap,
        p_value=finding.p_value if ranking else None,
        p_holm=None,
        n_seeds=finding.n_seeds,
        last_epoch=finding.ours if finding.best is not None else None,
        best_epoch=finding.best,
        best_epoch_verdict=by_best,
        engine=finding.engine,
        profile=profile,
        command=found.command,
        records=files[0] if finding.is_run else None,
        record_files=files if finding.is_run else [],
    )


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
    if results is not None or os.environ.get("REPRO_RESULTS") or held:
        return Ledger(claim_rows(directory))
    rows = [msgspec.convert(claim, ClaimRow) for claim in read_summary().claims]
    note = (
        f"No records in {directory}: these are the results that zo-repro {__version__} was "
        "released with.\n"
    )
    return Ledger(rows, note)
