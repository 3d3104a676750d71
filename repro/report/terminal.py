"""Statements as text for the terminal."""

import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from repro.artifacts import index
from repro.claims.verdict import (
    CLOSE,
    CORRECTED,
    NOT_COMPARABLE,
    NOT_DECIDABLE,
    NOT_RUN,
    REPRODUCED,
    UNDECIDED,
    VERDICTS,
)
from repro.report import formatting
from repro.report.claims_table import ClaimRow

_WIDTH = 100
"""Minimum width of the table in columns; a wider terminal shows more of each statement."""
_SHORTEST_STATEMENT = 16
"""Columns below which a cut statement says nothing."""
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
    """Return the statements by artifact, one per line, and the number of each verdict.

    Colour is used only if standard output is a terminal.
    """
    terminal = sys.stdout.isatty()
    width = max(_WIDTH, shutil.get_terminal_size().columns) if terminal else _WIDTH
    console = Console(width=width, no_color=not terminal, force_terminal=terminal)
    with console.capture() as captured:
        for number, (slug, of_slug) in enumerate(groupby(rows, key=lambda row: row.artifact)):
            console.print(Text(f"{slug}: {index.load(slug).title}", "bold"), no_wrap=True)
            console.print(_table(list(of_slug), width, header=number == 0))
        counts = Counter(row.verdict for row in rows)
        told = "; ".join(f"{counts[name]} {name}" for name in VERDICTS if counts[name])
        total = f"{len(rows)} statement{'s' if len(rows) > 1 else ''}: {told}"
        console.print(Text(total if rows else "No statement passes the filters."))
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def claim_text(row: ClaimRow) -> str:
    """Return all facts in the ledger about one statement, one per line."""
    facts = {
        "statement": row.statement + ("" if row.is_stated else " (our reading of the paper)"),
        "quotation": f'"{row.quote}"',
        "source": f"{row.paper}, section {row.section}",
        "published": formatting.published(row),
        "ours": f"{formatting.ours(row)} ({formatting.source(row)})",
        "interval": f"95 % {row.interval_kind} interval" if row.interval_kind else "",
        "other values": formatting.other_values(row),
        "notes on them": "\n".join(f"{name}: {note}" for name, note in row.notes.items()),
        "verdict": row.shown_verdict,
        "correction": formatting.correction(row),
        "reason": row.reason,
        "settings not given": ", ".join(row.setting_unknown),
        "other settings": (
            f"{row.plausible[0]:.4g} to {row.plausible[1]:.4g} {formatting.unit(row)}"
            if row.plausible
            else ""
        ),
        "ranking test": formatting.p_value(row),
        "best epoch": (
            "" if row.best_epoch is None else f"{row.best_epoch:.4g} ({row.best_epoch_verdict})"
        ),
        "artifact": row.artifact,
        "records": ", ".join(row.record_files),
        "command": row.command,
    }
    console = Console(width=_WIDTH, no_color=True, force_terminal=False)
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, fact in facts.items():
        if fact:
            table.add_row(Text(name), Text(fact))
    with console.capture() as captured:
        console.print(Text(row.id))
        console.print(table)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def _table(rows: Sequence[ClaimRow], width: int, *, header: bool) -> Table:
    """Return a table of ``width`` columns; statements are cut, or left out if nothing would remain.

    Ids and verdicts are never cut, so that ids can be copied.
    """
    # the value that the verdict is about: after a correction of the paper, if there is one
    values = [row.ours if row.corrected is None else row.corrected for row in rows]
    ours = [formatting.NOTHING if value is None else f"{value:.4g}" for value in values]
    columns = {
        "id": [row.id for row in rows],
        "statement": [row.statement for row in rows],
        "published": [formatting.claimed(row) for row in rows],
        "ours": ours,
        "verdict": [row.shown_verdict for row in rows],
    }
    taken = sum(
        max(map(len, (name, *cells))) + 2 for name, cells in columns.items() if name != "statement"
    )
    if width - taken < _SHORTEST_STATEMENT:
        del columns["statement"]
    table = Table(box=None, pad_edge=False, expand=True, show_header=header)
    for name, cells in columns.items():
        if name == "statement":
            table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=1)
        else:
            table.add_column(
                name,
                justify="right" if name in ("published", "ours") else "left",
                no_wrap=True,
                min_width=max(map(len, cells)),
            )
    for row, *cells in zip(rows, *columns.values(), strict=True):
        *plain, shown = map(Text, cells)
        shown.stylize(_COLOURS.get(row.verdict, "red"))
        table.add_row(*plain, shown)
    return table
