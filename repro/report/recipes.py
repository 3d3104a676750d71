"""Generate the tables of settings that worked, from the records of LeNet-5's training runs."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import cast

from repro.claims.trained import SeedGroups
from repro.measurement.records import Record, read_runs
from repro.report.runs import current_runs

WORKED = 0.75
"""Lowest accuracy of a listed recipe, as a share of backpropagation's in the same epochs."""
SEEDS = 5
"""Seeds of a listed recipe."""

TASKS: Mapping[tuple[str, int | None], tuple[str, int]] = {
    ("mnist", None): ("MNIST", 60_000),
    ("fashion_mnist", None): ("Fashion-MNIST", 60_000),
    ("mnist", 30): ("MNIST rotated by 30°", 1024),
    ("mnist", 45): ("MNIST rotated by 45°", 1024),
    ("fashion_mnist", 30): ("Fashion-MNIST rotated by 30°", 1024),
    ("fashion_mnist", 45): ("Fashion-MNIST rotated by 45°", 1024),
}
"""Name and number of training images, by the data set and the angle of a record's point."""
_METHODS = {"full_zo": "Full ZO", "cls2": 'ElasticZO, `"fc3"`', "cls1": 'ElasticZO, `"fc2"`'}
_SETTINGS = {"fp32": ("lr", "eps", "clip", "batch"), "int8": ("r_max", "batch")}


def recipes(results: Path) -> str:
    """Return the tables of both precisions."""
    return "\n\n".join(
        f"In {'float32' if precision == 'fp32' else 'INT8'}:\n\n{recipes_table(results, precision)}"
        for precision in _SETTINGS
    )


def recipes_table(results: Path, precision: str) -> str:
    """Return a Markdown line for each task and zeroth-order method whose runs worked.

    Args:
        results: directory of the records.
        precision: ``fp32`` or ``int8``.
    """
    runs: dict[tuple[str, int | None], dict[str, Sequence[Record]]] = defaultdict(dict)
    for slug in ("elasticzo_table1", "elasticzo_table2"):
        for group in SeedGroups(read_runs(current_runs(results, slug))):
            point = group.point
            if point["precision"] == precision:
                task = str(point["dataset"]), cast("int | None", point.get("angle"))
                runs[task][str(point["method"])] = group.records
    names = _SETTINGS[precision]
    head = ["data", "method", *names, "steps", "before", "after", "backpropagation"]
    rows = []
    for task, (title, images) in TASKS.items():
        backpropagation = _accuracy(runs[task].get("full_bp", ()))
        for method, label in _METHODS.items():
            found = runs[task].get(method, ())
            after = _accuracy(found)
            worked = after >= WORKED * backpropagation  # not if either is not a number
            if len(found) < SEEDS or not worked:
                continue
            settings = found[0].metrics["settings"]
            steps = settings["epochs"] * math.ceil(images / settings["batch"])
            cells = [title, label, *(f"{settings[name]:g}" for name in names), f"{steps:,}"]
            shown = (_accuracy(found, 0), after, backpropagation)
            rows.append([*cells, *(f"{100 * accuracy:.2f} %" for accuracy in shown)])
    return table(head, rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; columns of numbers are aligned to the right."""
    columns = list(zip(*rows, strict=True)) or [()] * len(head)
    numbers = [all(cell[:1] in "+-0123456789" for cell in column) for column in columns]
    lines = [head, ["--:" if right else "---" for right in numbers], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _accuracy(records: Sequence[Record], epoch: int = -1) -> float:
    """Return the mean accuracy over seeds after an epoch; not a number without records."""
    curves = [record.metrics["test_accuracy"] for record in records]
    ends = [float(curve[epoch]) for curve in curves if curve]  # one may diverge before it begins
    return mean(ends) if ends else math.nan
