"""Claims as a table for the terminal."""

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from repro.claims.verdict import (
    CLOSE,
    CORRECTED,
    NOT_COMPARABLE,
    NOT_DECIDABLE,
    NOT_RUN,
    REPRODUCED,
    UNDECIDED,
)
from repro.report import wording
from repro.report.claims_table import ClaimRow

_WIDTH = 160
"""Columns where the output is no terminal."""
_COLOURS = {
    REPRODUCED: "green",
    CORRECTED: "green",
    CLOSE: "cyan",
    NOT_DECIDABLE: "yellow",
    NOT_COMPARABLE: "dim",
    UNDECIDED: "yellow",
    NOT_RUN: "dim",
}


def claims_text(rows: Sequence[ClaimRow]) -> str:
    """Return a table of the claims, coloured only where standard output is a terminal."""
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH, no_color=True)
    table = Table(box=None, pad_edge=False)
    for column in ("claim", "statement", "published", "ours", "basis", "verdict"):
        table.add_column(column, justify="right" if column in ("published", "ours") else "left")
    for row in rows:
        colour = _COLOURS.get(row.verdict, "red")
        table.add_row(
            row.id,
            row.statement,
            wording.published(row),
            wording.ours(row),
            wording.source(row),
            f"[{colour}]{row.shown_verdict}[/]",
        )
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def claim_text(row: ClaimRow) -> str:
    """Return everything that the ledger says of one statement, a fact a line."""
    facts = {
        "statement": row.statement + ("" if row.is_stated else " (our reading of the paper)"),
        "quotation": f'"{row.quote}"',
        "paper": f"{row.paper}, section {row.section}",
        "published": wording.published(row),
        "ours": f"{wording.ours(row)} ({wording.source(row)})",
        "other bases": wording.other_values(row),
        "verdict": row.shown_verdict,
        "correction": wording.correction(row),
        "why": row.reason,
        "not given in the paper": ", ".join(row.setting_unknown),
        "other settings gave": (
            f"{row.plausible[0]:.4g} to {row.plausible[1]:.4g} {wording.unit(row)}"
            if row.plausible
            else ""
        ),
        "interval": row.interval_kind or "",
        "ranking test": wording.p_value(row),
        "best epoch": "" if row.best_epoch is None else f"{row.best_epoch:.4g}",
        "records": ", ".join(row.record_files),
        "command": row.command,
    }
    width = max(len(name) for name, fact in facts.items() if fact)
    lines = [f"{name:<{width}}  {fact}" for name, fact in facts.items() if fact]
    return "\n".join([row.id, *lines]) + "\n"
