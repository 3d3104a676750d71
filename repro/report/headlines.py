"""The most important statements, as the README's table and its scorecard."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from repro.claims.verdict import (
    CLOSE,
    CORRECTED,
    INCONSISTENT,
    NOT_COMPARABLE,
    NOT_DECIDABLE,
    NOT_REPRODUCED,
    REPRODUCED,
)
from repro.report import formatting
from repro.report.claims_table import ClaimRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADLINES: Mapping[str, str] = {
    "A1": "In the same memory MeZO trains a model at least 2 × as large",  # noqa: RUF001
    "A2": "MeZO takes up to 25 × less memory than BP at long contexts",  # noqa: RUF001
    "A8-llama-7b": "Llama 2 7B by MeZO takes 17 GB at batch 8 and 1,024 tokens",
    "A9-order": "In BP's memory a larger model by MeZO ends higher",
    "B-T1-fashion_mnist-fp32-cls1": "Accuracy of LeNet-5 by ElasticZO (Cls1) on Fashion-MNIST",
    "B-T1-fashion_mnist-fp32-cls1-gain": "ElasticZO's (Cls1) gain over Full ZO on Fashion-MNIST",
    "B-T1-mnist-int8-cls1": "Accuracy of LeNet-5 by ElasticZO-INT8 (Cls1) on MNIST",
    "B-T1-modelnet40-fp32-cls1": "Accuracy of PointNet by ElasticZO (Cls1) on ModelNet40",
    "B-T1-modelnet40-fp32-full_bp": "Accuracy of PointNet by BP on ModelNet40",
    "B-T2-mnist-45-fp32-cls1": "Accuracy of LeNet-5 fine-tuned on MNIST rotated by 45° (Cls1)",
    "B-M4-32-bp": "BP of LeNet-5 takes twice the memory of Full ZO (FP32)",
    "B-M5-most-saving": "LeNet-5 takes up to 1.60 × less memory in INT8",  # noqa: RUF001
    "B-F7-32-speed-up-largest": "LeNet-5 is up to 1.42 × faster in INT8 (Raspberry Pi Zero 2)",  # noqa: RUF001
    "B-sign": "INT8* gets 95 % of the projected gradient's signs right",
}
"""Statements by id, worded for a reader without the paper."""


def headline_table(rows: Sequence[ClaimRow]) -> str:
    """Return the headline statements as a Markdown table that links to the notebooks."""
    lines = ["| statement | published | ours | verdict | id |", "| --- | --: | --: | --- | --- |"]
    lines += [
        f"| {HEADLINES[row.id]} | {formatting.published(row)} | "
        f"{' '.join(headline_ours(row)).strip()} | "
        f"{row.shown_verdict} | [`{row.id}`](notebooks/{row.artifact}.ipynb) |"
        for row in headline_rows(rows)
    ]
    return "\n".join(lines)


def headline_ours(row: ClaimRow) -> tuple[str, str]:
    """Return our number, and what a reader of the headline alone must know of it, if anything."""
    ours, unit = formatting.ours(row), formatting.unit(row)
    if corrected := formatting.corrected(row):
        return corrected, f"with an error of the paper corrected ({ours} without)"
    if row.verdict == NOT_COMPARABLE:
        return ours, "on other hardware"
    others = [
        f"{row.values[name]:.3g} {unit} {name}"
        for name in ("simulated", "measured")
        if row.basis == "equations" and name in row.values
    ]
    notes = [f"by the paper's equations; {', '.join(others)}"] if others else []
    if row.verdict == NOT_DECIDABLE and row.plausible:
        low, high = row.plausible
        notes.append(f"{low:.3g} to {high:.3g} {unit}, depending on {row.setting_unknown[0]}")
    if row.inconclusive:
        notes.append(f"({row.inconclusive})")
    return ours, "; ".join(notes)


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
    """Draw a line for each statement: ours over the published value, both numbers, the verdict."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    # constrained layout would warn of axes outside a grid
    figure = plt.figure(figsize=(10.4, 0.3 * len(rows) + 0.75), layout="none")
    figure.patch.set_alpha(0)
    bottom, height = 0.42 / figure.get_figheight(), 1 - 0.42 / figure.get_figheight()
    text = figure.add_axes((0, bottom, 1, height))
    ratios = figure.add_axes((0.455, bottom, 0.13, height))
    text.set_axis_off()
    text.set_xlim(0, 100)
    ratios.patch.set_alpha(0)
    for side in ratios.spines.values():
        side.set_visible(False)
    for panel in (text, ratios):
        panel.set_ylim(len(rows) - 0.4, -1.1)
    ratios.set_xscale("log")
    ratios.set_xlim(0.7, 3.4)
    ratios.grid(visible=False)
    ratios.axvline(1, 0, len(rows) / (len(rows) + 0.7), color=ink, linewidth=1, alpha=0.6)
    ratios.xaxis.set_major_locator(FixedLocator([0.8, 1, 2, 3]))
    ratios.xaxis.set_minor_locator(NullLocator())
    ratios.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ratios.yaxis.set_major_locator(NullLocator())
    ratios.tick_params(axis="x", colors=ink, length=2, pad=2)
    ratios.set_xlabel("ours / published", color=ink)
    columns = {"published": 67.5, "ours": 79.5}
    for title, x in columns.items():
        text.text(x, -0.75, title, color=ink, ha="right", weight="bold", fontsize=9)
    text.text(81, -0.75, "verdict", color=ink, weight="bold", fontsize=9)
    for y, row in enumerate(rows):
        colour = _COLOURS.get(row.verdict, _OPEN)
        text.text(0, y, HEADLINES[row.id], color=ink, va="center", fontsize=9)
        published = formatting.published(row)
        text.text(columns["published"], y, published, color=ink, ha="right", va="center")
        ours = formatting.corrected(row) or formatting.ours(row)
        text.text(columns["ours"], y, ours, color=ink, ha="right", va="center")
        text.text(81, y, row.shown_verdict, color=colour, va="center", fontsize=9)
        value = row.ours if row.corrected is None else row.corrected
        if value is not None and row.published:  # a ranking is compared with 0
            spread = (row.interval or 0.0) / row.published
            ratios.errorbar(
                value / row.published, y, xerr=spread, fmt="o", color=colour, ms=5, elinewidth=1.6
            )
    return figure
