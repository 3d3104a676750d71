"""Make the notebook's tables from records, as data frames."""

from collections.abc import Sequence
from statistics import fmean

import pandas as pd

from repro.artifacts.zo_methods.arms import ARMS
from repro.artifacts.zo_methods.comparison import comparisons
from repro.claims.statistics import estimate
from repro.core.units import format_bytes, format_seconds
from repro.measurement.records import Record

_NONE = "–"  # noqa: RUF001


def ranking(records: Sequence[Record]) -> pd.DataFrame:
    """Return the methods of each task, the most accurate at equal forward passes first.

    Accuracies, in per cent, and losses are means over seeds with their 95 % interval. Times are of
    runs on one processor; others have none.
    """
    rows = []
    for found in comparisons(records):
        final = {line.name: fmean(line.final()) for line in found.lines}
        for place, line in enumerate(found.lines, start=1):
            edge = " (end of its grid)" if line.records[0].metrics["at_edge"] else ""
            told = f" ({line.caveat})" if line.caveat else ""
            gains = {
                of: None if of == line.name or of not in final else final[line.name] - final[of]
                for of in ("mezo", "mezo_clipped")
            }
            is_timed = line in found.timed
            row = {
                "task": found.title,
                "rank": place,
                "method": line.arm.label,
                "learning rate": f"{line.lr:g}{edge}",
                "seeds": f"{len(line.records)}{told}",
                "at equal forward passes (%)": estimate(line.final()).text(),
                "loss": _loss(line.final("loss")),
                "at equal time (%)": line.at_time(found.equal_time).text() if is_timed else _NONE,
                "forward passes": f"{line.forwards:.0f}",
                "steps": line.steps,
                "CPU time": format_seconds(line.seconds) if is_timed else _NONE,
                "a step (ms)": f"{1000 * line.seconds / line.steps:.3g}" if is_timed else _NONE,
                "peak memory": format_bytes(line.step.metrics["peak_bytes"]),
                "gain over MeZO (points)": _points(gains["mezo"]),
                "over clipped MeZO": _points(gains["mezo_clipped"]),
                "published, over clipped MeZO": _points(line.published_gain()),
            }
            rows.append(row)
        for name in found.failed:
            label, diverged = ARMS[name].label, {"at equal forward passes (%)": "diverged"}
            rows.append({"task": found.title, "rank": _NONE, "method": label, **diverged})
    return pd.DataFrame(rows, dtype=object).fillna(_NONE)


def _loss(seeds: Sequence[float]) -> str:
    found = estimate(seeds)
    spread = "" if found.interval is None else f" ± {found.interval:.3f}"
    return f"{found.mean:.3f}{spread}"


def _points(gain: float | None) -> str:
    return _NONE if gain is None else f"{gain:+.2f}"


def learning_rates(records: Sequence[Record]) -> pd.DataFrame:
    """Return each grid: the loss on the held-out items by learning rate, and the chosen rate."""
    rows = []
    for found in comparisons(records):
        chosen = {line.name: line.lr for line in found.lines}
        for record in found.grids:
            name, lr = record.point["arm"], record.point["lr"]
            loss = record.metrics["loss"]
            rows.append(
                {
                    "task": found.title,
                    "method": ARMS[name].label,
                    "learning rate": f"{lr:g}",
                    "held-out loss": f"{loss[-1]:.4f}" if loss else "diverged",
                    "chosen": "yes" if lr == chosen.get(name) else "",
                }
            )
    return pd.DataFrame(rows)
