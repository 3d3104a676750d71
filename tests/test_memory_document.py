"""The table of docs/memory.md: small networks in kibibytes, by equations, bound and engine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from repro.core.names import METHOD_LABELS, MethodName, Precision
from repro.core.units import KIB
from repro.integer.network import IntegerNetwork
from repro.memory.elasticzo import training_bytes
from repro.memory.layers import layer_table
from repro.memory.lower_bound import lower_bound
from repro.models.lenet5 import SAMPLE_SHAPE, lenet5
from repro.models.pointnet import pointnet
from repro.ondevice.floating import NativeElasticZO
from repro.ondevice.integer import NativeElasticZOInt8
from repro.training.task import partition

DOCUMENT = Path(__file__).parents[1] / "docs" / "memory.md"
BATCHES = (1, 32, 256)
METHODS: tuple[MethodName, ...] = ("full_zo", "cls1", "full_bp")


def arena_bytes(
    network: nn.Sequential, sample: tuple[int, ...], precision: Precision, tail: Any, batch: int
) -> list[int]:
    """Return the size of the block that the engine trains in; in integers, the compact one too.

    Every machine has the baseline; the tables of other instruction sets differ by some KiB.
    """
    settings: dict[str, Any] = {"capacity": batch, "instructions": "baseline"}
    if precision == "fp32":
        floats = NativeElasticZO(network, sample, tail, lr=0.1, eps=0.1, clip=0.1, **settings)
        return [floats.arena_bytes]
    integers = IntegerNetwork.random(network, seed=0)
    return [
        NativeElasticZOInt8(
            integers, network, sample, tail, compact=compact, **settings
        ).arena_bytes
        for compact in (False, True)
    ]


def rows() -> Iterator[str]:
    """Yield the lines of the table."""
    for precision, method in ((p, m) for p in ("fp32", "int8") for m in METHODS):
        network = lenet5(bias=precision == "fp32")
        yield row("LeNet-5", network, SAMPLE_SHAPE, precision, method, BATCHES)
    for method in METHODS:
        yield row("PointNet, 1,024 points", pointnet(), (1024, 3), "fp32", method, BATCHES[:2])


def row(
    name: str,
    network: nn.Sequential,
    sample: tuple[int, ...],
    precision: Any,
    method: MethodName,
    batches: tuple[int, ...],
) -> str:
    """Return the line of one network and method."""
    layers = layer_table(network, sample)
    tail = partition("lenet5" if name == "LeNet-5" else "pointnet", method, network)
    cells = []
    for batch in batches:
        found = (
            training_bytes(layers, tail, batch=batch, precision=precision).total,
            lower_bound(layers, tail, batch, precision=precision).total,
            *arena_bytes(network, sample, precision, tail, batch),
        )
        cells.append(" / ".join(f"{size / KIB:,.0f}" for size in found))
    cells += [""] * (len(BATCHES) - len(batches))
    words = [name, {"fp32": "FP32", "int8": "INT8"}[precision], METHOD_LABELS[method], *cells]
    return f"| {' | '.join(words)} |"


@pytest.mark.usefixtures("engine")
def test_the_document_has_the_table() -> None:
    text = DOCUMENT.read_text()
    missing = [line for line in rows() if line not in text]
    assert not missing, "copy into docs/memory.md:\n" + "\n".join(rows())
