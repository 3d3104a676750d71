"""Propose model, N and B for each arm within a memory budget, by the planner's formula.

The first proposal is the largest model that fits at the requested N and B. If none fits, N and B
are halved, and the smallest model at the largest N x B that fits comes first. If nothing fits, the
smallest setting of all is proposed. Each proposal has to be measured; if it exceeds the budget, the
next one is tried.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import NamedTuple

from repro.core.names import Dtype
from repro.finetuning.arms import SPECIFICATIONS, Arm
from repro.memory.setting import Setting
from repro.planner.architecture import Architecture
from repro.planner.formula import estimate


class Proposal(NamedTuple):
    """A model, N and B for one arm."""

    model: str
    batch: int
    context: int


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
    """Return the proposals that fit into ``budget`` bytes by the formula, the preferred one first.

    If nothing fits, the smallest is returned: only a measurement can refuse it.

    Args:
        arm: the arm that trains.
        sizes: the sizes of the available models, by name.
        dtype: number format of weights and activations.
        batch: the requested B.
        context: the requested N.
        least_context: the smallest N that cuts no question; 0 if all of a prompt may be cut.
        budget: bytes of a training step, weights included.
    """

    def needed(proposal: Proposal) -> float:
        setting = Setting(context=proposal.context, batch=proposal.batch, format=dtype)
        return estimate(sizes[proposal.model], SPECIFICATIONS[arm].method, setting).total

    found = list(_in_order(sizes, batch, context, least_context))
    return [one for one in found if needed(one) <= budget] or [min(found, key=needed)]


def _in_order(
    sizes: Mapping[str, Architecture], batch: int, context: int, least_context: int
) -> Iterator[Proposal]:
    """Yield every proposal, in order of preference."""
    by_size = sorted(sizes, key=lambda model: sizes[model].parameters, reverse=True)
    yield from (Proposal(model, batch, context) for model in by_size)
    # without the first one, the requested N and B
    smaller = list(product(_halved(batch, 1), _halved(context, max(1, least_context))))[1:]
    smaller.sort(key=lambda setting: (setting[0] * setting[1], setting[1]), reverse=True)
    yield from (Proposal(by_size[-1], b, n) for b, n in smaller)


def _halved(value: int, least: int) -> Iterator[int]:
    while value >= least:
        yield value
        value //= 2
