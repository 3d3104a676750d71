"""The style of all figures: light, printable, safe for colour-blind readers, reproducible.

A profile other than the published one is named in a panel's title if all series share it, else at
each series with that profile.
"""

import io
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from repro.core import atomic

PALETTE = [*sns.color_palette("colorblind"), *sns.color_palette(["#332288", "#882255", "#999933"])]
"""Colours that colour-blind readers can tell apart; the last three are Paul Tol's."""
BLUE, ORANGE, GREEN, RED, PINK, BROWN, _, _, _, CYAN, *_ = PALETTE
INK = "#333333"
NEUTRAL = "#7a7a7a"
"""Colour of results that belong to no method."""
METHOD_COLOURS: dict[str, Any] = {
    "full_zo": BLUE,
    "cls2": GREEN,
    "cls1": PINK,
    "full_bp": ORANGE,
    "none": NEUTRAL,
}
"""The colour of each method of the ElasticZO paper, the same in every figure."""
PAPER = "paper"
"""The published profile, which needs no naming."""
_DECADES_FROM = 3000
"""Ratio of the values on an axis above which labels at 2 and 5 would overlap others."""

_SETTINGS = {
    "axes.edgecolor": INK,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 9,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "figure.constrained_layout.use": True,
    "figure.dpi": 110,
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same everywhere
    "font.size": 9,
    "grid.color": "#e6e6e6",
    "legend.fontsize": 8,
    "legend.frameon": False,
    "savefig.dpi": 160,
    "svg.fonttype": "none",
    "svg.hashsalt": "zo-repro",  # else matplotlib makes up the ids in an SVG
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}


def seed_counts(counts: Iterable[int]) -> str:
    """Return the numbers of seeds behind several lines, as ``3 seeds`` or ``1 to 3 seeds``."""
    different = sorted(set(counts))
    least, most = different[0], different[-1]
    numbers = f"{most}" if least == most else f"{least} to {most}"
    return f"{numbers} seed{'s' if most > 1 else ''}"


def notice(text: str) -> Figure:
    """Draw a sentence in place of an empty figure."""
    with style():
        figure, panel = plt.subplots(figsize=(4, 0.6))
        panel.set_axis_off()
        panel.text(0, 0.5, text)
    return figure


@contextmanager
def style() -> Iterator[None]:
    """Draw in the suite's style inside the block."""
    settings: dict[str, Any] = {**sns.axes_style("whitegrid"), **_SETTINGS}
    with mpl.rc_context(settings):  # type: ignore[arg-type]
        yield


def title(text: str, profiles: Collection[str]) -> str:
    """Return a panel's title from its text and the profiles of all its series."""
    only = set(profiles)
    return text if len(only) != 1 or PAPER in only else f"{text} ({only.pop()})"


def remark(profile: str, caveat: str, profiles: Collection[str]) -> str:
    """Return the remark on one series of a panel: its profile, its diverged seeds, or nothing."""
    named = profile != PAPER and len(set(profiles)) > 1
    return ", ".join(part for part in (profile if named else "", caveat) if part)


def label_logarithms(axis: Axis, spread: float) -> None:
    """Label a logarithmic axis at 1, 2 and 5 of each decade, or only at decades if those overlap.

    Args:
        axis: horizontal or vertical.
        spread: ratio of the largest to the smallest value on it.
    """
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if spread < _DECADES_FROM else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())  # else an axis below a decade gets more labels


def save(
    figure: Figure, directory: Path, name: str, formats: tuple[str, ...] = ("svg", "png")
) -> list[Path]:
    """Write ``figure`` in each format, reproducibly to the byte, and close it."""
    paths = []
    for suffix in formats:
        # an SVG names its date, a PNG the version of matplotlib
        metadata = {"Date" if suffix == "svg" else "Software": None}
        buffer = io.BytesIO()
        with style():  # savefig reads resolution and hash salt from the settings
            figure.savefig(buffer, format=suffix, metadata=metadata)
        path = directory / f"{name}.{suffix}"
        atomic.replace(path, buffer.getvalue())
        paths.append(path)
    plt.close(figure)
    return paths
