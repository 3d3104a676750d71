"""Format a claim's numbers, the same way wherever they are shown."""

from repro.claims.claim import SIGNS
from repro.claims.verdict import CLOSE_POINTS
from repro.report.claims_table import ClaimRow

CAVEAT = (
    "Adjusted values (Holm) allow for the number of rankings of this figure or table. The verdict "
    "follows the confidence interval, which assumes normally distributed seeds, and not p."
)
ENGINES = {"torch": "PyTorch", "native": "C++ engine", "native and torch": "both engines"}
FOLDED = "jp-MarkdownHeadingCollapsed"
"""JupyterLab's mark for a folded section; the site folds it, too."""
NOTHING = "–"  # noqa: RUF001
STATEMENT = "the paper says"
"""Heading of the statements in the ledger's tables."""


def published(row: ClaimRow) -> str:
    """Return the paper's number with its unit, the direction of a bound, and a misprint."""
    return claimed(row) + ("" if row.printed == row.published else f" (printed: {row.printed:g})")


def claimed(row: ClaimRow) -> str:
    """Return the number that ours is compared with, its unit and the direction of a bound."""
    return f"{SIGNS[row.relation]}{row.published:.{row.digits}f} {unit(row)}"


def correction(row: ClaimRow) -> str:
    """Return the corrected error of the paper, with our value if that changes it; or nothing."""
    if row.corrected is None or not row.correction:
        return row.correction
    return f"{row.correction}: {row.corrected:.4g} {unit(row)}"


def ours(row: ClaimRow) -> str:
    """Return our number with its unit and the 95 % interval that decides the verdict."""
    if row.ours is None:
        return NOTHING
    if row.interval is None:
        return f"{row.ours:.4g} {unit(row)}"
    # decimals below its two digits would mean nothing; :g writes 2600, where :.2g writes 2.6e+03
    spread = f"{float(f'{row.interval:.2g}'):g}"
    if row.unit in ("%", "points") and float(spread) <= CLOSE_POINTS < row.interval:
        spread = f"{row.interval:.2f}"  # a reader sees that it exceeds the limit of a verdict
    digits = max(row.digits, len(spread.partition(".")[2]))
    return f"{row.ours:.{digits}f} ± {spread} {unit(row)}"


def corrected(row: ClaimRow) -> str:
    """Return our number after the correction of an error in the paper, or nothing."""
    return "" if row.corrected is None else f"{row.corrected:.4g} {unit(row)}"


def p_value(row: ClaimRow) -> str:
    """Return the p-value of a ranking and its adjusted value, or nothing."""
    if row.p_value is None or row.p_holm is None:
        return ""
    return f"p = {row.p_value:.2g}, Holm {row.p_holm:.2g}"


def bootstrap(row: ClaimRow) -> str:
    """Return the interval from the stratified bootstrap, or nothing."""
    if row.bootstrap is None:
        return ""
    low, high = row.bootstrap
    return f"bootstrap {low:.4g} to {high:.4g}"


def difference(row: ClaimRow) -> str:
    """Return our value minus the published one: in points, per cent, or the statement's unit.

    An error of the paper that is corrected is corrected here, too.
    """
    if row.difference is None:
        return NOTHING
    difference = row.difference if row.corrected is None else row.corrected - row.published
    if row.unit in ("%", "points"):
        return f"{difference:+.2f} points"
    if row.published == 0:
        return f"{difference:+.4g} {unit(row)}"
    return f"{100 * difference / abs(row.published):+.1f} %"


def source(row: ClaimRow) -> str:
    """Return the basis and, for times and trained accuracies, profile, seeds and engine."""
    if row.basis not in ("timed", "trained") or row.profile is None:
        return row.basis
    seeds = f", {row.n_seeds} seed{'s' if row.n_seeds > 1 else ''}" if row.n_seeds else ""
    engine = f", {ENGINES.get(row.engine, row.engine)}" if row.engine else ""
    return f"{row.basis}, {row.profile}{seeds}{engine}"


def other_values(row: ClaimRow) -> str:
    """Return our other values, as in ``simulated 19.4 GB; simulated, SDPA 12.7 GB``."""
    return "; ".join(
        f"{name} {value:.4g} {unit(row)}" for name, value in row.values.items() if name != row.basis
    )


def unit(row: ClaimRow) -> str:
    """Return the unit in its usual notation."""
    return {"x": "×"}.get(row.unit, row.unit)  # noqa: RUF001
