"""Time of LeNet-5's steps on the on-device engine, beside PyTorch's and the machine's peak."""

from typing import Any, Literal

import pytest
import torch
from lenet5_steps import EPS, LR, batch, mezo, plain

from repro.core.names import METHODS, MethodName
from repro.integer.network import IntegerNetwork
from repro.integer.tensor import IntegerTensor
from repro.measurement.timing import Step, ratio
from repro.models.lenet5 import lenet5
from repro.ondevice.floating import NativeElasticZO
from repro.ondevice.integer import NativeElasticZOInt8
from repro.training.task import partition

IMAGE = (1, 28, 28)
PRODUCTS = 605_952
"""Of a forward pass of one image: 6 x 134^2, 96 x 64^2 and 105,000, without those with the border's
zeros."""
INSTRUCTION_SETS = ("amx", "avx512vnni", "avx512", "avxvnni", "avx2", "dotprod", "baseline")

Arm = Literal["fp32", "int8", "int8*"]


def engine_step(
    arm: Arm,
    size: int,
    threads: int = 1,
    method: MethodName = "full_zo",
    instructions: str = "auto",
) -> Step:
    """Return the engine's step."""
    where = partition("lenet5", method, lenet5())
    settings: dict[str, Any] = {
        "capacity": size,
        "threads": threads,
        "instructions": instructions,
    }
    images, labels = batch(size)
    if arm == "fp32":
        floating = NativeElasticZO(lenet5(), IMAGE, where, lr=LR, eps=EPS, **settings)
        return lambda: floating.step(images, labels)
    inputs = IntegerTensor((images * 32).clamp(-127, 127).to(torch.int8), -5)
    structure = lenet5(bias=False)
    network = IntegerNetwork.random(structure, seed=0)
    sign: Literal["float", "integer"] = "float" if arm == "int8" else "integer"
    integer = NativeElasticZOInt8(network, structure, IMAGE, where, sign=sign, **settings)
    return lambda: integer.step(inputs, labels)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("size", [32, 256])
def test_engine_against_pytorch(
    benchmark: Any, timed: Any, engine: Any, size: int, threads: int
) -> None:
    """``ratios``: times, and the shares of the multiplications that all threads can do at most.

    That is what a loop of nothing else does before or after, on one thread, times the threads.
    """

    def peaks() -> dict[Arm, float]:
        return {"fp32": engine.peak_f32("auto"), "int8*": engine.peak_i8("auto")}

    torch.set_num_threads(threads)
    before = peaks()
    arms = {"plain": plain(size), "mezo": mezo(size)}
    engine_arms: tuple[Arm, ...] = ("fp32", "int8", "int8*")
    arms |= {arm: engine_step(arm, size, threads) for arm in engine_arms}
    seconds = timed(arms, turns=15, steps=max(2, 320 // size))
    after = peaks()
    benchmark.extra_info["ratios"] = {
        "plain/engine fp32": ratio(seconds, "plain", "fp32"),
        "mezo/engine fp32": ratio(seconds, "mezo", "fp32"),
        "engine fp32/int8": ratio(seconds, "fp32", "int8"),
        "engine fp32/int8*": ratio(seconds, "fp32", "int8*"),
    } | {
        f"engine {arm}, share of peak": 2
        * size
        * PRODUCTS
        / min(seconds[arm])
        / (max(before[arm], after[arm]) * threads)
        for arm in before
    }


@pytest.mark.parametrize("size", [32, 256])
def test_integers_against_float32_by_instruction_set(
    benchmark: Any, timed: Any, engine: Any, size: int
) -> None:
    """``ratios``: on one thread, fp32 over int8, and over the best set."""
    found = [name for name in INSTRUCTION_SETS if name in engine.instruction_sets()]
    numbers: tuple[Arm, ...] = ("fp32", "int8*")
    arms = {
        f"{name} {arm}": engine_step(arm, size, instructions=name)
        for name in found
        for arm in numbers
    }
    seconds = timed(arms, turns=10, steps=max(2, 160 // size))
    benchmark.extra_info["ratios"] = {
        f"{name} fp32/int8*": ratio(seconds, f"{name} fp32", f"{name} int8*") for name in found
    } | {
        f"{arm} {name}/{found[0]}": ratio(seconds, f"{name} {arm}", f"{found[0]} {arm}")
        for name in found[1:]
        for arm in numbers
    }


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("size", [32, 256])
@pytest.mark.parametrize("arm", ["fp32", "int8*"])
def test_elasticzo_and_bp_against_full_zo_on_the_engine(
    benchmark: Any, timed: Any, arm: Arm, size: int
) -> None:
    """``ratios``: on one thread, the step of each row over that of Full ZO."""
    arms = {method: engine_step(arm, size, method=method) for method in METHODS}
    seconds = timed(arms, turns=15, steps=max(2, 160 // size))
    benchmark.extra_info["ratios"] = {
        f"{method}/full_zo": ratio(seconds, method, "full_zo") for method in METHODS[1:]
    }
