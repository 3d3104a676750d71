"""Make the notebook's tables: ratios of BP to MeZO, errors of the simulation, Fig. 4's set-ups."""

from collections.abc import Sequence

import pandas as pd

from repro.artifacts.shared.savings import SYMBOLS
from repro.core.units import GB
from repro.measurement.records import Record, of_kind

_SHAPE = ["context", "layers", "hidden", "attention"]
_STEP = [*_SHAPE, "method", "dtype"]
_LABELS = {"bp": "BP / MeZO", "bp_checkpoint": "BP, checkpointed / MeZO"}
_BASES = ("equation", "simulated", "measured")


def ratios(records: Sequence[Record]) -> pd.DataFrame:
    """Return BP's peak over MeZO's for each shape, by equation, simulation and measurement."""
    steps = _steps(records)
    equation = steps.assign(kind="equation", peak_bytes=steps["equation_bytes"])
    peaks = pd.concat([steps, equation]).pivot_table(
        "peak_bytes", _SHAPE, ["method", "kind"], aggfunc="last"
    )
    peaks = peaks.reindex(columns=pd.MultiIndex.from_product([[*_LABELS, "mezo"], _BASES]))
    table = pd.DataFrame(index=peaks.index)
    for method, label in _LABELS.items():
        for basis in _BASES:
            ratio = peaks[method, basis] / peaks["mezo", basis]
            named = ratio.map("{:.2f}".format, na_action="ignore")
            if basis == "measured":
                named = named.mask(table.index.isin(_too_large(steps, method)), "GPU too small")
            table[f"{label}, {basis}"] = named
    return table.fillna("no record").reset_index().rename(columns=SYMBOLS)


def _too_large(steps: pd.DataFrame, method: str) -> pd.MultiIndex:
    """Return the shapes whose step by ``method`` or by MeZO was tried and did not fit."""
    tried = steps["method"].isin([method, "mezo"]) & (steps["kind"] == "measured")
    return pd.MultiIndex.from_frame(steps.loc[tried & steps["peak_bytes"].isna(), _SHAPE])


def agreement(records: Sequence[Record]) -> pd.DataFrame:
    """Return how far measured and simulated peaks differ, by attention and method."""
    steps = _steps(records).dropna(subset="peak_bytes")
    simulated = steps[steps["kind"] == "simulated"].drop_duplicates(_STEP, keep="last")
    both = steps[steps["kind"] == "measured"].merge(simulated, on=_STEP)
    both["ratio"] = both["peak_bytes_x"] / both["peak_bytes_y"]
    found = both.groupby(["attention", "method"])["ratio"].agg(["count", "min", "max"])
    for end in ("min", "max"):
        found[end] = found[end].map("{:.3f}".format)
    names = {"count": "steps", "min": "measured / simulated, smallest", "max": "largest"}
    return found.rename(columns=names).reset_index()


def _steps(records: Sequence[Record]) -> pd.DataFrame:
    rows = [{"kind": r.kind, **r.point, **r.metrics} for r in records]
    steps = pd.DataFrame(rows, columns=["kind", *_STEP, "equation_bytes", "peak_bytes"])
    return steps[steps["kind"].isin(["measured", "simulated"])]


def fig4(records: Sequence[Record]) -> pd.DataFrame:
    """Return equation and measurement of each set-up of Fig. 4; empty without such records."""
    return pd.DataFrame(
        [
            {
                "model": record.point["model"],
                "method": record.point["method"],
                "attention": record.point["attention"],
                "published (GB)": 17,
                "equation (GB)": round(record.metrics["equation_bytes"] / GB, 1),
                "measured (GB)": (
                    round(record.metrics["peak_bytes"] / GB, 1)
                    if "peak_bytes" in record.metrics
                    else "out of memory"
                ),
            }
            for record in of_kind(records, "fig4_model")
        ]
    )
