"""Search for the reading of the MeZO paper's equations that gives the printed numbers.

Several numbers in section 2.4 do not follow from equations (1) to (3) as printed. A *reading* keeps
or drops each term of the equations, and fixes how many layers checkpointing keeps and at which
positions on the axes of Fig. 3 the numbers were read. The search compares every combination with
every number.

The paper's "at least twice as large" and "several orders of magnitude" are statements about the
size of a model at equal memory. In ``size_ratio`` the model grows in depth or in width until MeZO
fills the memory that BP takes.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product, starmap
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from repro.core.errors import UsageError
from repro.memory.analytic import KEPT, Float, Reading, Sizes, parameter_count, sizes_of
from repro.memory.equal_memory import SET_UPS, TARGET_BYTES, TOLERANCE_BYTES
from repro.memory.shape import LLAMA2_7B, DecoderShape

Growth = Literal["depth", "width"]
GROWTHS: tuple[Growth, ...] = get_args(Growth)

RECOVERED = Reading(embedding_gradients=0, kept="ceil(sqrt(L))", long_context=16384)
"""The only reading in the search that gives every printed number."""


class Printed(NamedTuple):
    """A number printed in section 2.4."""

    name: str
    value: float
    digits: int
    """Number of printed decimals."""
    of: Callable[[Reading], float]
    """Computes the number in a reading."""

    def holds(self, reading: Reading) -> bool:
        """Return whether a reading's value rounds to the printed one."""
        # a half is rounded up; round() would choose the even neighbour
        scale = 10.0**self.digits
        return math.floor(self.of(reading) * scale + 0.5) / scale == self.value


_AT_DEPTHS = sizes_of(LLAMA2_7B, 2, layers=np.arange(1.0, 101.0))
_AT_100 = sizes_of(LLAMA2_7B, 2, layers=100)
_BY_SIZE: dict[tuple[str, int], Sizes] = {
    (name, value): sizes_of(LLAMA2_7B, 2, **{name: value})
    for name, values in (
        ("context", (8192, 16384, 32768)),
        ("layers", (1, 2)),
        ("hidden", (512, 1024)),
    )
    for value in values
}


def _ratio(reading: Reading, name: str, value: int, *, checkpointing: bool = False) -> float:
    return float(reading.ratio(_BY_SIZE[name, value], checkpointing=checkpointing))


PRINTED: tuple[Printed, ...] = (
    Printed("at few layers", 1.2, 1, lambda r: _ratio(r, "layers", r.shallow)),
    Printed("at L = 100", 4.23, 2, lambda r: float(r.ratio(_AT_100))),
    Printed("limit over L", 4.38, 2, lambda r: float(r.ratio_limit(_AT_100, "layers"))),
    Printed(
        "checkpointed, limit over L", 2, 0, lambda r: 1.0 + r.block_gradients
    ),
    Printed("at small D", 24, 0, lambda r: _ratio(r, "hidden", r.narrow)),
    Printed(
        "checkpointed, at small D", 5, 0,
        lambda r: _ratio(r, "hidden", r.narrow, checkpointing=True),
    ),
    Printed("at long contexts", 25, 0, lambda r: _ratio(r, "context", r.long_context)),
    Printed(
        "checkpointed, at long contexts", 5, 0,
        lambda r: _ratio(r, "context", r.long_context, checkpointing=True),
    ),
    Printed(
        "checkpointed, at L = 100", 2.17, 2, lambda r: float(r.ratio(_AT_100, checkpointing=True))
    ),
    Printed(
        "checkpointed, largest over L", 2.28, 2,
        lambda r: float(r.ratio(_AT_DEPTHS, checkpointing=True).max()),
    ),
)  # fmt: skip
"""The printed numbers, in ascending order of computing cost."""


_WEIGHTS_AND_ACTIVATIONS: tuple[tuple[Any, ...], ...] = (
    (True, False),
    (2, 1, 0),
    (2, 1, 0),
    tuple(product((True, False), repeat=4)),
)
"""Values of the fields that say how weights and activations are counted."""


def readings() -> Iterator[Reading]:
    """Yield every reading in the search."""
    rest = (KEPT, (1, 0, 2), (32768, 16384, 8192), (1, 2), (512, 1024))
    return starmap(Reading, product(*_WEIGHTS_AND_ACTIVATIONS, *rest))


class Search(NamedTuple):
    """The results of the search."""

    searched: int
    fitting: list[Reading]
    """Readings that give every printed number."""
    equal_memory: int
    """Number of ways to count weights and activations by which the three set-ups of Fig. 4 take
    17 +- 0.5 GB each."""


def search_readings() -> Search:
    """Compare every reading with every printed number, and with the 17 GB of Fig. 4."""
    every = list(readings())
    fitting = [reading for reading in every if all(number.holds(reading) for number in PRINTED)]
    # N and L' are given there, and nothing is checkpointed: no other field matters
    equal = sum(map(is_equal_memory, starmap(Reading, product(*_WEIGHTS_AND_ACTIVATIONS))))
    return Search(len(every), fitting, equal)


def is_equal_memory(reading: Reading) -> bool:
    """Return whether the set-ups of Fig. 4 take 17 +- 0.5 GB each for some b of 0.5, 1, 2 and 4.

    B is 8 and N is 1024, as printed; L'/L is 0.41 for the 7B and 0.15 for the 13B.
    """
    return any(
        all(
            abs(one.peak(sizes_of(one.shape, b), reading) - TARGET_BYTES) <= TOLERANCE_BYTES
            for one in SET_UPS.values()
        )
        for b in (0.5, 1.0, 2.0, 4.0)
    )


def largest_model(
    shape: DecoderShape,
    budget: float,
    growth: Growth,
    bytes_of: Callable[[Sizes], Float],
    bytes_per_parameter: float = 2,
) -> float:
    """Return the parameters of the largest model that can be trained in ``budget`` bytes.

    Args:
        shape: the model that grows; its N, V, H and B are kept.
        budget: bytes.
        growth: ``depth`` varies L, ``width`` varies D, both as real numbers.
        bytes_of: returns the memory of training a model, such as ``Reading().mezo_bytes``.
        bytes_per_parameter: b.

    Raises:
        UsageError: the budget is too small for one layer, or for a width of 1.
    """
    name, field = ("layers", "L") if growth == "depth" else ("hidden", "D")
    sizes = sizes_of(shape, bytes_per_parameter)
    low, high = 1.0, 2.0

    def sized(value: float) -> Sizes:
        return replace(sizes, **{field: np.asarray(value)})

    def taken(size: float) -> float:
        return float(bytes_of(sized(size)))

    if taken(low) > budget:
        raise UsageError(
            f"a budget of {budget:.4g} bytes is too small for {name} = 1; give at least "
            f"{taken(low):.4g}"
        )
    while taken(high) <= budget:
        low, high = high, 2 * high
    # more halvings than a float64 has bits
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if taken(middle) <= budget else (low, middle)
    return float(parameter_count(sized(low)))


def size_ratio(
    shape: DecoderShape, growth: Growth, reading: Reading, *, checkpointing: bool = False
) -> float:
    """Return the parameters that MeZO trains in BP's memory for ``shape``, over ``shape``'s own.

    Raises:
        UsageError: as ``largest_model``.
    """
    s = sizes_of(shape, 2)
    budget = float(reading.bp_bytes(s, checkpointing=checkpointing))
    return largest_model(shape, budget, growth, reading.mezo_bytes) / float(parameter_count(s))
