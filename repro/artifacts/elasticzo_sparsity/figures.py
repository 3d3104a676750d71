"""Test accuracy by epoch, with and without the schedule."""

from collections.abc import Sequence
from statistics import fmean

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure

from repro.claims.elasticzo import CLAIMS, QUANTITIES
from repro.claims.quantity import Accuracy
from repro.drawing.style import INK, style
from repro.measurement.records import Record, of_kind

_SCHEDULE = "0.33, then 0.5, then 0.9"
_NAMES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST"}


def sparsity(records: Sequence[Record]) -> Figure:
    """Draw a panel for each data set; the published accuracy after 100 epochs is a dotted line."""
    runs = list(of_kind(records, "run"))
    datasets = [name for name in _NAMES if any(r.point["dataset"] == name for r in runs)]
    with style():
        figure, panels = plt.subplots(
            1, len(datasets), figsize=(4.4 * len(datasets), 3.1), squeeze=False, sharey=True
        )
        for panel, dataset in zip(panels.flat, datasets, strict=True):
            arms = {r.point["p_zero"] for r in runs}
            for p_zero, colour in zip(
                sorted(arms, key=str, reverse=True), sns.color_palette("colorblind"), strict=False
            ):
                curves = [
                    r.metrics["test_accuracy"]
                    for r in runs
                    if (r.point["dataset"], r.point["p_zero"]) == (dataset, p_zero)
                ]
                mean = [100 * fmean(values) for values in zip(*curves, strict=False)]
                label = _SCHEDULE if p_zero is None else f"{p_zero:g} in every epoch"
                panel.plot(mean, color=colour, label=f"$p_{{zero}}$ = {label}")
            published = _published(dataset)
            panel.axhline(published, color=INK, linestyle=":", label="published, fixed")
            panel.set(
                title=f"{_NAMES[dataset]} ({', '.join(sorted({r.profile for r in runs}))})",
                xlabel="epoch",
            )
        panels[0, 0].set_ylabel("test accuracy (%)")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def _published(dataset: str) -> float:
    (found,) = (
        claim.published
        for claim in CLAIMS
        if claim.artifact == "elasticzo_sparsity"
        and isinstance(quantity := QUANTITIES[claim.id], Accuracy)
        and quantity.point["dataset"] == dataset
    )
    return found


FIGURES = {"sparsity": sparsity}
