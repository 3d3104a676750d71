"""Make the tables of the notebooks on memory from records, as data frames."""

from collections.abc import Sequence

import pandas as pd

from repro.artifacts.shared.memory_estimates import (
    ABOVE,
    ESTIMATES,
    OBJECTS,
    PARTS,
    STEP,
    TOTAL,
    read,
)
from repro.core.names import METHOD_LABELS
from repro.core.units import format_binary_bytes
from repro.measurement.records import Record, of_kind

_LAYER = {
    "name": "layer",
    "kind": "kind",
    "parameters": "parameters",
    "inputs": "inputs of a sample",
    "outputs": "outputs of a sample",
    "accumulates": "int32 accumulator",
}
_RATIOS = {"of the formula": "analytic", "of the bound": "bound"}


def layers(records: Sequence[Record]) -> pd.DataFrame:
    """Return the layers of each network and precision, with their sums."""
    tables = []
    for record in of_kind(records, "layers"):
        table = pd.DataFrame(record.metrics["rows"])[list(_LAYER)].rename(columns=_LAYER)
        table["int32 accumulator"] = table["int32 accumulator"].map({True: "yes", False: ""})
        sums = {"layer": "all", "kind": "", "inputs of a sample": "", "int32 accumulator": ""}
        sums |= {name: table[name].sum() for name in ("parameters", "outputs of a sample")}
        table = pd.concat([table, pd.DataFrame([sums])], ignore_index=True)
        table.insert(0, "precision", str(record.point["precision"]).upper())
        tables.append(table)
    return pd.concat(tables, ignore_index=True).set_index(["precision", "layer"])


def estimates(records: Sequence[Record], precision: str) -> pd.DataFrame:
    """Return every estimate of every step of ``precision``: its parts, total and ratios."""
    found, rows = read(records), []
    for (*step, name), memory in found.items():
        point = dict(zip(STEP, step, strict=True))
        if point["precision"] == precision:
            row = {
                "B": point["batch"],
                "method": METHOD_LABELS[point["method"]],
                "estimate": ESTIMATES[name].label,
                OBJECTS: "",
                **{label: format_binary_bytes(size) for label, size in memory.items() if size},
            }
            for label, of in _RATIOS.items():
                row[label] = f"{memory[TOTAL] / found[*step, of][TOTAL]:.3f}"
            rows.append(row)
    frame = pd.DataFrame(rows).fillna("")
    every = (*PARTS.values(), ABOVE, TOTAL, *_RATIOS, OBJECTS)
    columns = [name for name in every if name in frame.columns]
    return frame.set_index(["B", "method", "estimate"])[columns]


def optimizers(records: Sequence[Record]) -> pd.DataFrame:
    """Return each step's total by formula, equation (5), for each optimizer of its BP layers."""
    rows = [
        {
            "B": record.point["batch"],
            "method": METHOD_LABELS[record.point["method"]],
            "optimizer": record.point["optimizer"],
            "total": format_binary_bytes(record.metrics["total_bytes"]),
        }
        for record in of_kind(records, "formula")
        if record.point["precision"] == "fp32"  # integer optimizers have no state
    ]
    table = pd.DataFrame(rows).pivot(index=["B", "method"], columns="optimizer", values="total")
    return table[["sgd", "momentum", "adam"]]
