"""Accuracies and curves as drawn and tabulated, from made-up numbers."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from repro.core.names import METHOD_LABELS
from repro.plotting.accuracy import Columns, Score, dots, table
from repro.plotting.curves import LINES, Line, Panel, curves

CAP = 5.0
"""Size of an interval's caps, which are markers too."""
FP32 = ("MNIST", "FP32")
INT8 = ("MNIST", "INT8")
MIXED = ("ModelNet40", "FP32")
SCORES: Columns = {
    FP32: [
        Score("Full ZO", 89.80, last=88.91, interval=0.42, best=89.33, profile="paper"),
        Score("Full BP", 99.10, last=99.01, interval=None, best=99.08, profile="paper"),
    ],
    INT8: [
        Score("Full ZO", 89.78, last=70.5, interval=40.0, best=73.25, profile="quick"),
        Score("Full BP", 98.77),
    ],
    MIXED: [
        Score("Full ZO", None, last=31.0, best=35.0, profile="paper"),
        Score("Full BP", 71.60, last=70.0, interval=1.5, best=71.0, profile="quick"),
    ],
}


def marks(panel: Axes, marker: str, *, filled: bool) -> list[tuple[float, float]]:
    return [
        (float(line.get_xdata()[0]), float(line.get_ydata()[0]))
        for line in panel.lines
        if line.get_marker() == marker
        and line.get_markersize() != CAP
        and (line.get_markerfacecolor() != "none") == filled
    ]


def test_dots_show_last_best_and_published_of_every_method() -> None:
    figure = dots(SCORES)
    assert [panel.get_title(loc="left") for panel in figure.axes] == [
        "MNIST, FP32",
        "MNIST, INT8 (quick)",
        "ModelNet40, FP32",
    ]
    first, second, third = figure.axes
    assert marks(first, "o", filled=True) == [(88.91, 0), (99.01, 1)]
    assert marks(first, "o", filled=False) == [(89.33, 0), (99.08, 1)]
    assert marks(first, "|", filled=True) == [(89.80, 0), (99.10, 1)]
    assert marks(second, "o", filled=True) == [(70.5, 0)]  # the other was not run
    assert marks(second, "|", filled=True) == [(89.78, 0), (98.77, 1)]
    assert marks(third, "|", filled=True) == [(71.60, 1)]  # nothing published of the other
    names = [[label.get_text() for label in panel.get_yticklabels()] for panel in figure.axes]
    assert names[:2] == [["Full ZO", "Full BP"]] * 2
    assert names[2] == ["Full ZO", "Full BP\n(quick)"]  # a panel of two profiles


def test_intervals_are_drawn_to_scale_within_what_an_accuracy_can_be() -> None:
    figure = dots(SCORES)
    first, second, _ = figure.axes
    (bar,) = [c.get_segments()[0] for c in first.collections if len(c.get_segments())]
    assert bar[:, 0] == pytest.approx([88.91 - 0.42, 88.91 + 0.42])
    assert second.get_xlim()[0] >= 0
    assert second.get_xlim()[1] <= 101
    assert first.get_ylim() == (1.5, -0.5)  # the first method on top


def test_unused_places_of_the_grid_are_empty() -> None:
    figure = dots(SCORES, per_row=2)
    assert [panel.axison for panel in figure.axes] == [True, True, True, False]
    assert [text.get_text() for text in figure.legends[0].texts] == [
        "ours, last epoch, with 95 % prediction interval",
        "ours, best epoch",
        "published",
    ]


def test_table_has_methods_by_columns() -> None:
    frame = table(SCORES)
    assert list(frame.index) == ["Full ZO", "Full BP"]
    assert list(frame.columns) == [FP32, INT8, MIXED]
    assert frame.loc["Full ZO", FP32] == "88.91 (89.33) ± 0.42 | 89.80 | -0.89"
    assert frame.loc["Full BP", FP32] == "99.01 (99.08) | 99.10 | -0.09"
    assert frame.loc["Full ZO", INT8] == "70.50 (73.25) ± 40.00 (profile quick) | 89.78 | -19.28"
    assert frame.loc["Full BP", INT8] == "– | 98.77"  # noqa: RUF001
    assert frame.loc["Full ZO", MIXED] == "31.00 (35.00)"


def test_seeds_that_diverged_stand_beside_their_number() -> None:
    scores = {
        FP32: [
            Score(
                "Full ZO", 89.80, last=70.0, best=72.0, profile="paper", caveat="1 of 3 diverged"
            ),
            Score("Full BP", 99.10, profile="paper", caveat="2 of 2 diverged"),
        ]
    }
    frame = table(scores)
    assert frame.loc["Full ZO", FP32] == "70.00 (72.00) (1 of 3 diverged) | 89.80 | -19.80"
    assert frame.loc["Full BP", FP32] == "– (2 of 2 diverged) | 99.10"  # noqa: RUF001
    figure = dots(scores)
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["Full ZO\n(1 of 3 diverged)", "Full BP\n(2 of 2 diverged)"]


def test_table_leaves_out_what_the_paper_has_no_cell_for() -> None:
    frame = table({FP32: SCORES[FP32], ("MNIST", "INT8*"): [Score("Full ZO", 88.92)]})
    assert frame.loc["Full BP", ("MNIST", "INT8*")] == ""


STEEP = np.array([[2.3, 0.5, 0.02], [2.3, 0.7, 0.04], [2.3, 0.3, 0.06]])
FLAT = np.array([[2.3, 1.5, 1.0], [2.3, 1.7, 1.2]])
ZO, BP = METHOD_LABELS["full_zo"], METHOD_LABELS["full_bp"]


def series(seeds: Any, profile: str = "paper", caveat: str = "", *, method: str = ZO) -> Line:
    return Line(method, LINES[method], seeds, profile, caveat)


def drawn(*lines: Line, kind: str = "train", dataset: str = "MNIST") -> dict[Any, Panel]:
    return {(kind, dataset): Panel(f"{dataset}, {kind}", list(lines))}


def losses(panels: dict[Any, Panel]) -> Figure:
    return curves(panels, "loss", (4.6, 2.5), log_from=10)


def test_curves_show_mean_and_range_over_seeds() -> None:
    figure = losses(
        drawn(series(FLAT, "quick"), series(STEEP, "quick", method=BP))
        | drawn(series(FLAT), dataset="Fashion-MNIST")
        | drawn(series(FLAT, "quick"), kind="test")
        | drawn(series(FLAT), kind="test", dataset="Fashion-MNIST")
    )
    titles = [panel.get_title(loc="left") for panel in figure.axes]
    assert titles == [
        "MNIST, train (quick)",
        "Fashion-MNIST, train",
        "MNIST, test (quick)",
        "Fashion-MNIST, test",
    ]
    train, other, test, _ = figure.axes
    assert [line.get_ydata() == pytest.approx(seeds.mean(axis=0)) for line, seeds in
            zip(train.lines, (FLAT, STEEP), strict=True)] == [True, True]  # fmt: skip
    assert list(train.lines[0].get_xdata()) == [0, 1, 2]
    band = train.collections[1].get_paths()[0].vertices
    assert {round(y, 2) for x, y in band if x == 2} == {0.02, 0.06}
    # logarithmic where the losses of the panel itself span much
    scales = [panel.get_yscale() for panel in (train, test, other)]
    assert scales == ["log", "linear", "linear"]
    assert train.get_ylim()[0] < 0.04 < 0.9 < test.get_ylim()[0]
    assert [text.get_text() for text in figure.legends[0].texts] == [
        "Full ZO",
        "Full BP",
        "range over seeds",
    ]


@pytest.mark.parametrize("smallest", [1e-1, 1e-3, 1e-8])
def test_labels_of_losses_do_not_overlap(smallest: float) -> None:
    line = series([[2.5, smallest]], method=BP)
    figure = losses(drawn(line) | drawn(line, kind="test"))
    panel = figure.axes[0]
    figure.canvas.draw()
    bottom, top = panel.get_ylim()
    shown = [
        label.get_window_extent()
        for label, value in zip(panel.get_yticklabels(), panel.get_yticks(), strict=True)
        if bottom <= value <= top
    ]
    assert len(shown) >= 3
    assert all(low.y1 < high.y0 for low, high in pairwise(shown))


def test_one_seed_has_no_range() -> None:
    figure = losses(drawn(series(FLAT[:1])))
    assert [text.get_text() for text in figure.legends[0].texts] == ["Full ZO"]
    assert not figure.axes[0].collections


def test_a_mean_ends_where_a_seed_diverged() -> None:
    ragged = [[2.3, 1.0, 0.9, 0.8], [2.3, 1.2]]
    figure = losses(drawn(series(ragged, caveat="1 of 2 diverged")))
    (line,) = figure.axes[0].lines
    assert list(line.get_ydata()) == pytest.approx([2.3, 1.1])
    assert remarks(figure.axes[0]) == ["Full ZO: 1 of 2 diverged"]
    assert figure.axes[0].get_title(loc="left") == "MNIST, train"


def test_a_curve_of_another_profile_is_named_in_its_panel() -> None:
    quick = series(STEEP, "quick", "1 of 3 diverged", method=BP)
    figure = losses(drawn(series(FLAT), quick) | drawn(quick, kind="test"))
    train, test = figure.axes
    assert train.get_title(loc="left") == "MNIST, train"
    assert remarks(train) == ["Full BP: quick, 1 of 3 diverged"]
    assert test.get_title(loc="left") == "MNIST, test (quick)"
    assert remarks(test) == ["Full BP: 1 of 3 diverged"]
    (handle,) = train.get_legend().get_lines()
    assert handle.get_color() == train.lines[1].get_color()


def test_a_method_whose_seeds_all_diverged_at_once_is_named_and_has_no_line() -> None:
    figure = losses(drawn(series([], caveat="3 of 3 diverged")))
    (panel,) = figure.axes
    assert not panel.lines
    assert remarks(panel) == ["Full ZO: 3 of 3 diverged"]


def remarks(panel: Axes) -> list[str]:
    return [text.get_text() for text in panel.get_legend().texts]


def test_a_method_has_its_own_line_whichever_are_drawn() -> None:
    figure = losses(drawn(*(series(FLAT, method=method) for method in METHOD_LABELS.values())))
    lines = figure.axes[0].lines
    assert len({line.get_color() for line in lines}) == 4
    assert len({str(line._dash_pattern) for line in lines}) == 4
    alone = losses(drawn(series(FLAT, method=METHOD_LABELS["cls1"])))
    assert alone.axes[0].lines[0].get_color() == lines[2].get_color()
