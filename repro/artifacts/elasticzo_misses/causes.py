"""The suspected causes: what the paper leaves open, and the values it is changed to."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from repro.core.names import MethodName
from repro.training.cell import Cell

Changes = Mapping[str, Any]
"""Settings, or the cell's precision, or ``start_`` settings of the run it starts from."""


@dataclass(frozen=True)
class Cause:
    """One suspected cause."""

    name: str
    """As drawn."""
    setting: str
    """What is changed; ``start_`` names a setting of pre-training."""
    values: tuple[Any, ...]
    """The table's own is among them or not: it is always run."""


BATCH_AS_FLOAT = Cause("batch size", "batch", (32,))
"""The batch of the tables in float32: for every row of Table 2 in INT8."""
OF_INTEGER_TUNING = (
    Cause("batch size", "batch", (32, 64, 256, 1024)),
    Cause("$r_{max}$", "r_max", (3, 7, 15, 31, 63)),
    Cause("$p_{zero}$ in every epoch", "p_zero", (0.33, 0.9, 0.97)),
    Cause("sign", "precision", ("int8", "int8s")),
    Cause("restore", "restore", ("clip", "exact")),
    Cause("tail's activations", "activations", ("plus", "minus")),
)
OF_FLOAT_TUNING = (
    Cause("batch size", "batch", (8, 16, 32, 64)),
    Cause("learning rate", "lr", (0.016, 0.032, 0.064)),
    Cause("$g_{clip}$", "clip", (0.025, 0.05, 0.1)),
    Cause(r"$\epsilon$", "eps", (1e-3, 3e-3, 1e-2)),
    Cause("decay of the rate", "decay", (0.8, 1.0)),
    Cause("tail's activations", "activations", ("plus", "minus", "mean")),
    Cause("pre-training's rate", "start_lr", (3e-4, 1e-3, 3e-3)),
    Cause("pre-training's batch", "start_batch", (32, 64, 128, 256)),
)
OF_INTEGER_TRAINING = (
    Cause("$r_{max}$", "r_max", (3, 7, 15)),
    Cause("batch size", "batch", (64, 256)),
    Cause("tail's activations", "activations", ("plus", "minus")),
)
SETTINGS = tuple(
    dict.fromkeys(
        cause.setting
        for causes in (OF_INTEGER_TUNING, OF_FLOAT_TUNING, OF_INTEGER_TRAINING)
        for cause in causes
        if cause.setting != "precision"
    )
)
"""Coordinates of the runs beside those of the tables."""

_WITHOUT_A_TAIL: MethodName = "full_zo"
_OF_THE_TAIL = "activations"


def applies(cause: Cause, method: MethodName) -> bool:
    """Return whether ``method`` has what ``cause`` changes."""
    return cause.setting != _OF_THE_TAIL or method != _WITHOUT_A_TAIL


def arms(cell: Cell, causes: tuple[Cause, ...]) -> Iterator[Cell]:
    """Yield ``cell`` as in the tables, and with each value of each cause alone; none twice."""
    changed = [
        change(cell, {cause.setting: value})
        for cause in causes
        if applies(cause, cell.method)
        for value in cause.values
    ]
    yield from dict.fromkeys((cell, *changed))


def change(cell: Cell, changes: Changes) -> Cell:
    """Return ``cell`` with other settings of its own or of the run it starts from."""
    own = dict(changes)
    precision = own.pop("precision", cell.precision)
    before = {name: own.pop(name) for name in changes if name.startswith("start_")}
    start = cell.start
    if start is not None and before:
        settings = {name.removeprefix("start_"): value for name, value in before.items()}
        start = replace(start, settings=replace(start.settings, **settings))
    return replace(cell, precision=precision, settings=replace(cell.settings, **own), start=start)
