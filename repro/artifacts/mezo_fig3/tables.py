"""Make the notebook's tables from records, as data frames."""

from collections.abc import Sequence

import pandas as pd

from repro.artifacts.shared.savings import SYMBOLS, WHERE, of_one_device, pairs
from repro.core.units import format_bytes
from repro.measurement.records import Record, of_kind, single
from repro.memory.analytic import AS_PRINTED
from repro.memory.readings import PRINTED, RECOVERED

_COORDINATES = ("context", "layers", "hidden", "method", "attention", "dtype")
_PEAK = "peak_bytes"
_NO_PARTS = (_PEAK, "formula_bytes")


def parameters(records: Sequence[Record]) -> pd.DataFrame:
    """Return the real model's parameters by part, their sum and the formula's count.

    The table is empty if a run left out the equations.
    """
    if not any(of_kind(records, "parameters")):
        return pd.DataFrame()
    record = single(records, "parameters")
    table: dict[str, int] = record.metrics["table"]
    total = sum(table.values())
    counts = {**table, "all": total, "formula 12 L D² + 2 V D": int(record.metrics["formula"])}
    rows = [(part, f"{count:,}", f"{count / total:.2%}") for part, count in counts.items()]
    return pd.DataFrame(rows, columns=["part", "parameters", "share"]).set_index("part")


def points(records: Sequence[Record], kind: str) -> pd.DataFrame:
    """Return every simulated or measured peak, the formula's value and the effective L'.

    A peak on a GPU is shown only if there is none of the same shape and kernel on the CPU.
    """
    rows = []
    for record in of_one_device(of_kind(records, kind)):
        point, metrics = record.point, record.metrics
        row = {SYMBOLS.get(name, name): point[name] for name in _COORDINATES}
        if "peak_bytes" in metrics:
            row |= {
                "observed": format_bytes(metrics["peak_bytes"]),
                "formula": format_bytes(metrics["formula_bytes"]),
                "formula's error": f"{metrics['formula_bytes'] / metrics['peak_bytes'] - 1:+.1%}",
                "effective L'": f"{metrics['effective_layers']:.2f}",
                "beyond gradients": f"{metrics.get('effective_layers_beyond_gradients', 0):.2f}"
                if "effective_layers_beyond_gradients" in metrics
                else "",
            }
        else:
            row |= {"observed": "out of memory"}
        rows.append(row)
    return pd.DataFrame(rows)


def breakdown(records: Sequence[Record]) -> pd.DataFrame:
    """Return the memory at the simulated peak in the paper's setting, by part.

    Parts that are empty in every step are left out.
    """
    config = records[0].config
    found = [
        record
        for record in of_kind(records, "simulated")
        if all(record.point[name] == config[name] for name in ("context", "layers", "hidden"))
    ]
    named = dict.fromkeys(
        name
        for record in found
        for name, value in record.metrics.items()
        if name.endswith("_bytes") and name not in _NO_PARTS and value
    )
    rows = [
        {
            "method": record.point["method"],
            "attention": record.point["attention"],
            **{
                name.removesuffix("_bytes").replace("_", " "): format_bytes(record.metrics[name])
                for name in (*named, _PEAK)
            },
        }
        for record in found
    ]
    return pd.DataFrame(rows)


def extra_over_forward(records: Sequence[Record]) -> pd.DataFrame:
    """Return by how much a MeZO step's measured transients exceed those of a forward pass."""
    found = pairs(of_kind(records, "measured"), ["mezo"], "forward")
    names = {"step_bytes_over": "forward (B)", "step_bytes": "MeZO (B)"}
    frame = found[[*WHERE, *names]].rename(columns=SYMBOLS | names)
    frame["extra (%)"] = (100 * (frame["MeZO (B)"] / frame["forward (B)"] - 1)).round(2)
    return frame


def readings() -> pd.DataFrame:
    """Return every printed number of section 2.4 and its value in two readings."""
    return pd.DataFrame(
        [
            {
                "ratio BP / MeZO": number.name,
                "printed": f"{number.value:.{number.digits}f}",
                "equations as printed": f"{number.of(AS_PRINTED):.3f}",
                "recovered": f"{number.of(RECOVERED):.3f}",
            }
            for number in PRINTED
        ]
    )
