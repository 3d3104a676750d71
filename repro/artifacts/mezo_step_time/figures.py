"""Draw step times as multiples of two forward passes."""

from collections.abc import Sequence
from typing import get_args

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from repro.artifacts.mezo_step_time import LABELS, NOISES, ModelName
from repro.finetuning.arms import device_for
from repro.measurement.records import Record, of_kind
from repro.measurement.timing import ratio, ratio_range
from repro.plotting.style import BLUE, INK, ORANGE, style

_BASE = "two_forwards"


def steps(records: Sequence[Record]) -> Figure:
    """Draw a panel for each model and batch: the median ratio of each arm and its range."""
    sizes = get_args(ModelName)
    found = sorted(
        of_kind(records, "steps"),
        key=lambda record: (record.point["device"] == "cpu", sizes.index(record.point["model"])),
    )
    columns = min(3, len(found))
    rows = -(-len(found) // columns)
    with style():
        figure, grid = plt.subplots(
            rows,
            columns,
            figsize=(3.7 * columns + 1.6, 2.4 * rows + 0.7),
            squeeze=False,
            sharey=True,
        )
        for panel in grid.flat[len(found) :]:
            panel.set_visible(False)
        arms = [a for a in LABELS if a != _BASE and any(a in r.metrics["seconds"] for r in found)]
        for panel, record in zip(grid.flat, found, strict=False):
            seconds = record.metrics["seconds"]
            for place, arm in enumerate(arms):
                if arm not in seconds:
                    why = "not timed"
                    needed = device_for(NOISES.get(arm, "torch"))
                    if arm in record.metrics.get("out_of_memory", ()):
                        why = "out of memory"
                    elif needed not in (None, record.point["device"]):
                        why = "needs a GPU" if needed == "cuda" else "needs a CPU"
                    panel.text(1.05, place, why, va="center", fontsize=8, color=INK)
                    continue
                middle, (low, high) = ratio(seconds, arm, _BASE), ratio_range(seconds, arm, _BASE)
                colour = BLUE if LABELS[arm].startswith("MeZO") else ORANGE
                panel.plot([low, high], [place, place], color=colour, lw=1.5)
                panel.plot(middle, place, "o", color=colour, ms=5)
                panel.annotate(
                    f"{middle:.2f}", (high, place), xytext=(4, 0), textcoords="offset points",
                    va="center", fontsize=8,
                )  # fmt: skip
            panel.axvline(1, color=INK, lw=0.8)
            panel.set_xscale("log", base=2)
            panel.set_xlim(right=1.25 * panel.get_xlim()[1])  # room for the last number
            panel.xaxis.set_major_formatter("{x:g}")
            point = record.point
            panel.set_title(
                f"{point['model']}, B = {point['batch']}, N = {point['context']}\n"
                f"{point['dtype']} on {record.environment.gpu or record.environment.cpu}"
            )
        grid[0, 0].set_yticks(range(len(arms)), [LABELS[arm] for arm in arms])
        grid[0, 0].invert_yaxis()
        figure.supxlabel(
            "time of a step / time of two forward passes (dot: median of the rounds, line: range)"
        )
    return figure
