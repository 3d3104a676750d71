"""Claims as a table for the terminal."""

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from repro.report.claims_table import ClaimRow

_WIDTH = 160
"""Columns where the output is no terminal."""
_COLOURS = {"reproduced": "green", "close": "cyan", "not run": "dim"}


def claims_text(rows: Sequence[ClaimRow]) -> str:
    """Return a table of the claims, coloured only where standard output is a terminal."""
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH, no_color=True)
    table = Table(box=None, pad_edge=False)
    for column in ("claim", "statement", "published", "ours", "from", "verdict"):
        table.add_column(column, justify="right" if column in ("published", "ours") else "left")
    for row in rows:
        spread = "" if row.interval is None else f" ± {row.interval:.2g}"
        ours = "-" if row.ours is None else f"{row.ours:.4g}{spread} {row.unit}"
        colour = _COLOURS.get(row.verdict, "red")
        table.add_row(
            row.id,
            row.statement,
            f"{row.published:g} {row.unit}",
            ours,
            row.basis if row.profile is None else f"{row.basis}, {row.profile}",
            f"[{colour}]{row.shown_verdict}[/]",
        )
    with console.capture() as captured:
        console.print(table)
    return captured.get()
