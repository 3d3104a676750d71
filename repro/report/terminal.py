"""Claims as a table for the terminal."""

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from repro.report import wording
from repro.report.claims_table import ClaimRow

_WIDTH = 160
"""Columns where the output is no terminal."""
_COLOURS = {"reproduced": "green", "close": "cyan", "undecided": "yellow", "not run": "dim"}


def claims_text(rows: Sequence[ClaimRow]) -> str:
    """Return a table of the claims, coloured only where standard output is a terminal."""
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH, no_color=True)
    table = Table(box=None, pad_edge=False)
    for column in ("claim", "statement", "published", "ours", "from", "verdict"):
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
