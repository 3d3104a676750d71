"""The most important statements, as the README's table and its scorecard."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from repro.claims.verdict import CLOSE, CORRECTED, INCONSISTENT, NOT_REPRODUCED, REPRODUCED
from repro.report import formatting
from repro.report.claims_table import ClaimRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADLINES: Mapping[str, str] = {
    "A1": "In the same memory MeZO trains a model at least 2 × as large as BP",  # noqa: RUF001
    "A2": "MeZO saves up to 25 × at long contexts",  # noqa: RUF001
    "A8-llama-7b": "The set-ups of Fig. 4 take 17 GB each (Llama 2 7B)",
    "A9-order": "At equal memory a larger model by MeZO beats a smaller one by BP",
    "B-T1-fashion_mnist-fp32-cls1": "ElasticZO (Cls1) on Fashion-MNIST, FP32",
    "B-T1-mnist-int8-cls1": "ElasticZO-INT8 (Cls1) on MNIST",
    "B-T1-modelnet40-fp32-cls1": "ElasticZO (Cls1) with PointNet on ModelNet40",
    "B-T2-mnist-45-fp32-cls1": "Fine-tuning on MNIST rotated by 45° (Cls1)",
    "B-M4-32-bp": "BP takes twice the memory of Full ZO",
    "B-M5-most-saving": "INT8 takes up to 1.60 × less memory",  # noqa: RUF001
    "B-F7-32-speed-up-largest": "INT8 is up to 1.42 × faster (Raspberry Pi Zero 2)",  # noqa: RUF001
    "B-sign": "The integer loss gets 95 % of the signs right",
}
"""Statements by id, worded for a reader without the paper."""


def headline_table(rows: Sequence[ClaimRow]) -> str:
    """Return the headline statements as a Markdown table."""
    lines = ["| statement | published | ours | verdict | id |", "| --- | --: | --: | --- | --- |"]
    for row in headline_rows(rows):
        ours = formatting.ours(row)
        if corrected := formatting.corrected(row):
            ours = f"{corrected} corrected ({ours} as printed)"
        lines.append(
            f"| {HEADLINES[row.id]} | {formatting.published(row)} | {ours} | {row.shown_verdict} | "
            f"`{row.id}` |"
        )
    return "\n".join(lines)


def draw_scorecards(rows: Sequence[ClaimRow], directory: Path) -> list[Path]:
    """Draw the headline statements for light and for dark pages; return the files."""
    from repro.plotting.style import save, style

    paths = []
    for name, ink in (("light", "#24292f"), ("dark", "#e6edf3")):
        with style():
            figure = _scorecard(headline_rows(rows), ink)
            paths += save(figure, directory, f"scorecard-{name}", ("png",))
    return paths


def headline_rows(rows: Sequence[ClaimRow]) -> list[ClaimRow]:
    """Return the headline statements among ``rows``, in the order of ``HEADLINES``."""
    by_id = {row.id: row for row in rows}
    return [by_id[name] for name in HEADLINES if name in by_id]


_COLOURS = {
    REPRODUCED: "#2da44e",
    CORRECTED: "#2da44e",
    CLOSE: "#4393c3",
    INCONSISTENT: "#cf5b5b",
    NOT_REPRODUCED: "#cf5b5b",
}
_OPEN = "#b08800"


def _scorecard(rows: Sequence[ClaimRow], ink: str) -> "Figure":
    """Draw a line for each statement: published, ours, verdict."""
    import matplotlib.pyplot as plt

    figure, panel = plt.subplots(figsize=(9.2, 0.36 * len(rows) + 0.7))
    figure.patch.set_alpha(0)
    panel.set_axis_off()
    panel.set_xlim(0, 100)
    panel.set_ylim(len(rows) + 0.2, -1)
    columns = {"published": 61, "ours": 76}
    for title, x in columns.items():
        panel.text(x, -0.6, title, color=ink, ha="right", weight="bold", fontsize=9)
    panel.text(78, -0.6, "verdict", color=ink, weight="bold", fontsize=9)
    for y, row in enumerate(rows):
        colour = _COLOURS.get(row.verdict, _OPEN)
        panel.text(0, y, HEADLINES[row.id], color=ink, va="center", fontsize=9)
        published = formatting.published(row)
        panel.text(columns["published"], y, published, color=ink, ha="right", va="center")
        ours = formatting.corrected(row) or formatting.ours(row)
        panel.text(columns["ours"], y, ours, color=ink, ha="right", va="center")
        panel.plot(78.6, y, "o", color=colour, ms=6)
        panel.text(80, y, row.shown_verdict, color=colour, va="center", fontsize=9)
    return figure
