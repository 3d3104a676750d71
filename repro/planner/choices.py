"""Find the largest model of each family that fits a budget with every method."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from repro.core.errors import UsageError
from repro.core.names import Attention
from repro.memory.setting import Setting, TrainingMethod
from repro.planner.activations import is_eager
from repro.planner.architecture import Architecture
from repro.planner.configurations import architecture
from repro.planner.families import Member, family
from repro.planner.formula import estimate
from repro.planner.methods import unsupported_reason


@dataclass(frozen=True)
class Choice:
    """The largest model of a family that fits with one method, by the formula."""

    family: str
    method: TrainingMethod
    model: str | None
    """``None`` if none fits."""
    shown: str
    """That model; if none fits, the model that needs least memory."""
    needed_bytes: int
    """Memory in bytes of the model shown."""
    attention: Attention
    """Its attention: eager if its class has no SDPA."""

    def as_dict(self) -> dict[str, Any]:
        """Return the choice as plain values."""
        return {**asdict(self), "method": self.method.slug, "label": self.method.label}


def choose(
    families: Sequence[str],
    methods: Sequence[TrainingMethod],
    setting: Setting,
    budget: float,
    *,
    shorten: bool = False,
) -> list[Choice]:
    """Return the largest model of each family for each method that makes sense.

    Args:
        families: names in the table of families.
        methods: training methods.
        setting: the training step.
        budget: memory in bytes.
        shorten: whether a context beyond a model's positions is cut to them; else the model is
            skipped.

    Raises:
        UsageError: a family does not exist, or no method or model is left.
    """
    sensible = [method for method in methods if unsupported_reason(method, setting) is None]
    if not sensible:
        reasons = dict.fromkeys(unsupported_reason(method, setting) for method in methods)
        raise UsageError(f"dtype {setting.format}: {'; '.join(map(str, reasons))}")
    chosen, blocks = [], 0
    for name in families:
        models = [(m, architecture(m.config)) for m in family(name)]
        blocks = max(blocks, *(a.layers for _, a in models))
        candidates = [
            (m, a, replace(setting, context=min(setting.context, a.positions)))
            for m, a in models
            if shorten or setting.context <= a.positions
        ]
        for method in sensible:
            able = [c for c in candidates if method.trains != "tail" or setting.tail <= c[1].layers]
            if able:
                chosen.append(_choice(name, method, able, budget))
    tails = any(method.trains == "tail" for method in sensible)
    if tails and setting.tail > blocks:
        raise UsageError(
            f"tail = {setting.tail}: the models of {', '.join(families)} have at most {blocks} "
            f"blocks; give --tail {blocks} or less"
        )
    if not chosen:
        most = max(architecture(m.config).positions for name in families for m in family(name))
        raise UsageError(
            f"context N = {setting.context}: the models of {', '.join(families)} have at most "
            f"{most} positions; give --context {most} or less"
        )
    return chosen


def _choice(
    name: str,
    method: TrainingMethod,
    candidates: Sequence[tuple[Member, Architecture, Setting]],
    budget: float,
) -> Choice:
    needs = [(estimate(a, method, setting).total, m) for m, a, setting in candidates]
    # the models of a family have the same class
    _, a, setting = candidates[0]
    attention: Attention = "eager" if is_eager(a, setting) else "sdpa"
    fitting = [(m.parameters, needed, m.name) for needed, m in needs if needed <= budget]
    if fitting:
        _, needed, model = max(fitting)
        return Choice(name, method, model, model, round(needed), attention)
    needed, smallest = min(needs, key=lambda pair: pair[0])
    return Choice(name, method, None, smallest.name, round(needed), attention)
