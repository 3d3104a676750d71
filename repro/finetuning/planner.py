"""Propose model, N and B for each arm in a given memory, by the planner's formula.

The largest model that fits at the wanted N and B comes first. If none fits, it is the smallest
model at the largest N x B that fits, N and B being halved; if nothing fits, the least of all these.
A proposal has to be measured; where it takes more than the budget, the next one is tried.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from repro.core.names import Dtype
from repro.finetuning.arms import SPECIFICATIONS, Arm
from repro.memory.setting import Setting
from repro.planner.architecture import Architecture
from repro.planner.formula import estimate


@dataclass(frozen=True)
class Proposal:
    """A model, N and B for one arm."""

    model: str
    batch: int
    context: int
    planned_bytes: float
    """Its memory by the formula."""


def propose(
    arm: Arm,
    sizes: Mapping[str, Architecture],
    dtype: Dtype,
    *,
    batch: int,
    context: int,
    least_context: int,
    budget: float,
) -> list[Proposal]:
    """Return what fits into ``budget`` bytes by the formula, the most wanted first.

    If nothing fits, the smallest is returned: only a measurement can refuse it.

    Args:
        arm: what trains.
        sizes: the models that can be had, by name.
        dtype: of weights and activations.
        batch: the wanted B.
        context: the wanted N.
        least_context: the shortest N, which leaves every question whole.
        budget: bytes of a training step, weights included.
    """
    method = SPECIFICATIONS[arm].method

    def planned(model: str, batch: int, context: int) -> Proposal:
        setting = Setting(context=context, batch=batch, format=dtype)
        needed = estimate(sizes[model], method, setting).total
        return Proposal(model, batch, context, needed)

    found = [planned(*wanted) for wanted in _settings(sizes, batch, context, least_context)]
    fitting = [proposal for proposal in found if proposal.planned_bytes <= budget]
    return fitting or [min(found, key=lambda proposal: proposal.planned_bytes)]


def _settings(
    sizes: Mapping[str, Architecture], batch: int, context: int, least_context: int
) -> Iterator[tuple[str, int, int]]:
    """Yield model, B and N, the most wanted first."""
    by_size = sorted(sizes, key=lambda model: sizes[model].parameters, reverse=True)
    yield from ((model, batch, context) for model in by_size)
    smaller = list(product(_halved(batch, 1), _halved(context, least_context)))[1:]
    smaller.sort(key=lambda setting: (setting[0] * setting[1], setting[1]), reverse=True)
    yield from ((by_size[-1], b, n) for b, n in smaller)


def _halved(value: int, least: int) -> Iterator[int]:
    while value >= least:
        yield value
        value //= 2
