"""The ElasticZO paper's memory formulas against every digit that it prints."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from repro.core.errors import UsageError
from repro.core.names import NumberFormat
from repro.memory.breakdown import MemoryBreakdown
from repro.memory.elasticzo import training_bytes
from repro.memory.layers import LayerSize, layer_table
from repro.models.lenet5 import lenet5
from repro.models.pointnet import pointnet

LENET5 = layer_table(lenet5(), (1, 28, 28))
INTEGERS = layer_table(lenet5(bias=False), (1, 28, 28))
POINTNET = layer_table(pointnet(), (1024, 3))
TAILS: dict[str, str | int] = {"full_bp": 0, "cls1": "fc2", "cls2": "fc3"}
MIB, KIB = 2**20, 2**10


def lenet5_step(method: str, batch: int, precision: NumberFormat = "fp32") -> MemoryBreakdown:
    table = LENET5 if precision == "fp32" else INTEGERS
    return training_bytes(table, TAILS.get(method, len(table)), batch, precision=precision)


def pointnet_step(method: str) -> MemoryBreakdown:
    tails: dict[str, str | int] = {"full_bp": 0, "cls1": "fc7", "cls2": "fc8"}
    return training_bytes(POINTNET, tails.get(method, len(POINTNET)), 32)


@pytest.mark.parametrize(
    ("method", "batch", "printed"),
    [("full_bp", 32, "5.2"), ("full_zo", 32, "2.6"), ("full_bp", 256, "36.1"),
     ("full_zo", 256, "18.0")],
)  # fmt: skip
def test_totals_of_fig_4(method: str, batch: int, printed: str) -> None:
    assert f"{lenet5_step(method, batch).total / MIB:.1f}" == printed


@pytest.mark.parametrize(
    ("method", "batch", "kilobytes", "per_cent"),
    [("cls2", 32, "4.6", "0.17"), ("cls1", 32, "65.3", "2.4"),
     ("cls2", 256, "13.3", "0.072"), ("cls1", 256, "221.0", "1.2")],
)  # fmt: skip
def test_overheads_of_fig_4(method: str, batch: int, kilobytes: str, per_cent: str) -> None:
    full_zo, found = lenet5_step("full_zo", batch).total, lenet5_step(method, batch).total
    digits = len(per_cent.partition(".")[2])
    assert f"{(found - full_zo) / KIB:.1f}" == kilobytes
    assert f"{100 * (found / full_zo - 1):.{digits}f}" == per_cent


def test_activations_of_fig_4() -> None:
    full_zo, cls2, cls1 = (lenet5_step(method, 256) for method in ("full_zo", "cls2", "cls1"))
    assert f"{full_zo.activations / full_zo.parameters:.1f}" == "42.9"
    assert f"{100 * cls1.activations / cls1.total:.1f}" == "96.6"
    # printed as 97.6, which this is when cut and not when rounded
    assert 97.65 < 100 * cls2.activations / cls2.total < 97.66


@pytest.mark.parametrize(("batch", "printed"), [(32, "1.8"), (256, "1.6")])
def test_savings_over_backpropagation_of_fig_5(batch: int, printed: str) -> None:
    bp, zo = (lenet5_step(method, batch, "int8").total for method in ("full_bp", "full_zo"))
    assert f"{bp / zo:.1f}" == printed


@pytest.mark.parametrize(
    ("method", "batch", "printed"),
    [("cls2", 32, "0.26"), ("cls1", 32, "4.1"), ("cls2", 256, "0.052"), ("cls1", 256, "1.4")],
)
def test_overheads_of_fig_5(method: str, batch: int, printed: str) -> None:
    found, full_zo = (lenet5_step(m, batch, "int8").total for m in (method, "full_zo"))
    digits = len(printed.partition(".")[2])
    assert f"{100 * (found / full_zo - 1):.{digits}f}" == printed


@pytest.mark.parametrize(("batch", "printed"), [(32, "1.60"), (256, "1.46")])
def test_savings_over_float32_of_fig_5(batch: int, printed: str) -> None:
    fp32, int8 = (lenet5_step("full_zo", batch, p).total for p in ("fp32", "int8"))
    assert f"{fp32 / int8:.2f}" == printed


@pytest.mark.parametrize(("method", "printed"), [("cls2", "93.5"), ("cls1", "90.0")])
def test_shares_of_fig_5(method: str, printed: str) -> None:
    full_zo = lenet5_step("full_zo", 32, "int8")
    activations = full_zo.activations + full_zo.int32_buffers
    assert f"{100 * activations / lenet5_step(method, 32, 'int8').total:.1f}" == printed


def test_fig_6() -> None:
    full_zo, cls2, cls1 = (pointnet_step(method) for method in ("full_zo", "cls2", "cls1"))
    assert f"{full_zo.total / MIB:.1f}" == "507.4"
    assert pointnet_step("full_bp").total == 2 * full_zo.total
    assert f"{100 * (cls2.total / full_zo.total - 1):.4f}" == "0.0087"
    assert f"{100 * (cls1.total / full_zo.total - 1):.2f}" == "0.12"
    assert f"{100 * cls2.activations / cls2.total:.1f}" == "99.4"
    assert f"{100 * cls1.activations / cls1.total:.1f}" == "99.3"


def test_integer_totals_by_hand() -> None:
    """Equations (13)-(15) with the numbers of the layers written out."""
    B, parameters, a, accumulated = 32, 107_550, 18_058, 4704 + 3136 + 120 + 84 + 10
    full_zo = parameters + B * a + 4 * B * accumulated
    cls1 = full_zo + (1 + 4) * (120 * 84 + 84 * 10) + B * (84 + 84 + 10) + 4 * B * 84
    full_bp = full_zo + (1 + 4) * parameters + B * a + 4 * B * (1176 + 784 + 120 + 84)
    for method, total in (("full_zo", full_zo), ("cls1", cls1), ("full_bp", full_bp)):
        assert lenet5_step(method, B, "int8").total == total


@pytest.mark.parametrize(("optimizer", "copies"), [("sgd", 0), ("momentum", 1), ("adam", 2)])
def test_an_optimizer_keeps_copies_of_what_it_trains(optimizer: str, copies: int) -> None:
    for partition, trained in ((0, 107_786), ("fc2", 11_014), (12, 0)):
        parts = training_bytes(LENET5, partition, 32, optimizer=optimizer)  # type: ignore[arg-type]
        assert parts.optimizer_state == 4 * trained * copies
        assert parts.total == training_bytes(LENET5, partition, 32).total + parts.optimizer_state


def perceptron(widths: list[int]) -> tuple[LayerSize, ...]:
    pairs = pairwise(widths)
    layers = [layer for a, b in pairs for layer in (nn.Linear(a, b), nn.ReLU())]
    return layer_table(nn.Sequential(*layers), (widths[0],))


@given(
    st.lists(st.integers(1, 30), min_size=2, max_size=5),
    st.integers(1, 9),
    st.sampled_from(["fp32", "int8"]),
)
def test_memory_falls_as_the_tail_gets_shorter(
    widths: list[int], batch: int, precision: NumberFormat
) -> None:
    table = perceptron(widths)
    totals = [
        training_bytes(table, c, batch, precision=precision).total for c in range(len(table) + 1)
    ]
    assert totals == sorted(totals, reverse=True)
    if precision == "fp32":
        assert totals[0] == 2 * totals[-1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch": 0}, "batch size B = 0"),
        ({"precision": "fp16"}, "precision = 'fp16': must be one of fp32, int8"),
        ({"optimizer": "lion"}, "optimizer = 'lion': must be one of sgd, momentum, adam"),
        ({"partition": 13}, "must be a whole number from 0 to 12"),
        ({"precision": "int8", "optimizer": "adam"}, "NITI's updates have no state"),
    ],
)
def test_wrong_arguments_are_refused(changes: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"layers": LENET5, "partition": 0, "batch": 1}
    with pytest.raises(UsageError, match=message):
        training_bytes(**arguments | changes)  # type: ignore[arg-type]


def test_the_guide_s_examples_run() -> None:
    guide = (Path(__file__).parents[1] / "docs/memory.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    for example in re.findall(r"```python\n(.*?)```", guide, re.DOTALL):
        exec(example, names)  # noqa: S102
    outputs = 2 * 8 * 32 * 32 + 8 * 16 * 16 + 64 + 64 + 10
    parameters = 8 * 27 + 8 + 2048 * 64 + 64 + 64 * 10 + 10
    assert names["full_zo"].total == 4 * (parameters + 32 * outputs)
    assert names["elastic"].total == names["full_zo"].total + 4 * (650 + 32 * 10)
    assert names["full_bp"].optimizer_state == 2 * 4 * parameters
    assert names["least"].total < names["elastic"].total
    # convolution and ReLU side by side, and the input, which was made inside
    assert names["forward_peak"] == 4 * 32 * (2 * 8 * 32 * 32 + 3 * 32 * 32)
