"""Draw held-out accuracy over the grid."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from repro.artifacts.elasticzo_search.selection import Combination, Group, grids, group_of
from repro.artifacts.shared.columns import TITLES
from repro.claims.elasticzo import PRECISIONS, ROW_LABELS
from repro.measurement.records import Record
from repro.plotting.style import METHOD_COLOURS, notice, style

LineOfGrid = tuple[str, float]
_ABSCISSAE = {"batch": "batch size B", "r_max": "$r_{max}$", "lr": "learning rate"}
"""Labels of the horizontal axis; a panel uses the first of these that was searched for."""
_BEST: dict[str, Any] = {"color": "k", "ls": "none", "marker": "o", "ms": 12, "mfc": "none"}
_AT_THE_EDGE: dict[str, Any] = {**_BEST, "marker": "s"}
_KEYS_OF_BEST = (
    Line2D([], [], label="the best", **_BEST),
    Line2D([], [], label="the best, at the\nedge of the grid", **_AT_THE_EDGE),
)
_MARKERS = "sD^v<>P"
_STYLES = ("--", ":", "-.", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)))


Grids = Mapping[Group, Mapping[Combination, float]]
"""The held-out accuracy of every combination as a fraction, by group."""


def grid(records: Sequence[Record]) -> Figure:
    """Draw a panel for each family of tasks and precision, and mark the best combinations."""
    found = grids(records)
    columns = list(dict.fromkeys(group[:2] for group in found))
    variants = sorted({v for points in found.values() for p in points if (v := _variant(p))})
    places = {v: [one for one in variants if one[0] == v[0]].index(v) for v in variants}
    with style():
        figure, panels = _panels(len(columns))
        for panel, column in zip(panels, columns, strict=True):
            _panel(panel, {g: points for g, points in found.items() if g[:2] == column}, places)
            panel.set_title(f"{problems(records, column[0])}, {PRECISIONS[column[1]]}")
        keys = [
            Line2D([], [], color="grey", label=f"{kind} = {value:g}", **_look(place))
            for (kind, value), place in places.items()
        ]
        handles = [*_methods(found), *keys, *_KEYS_OF_BEST]
        figure.legend(handles=handles, loc="outside right upper")
    return figure


def epsilon(records: Sequence[Record]) -> Figure:
    """Draw accuracy by epsilon at the best point of the grid, a panel for each family of tasks."""
    every = grids(records)
    found = {group: line for group, points in every.items() if len(line := _line(points)) > 1}
    if not found:
        return notice("no epsilon was searched for")
    families = list(dict.fromkeys(group[0] for group in found))
    with style():
        figure, panels = _panels(len(families))
        for panel, family in zip(panels, families, strict=True):
            lines = {group: line for group, line in found.items() if group[0] == family}
            tried = {eps for line in lines.values() for eps, _ in line}
            for group, line in lines.items():
                panel.plot(*zip(*line, strict=True), marker="o", color=METHOD_COLOURS[group[2]])
                eps, accuracy = max(line, key=lambda at: at[1])
                mark = _AT_THE_EDGE if eps in (min(tried), max(tried)) else _BEST
                panel.plot(eps, accuracy, **mark)
            panel.set(
                xscale="log",
                xlabel=r"$\epsilon$",
                ylabel="held-out accuracy (%)",
                title=problems(records, family),
            )
            _ticks(panel, tried)
        searched = [line for line in _methods(every) if line.get_label() != ROW_LABELS["full_bp"]]
        figure.legend(handles=[*searched, *_KEYS_OF_BEST], loc="outside right upper")
    return figure


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    across = min(count, 3)
    down = -(-count // across)
    figure, panels = plt.subplots(
        down, across, figsize=(3.6 * across + 1.2, 2.9 * down), squeeze=False
    )
    for panel in panels.flat[count:]:
        panel.set_axis_off()
    return figure, list(panels.flat[:count])


def _line(points: Mapping[Combination, float]) -> list[tuple[float, float]]:
    """Return (epsilon, accuracy in %) for the combinations at the best point of the grid."""
    found = [(dict(point), value) for point, value in points.items() if "eps" in dict(point)]
    other = [point for point, _ in found if point["eps"] != _grid_eps(points)]
    return sorted(
        (point["eps"], 100 * value)
        for point, value in found
        if any(point | {"eps": at["eps"]} == at for at in other)
    )


def _grid_eps(points: Iterable[Combination]) -> float | None:
    """Return the epsilon of the grid of learning rates and clips: the most frequent one."""
    values = [dict(point)["eps"] for point in points if "eps" in dict(point)]
    return max(values, key=values.count) if values else None


def _panel(panel: Axes, found: Grids, places: Mapping[LineOfGrid, int]) -> None:
    """Draw a line for each method and variant; ``places`` gives the variants' looks."""
    axis: dict[float, str] = {}
    for group, points in found.items():
        best = max(points, key=lambda point: points[point])
        wanted = {name: value for name, value in best if name != "eps"}
        eps = _grid_eps(points)
        in_grid = {p: value for p, value in points.items() if dict(p).get("eps") in {None, eps}}
        at = {p: next(dict(p)[name] for name in _ABSCISSAE if name in dict(p)) for p in in_grid}
        axis |= {at[p]: next(name for name in _ABSCISSAE if name in dict(p)) for p in in_grid}
        for variant in dict.fromkeys(map(_variant, in_grid)):
            line = sorted((at[p], 100 * v) for p, v in in_grid.items() if _variant(p) == variant)
            look = _look(None if variant is None else places[variant])
            panel.plot(*zip(*line, strict=True), color=METHOD_COLOURS[group[2]], **look)
        chosen = next(p for p in in_grid if wanted.items() <= dict(p).items())
        tried = {name: {dict(p)[name] for p in in_grid} for name, _ in chosen}
        at_the_edge = any(
            len(tried[name]) > 1 and value in (min(tried[name]), max(tried[name]))
            for name, value in chosen
        )
        mark = _AT_THE_EDGE if at_the_edge else _BEST
        panel.plot(at[chosen], 100 * in_grid[chosen], **mark)
    label = _ABSCISSAE[next(iter(axis.values()))]
    panel.set(xscale="log", xlabel=label, ylabel="held-out accuracy (%)")
    _ticks(panel, axis)


def problems(records: Iterable[Record], family: str) -> str:
    """Name the data sets of a family's tasks."""
    sets = dict.fromkeys(r.point["dataset"] for r in records if group_of(r)[0] == family)
    names = ", ".join(TITLES[name] for name in sets)
    return f"rotated {names}" if family.startswith("rotated") else names


def _ticks(panel: Axes, values: Iterable[float]) -> None:
    ticks = sorted(values)
    panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks], rotation=40, ha="right")
    panel.minorticks_off()


def _variant(point: Combination) -> LineOfGrid | None:
    """Return label and value that distinguish lines of one method: g_clip, or r_max by batch."""
    values = dict(point)
    if "clip" in values:
        return "$g_{clip}$", values["clip"]
    if "batch" in values and "r_max" in values:
        return "$r_{max}$", values["r_max"]
    return None


def _look(place: int | None) -> dict[str, Any]:
    """Return the marker and dashes for a variant; ``None`` gives the plain style."""
    if place is None:
        return {"marker": "o", "linestyle": "-"}
    return {"marker": _MARKERS[place % len(_MARKERS)], "linestyle": _STYLES[place % len(_STYLES)]}


def _methods(found: Grids) -> list[Line2D]:
    present = {group[2] for group in found}
    return [
        Line2D([], [], color=colour, label=ROW_LABELS[method])
        for method, colour in METHOD_COLOURS.items()
        if method in present
    ]
