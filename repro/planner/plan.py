"""Plan one model within a memory budget, with every method."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from repro.core.errors import UsageError
from repro.memory.setting import Setting
from repro.memory.training_method import TrainingMethod
from repro.planner.architecture import Architecture
from repro.planner.configurations import architecture
from repro.planner.formula import Moment, estimate
from repro.planner.methods import unsupported_reason, warning
from repro.planner.models import Model
from repro.planner.paper import paper_bytes
from repro.planner.search import (
    LARGEST_BATCH,
    LARGEST_CONTEXT,
    largest_batch,
    largest_by_secants,
    longest_context,
)

if TYPE_CHECKING:
    from repro.planner.simulated_only import SimulatedOnlyModel


@dataclass(frozen=True)
class MethodPlan:
    """One method compared with the budget."""

    method: TrainingMethod
    unsupported_reason: str | None
    """Why the method makes no sense with these weights, or cannot be simulated on this model; the
    fields below are then empty."""
    warning: str | None
    """A warning for users of the method."""
    estimate: Moment | None = None
    """Memory by the planner's formula; ``None`` also if the formula does not cover the model."""
    longest_context: int | None = None
    """Longest context at the requested batch, by the formula, or by simulations of models outside
    it."""
    largest_batch: int | None = None
    """Largest batch at the requested context, found in the same way."""
    paper: float | None = None
    """Bytes by the MeZO paper's equations, if they describe the method."""
    simulated: dict[str, int] | None = None
    """Bytes of a simulated step, by part and in total, if requested."""

    @property
    def needs(self) -> float | None:
        """Bytes compared with the budget: simulated if available, else from the formula."""
        if self.simulated is not None:
            return self.simulated["total_bytes"]
        return None if self.estimate is None else self.estimate.total

    def as_dict(self, budget: float) -> dict[str, Any]:
        """Return the row as plain values; bytes are whole numbers."""
        needs = self.needs
        return {
            "method": self.method.slug,
            "label": self.method.label,
            "unsupported_reason": self.unsupported_reason,
            "warning": self.warning,
            "fits": needs is not None and needs <= budget,
            "needed_bytes": None if needs is None else round(needs),
            "spare_bytes": None if needs is None else round(budget - needs),
            "basis": "simulation" if self.simulated else "formula" if self.estimate else None,
            "formula": None if self.estimate is None else self.estimate.as_dict(),
            "simulation": self.simulated,
            "paper_bytes": None if self.paper is None else round(self.paper),
            "longest_context": self.longest_context,
            "largest_batch": self.largest_batch,
        }


@dataclass(frozen=True)
class Plan:
    """One model with several methods."""

    model: Model
    architecture: Architecture | None
    """The sizes; ``None`` if the formula does not cover the model."""
    simulated_only: "SimulatedOnlyModel | None"
    """For such a model, the facts from transformers."""
    notes: tuple[str, ...]
    """Sentences about the plan's choice of defaults."""
    setting: Setting
    budget: float
    """Memory budget in bytes."""
    rows: tuple[MethodPlan, ...]

    @property
    def parameters(self) -> int:
        """All parameters of the model, each counted once."""
        return self._sizes.parameters

    @property
    def positions(self) -> int | None:
        """The longest context according to the configuration, if it has one."""
        return self._sizes.positions

    @property
    def _sizes(self) -> "Architecture | SimulatedOnlyModel":
        sizes = self.architecture or self.simulated_only
        assert sizes is not None, "one of the two knows the model"  # noqa: S101 - for mypy
        return sizes

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        return {
            "model": self.model.name,
            "origin": self.model.origin,
            "config": dict(self.model.config),
            "parameters": self.parameters,
            "positions": self.positions,
            "notes": list(self.notes),
            "setting": asdict(self.setting),
            "budget_bytes": round(self.budget),
            "methods": [row.as_dict(self.budget) for row in self.rows],
        }


def plan_model(
    model: Model,
    methods: Sequence[TrainingMethod],
    setting: Setting,
    budget: float,
    *,
    shorten: bool = False,
    simulated: bool = False,
) -> Plan:
    """Plan ``model`` with every method.

    Args:
        model: what to train.
        methods: one row each.
        setting: how.
        budget: bytes.
        shorten: whether a context beyond the model's positions becomes all of them.
        simulated: whether a step is simulated too, which takes seconds per method.

    Raises:
        NoFormulaError: the formula does not cover the model; see ``plan_unknown``.
        UsageError: a learned position embedding has no row for the last tokens of the context, or
            the tail has more blocks than the model.
        ReproError: transformers cannot build the model to simulate.
    """
    known = architecture(model.config)
    if shorten:
        setting = replace(setting, context=min(setting.context, known.positions))
    _require_rows(known, setting)
    _require_blocks(known.layers, setting)
    rows = [_row(known, method, setting, budget) for method in methods]
    if simulated:
        rows = [_simulated(model, row, setting) for row in rows]
    return Plan(model, known, None, (), setting, budget, tuple(rows))


def plan_unknown(
    model: Model,
    methods: Sequence[TrainingMethod],
    setting: Setting,
    budget: float,
    *,
    shorten: bool,
    fall_back: bool,
    report: Callable[[str], object],
) -> Plan:
    """Plan a ``model`` outside the formula, by simulated steps only.

    Longest context and largest batch are found by simulating a few more steps of each method,
    except for recurrent models, whose steps are simulated token by token.

    Args:
        model: what to train.
        methods: one row each.
        setting: how.
        budget: bytes.
        shorten: whether a context beyond the model's positions becomes all of them.
        fall_back: whether to use eager attention if the model has no SDPA.
        report: receives a line for each method before its steps, which take seconds to minutes.

    Raises:
        UsageError: the tail has more blocks than the model.
        ReproError: transformers cannot build the model.
    """
    from repro.planner.simulated_only import inspected

    facts, notes = inspected(model.config), []
    if shorten and facts.positions is not None:
        setting = replace(setting, context=min(setting.context, facts.positions))
    if facts.layers is not None:
        _require_blocks(facts.layers, setting)
    if fall_back and setting.attention != facts.attention:
        notes.append(f"the model has no {setting.attention} attention: {facts.attention} instead")
        setting = replace(setting, attention=facts.attention)
    rows = []
    for method in methods:
        report(f"{model.name}: simulating {method.slug}")
        rows.append(_simulated_row(model, facts, method, setting, budget))
    if facts.recurrent:
        notes.append(
            "longest N and largest B are not searched: the model's steps are simulated token by "
            "token, which takes too long"
        )
    return Plan(model, None, facts, tuple(notes), setting, budget, tuple(rows))


def _require_rows(a: Architecture, setting: Setting) -> None:
    if a.position_rows and setting.context > a.positions:
        msg = (
            f"context N = {setting.context}: the model's position embedding ends at "
            f"{a.positions}; give --context {a.positions} or less"
        )
        raise UsageError(msg)


def _require_blocks(layers: int, setting: Setting) -> None:
    if setting.tail > layers:
        msg = f"tail = {setting.tail}: the model has {layers} blocks; give at most {layers}"
        raise UsageError(msg)


def _row(a: Architecture, method: TrainingMethod, setting: Setting, budget: float) -> MethodPlan:
    empty = MethodPlan(method, unsupported_reason(method, setting), warning(method, setting))
    if empty.unsupported_reason is not None:
        return empty
    return replace(
        empty,
        estimate=estimate(a, method, setting),
        longest_context=longest_context(a, method, setting, budget),
        largest_batch=largest_batch(a, method, setting, budget),
        paper=paper_bytes(a, method, setting),
    )


def _simulated_row(
    model: Model,
    facts: "SimulatedOnlyModel",
    method: TrainingMethod,
    setting: Setting,
    budget: float,
) -> MethodPlan:
    from repro.planner.simulated_only import fused_warning

    warnings = (warning(method, setting), fused_warning(facts, method, setting))
    said = "; ".join(filter(None, warnings)) or None
    row = _simulated(model, MethodPlan(method, unsupported_reason(method, setting), said), setting)
    if row.simulated is None or facts.recurrent:
        return row
    total = row.simulated["total_bytes"]
    return replace(
        row,
        longest_context=largest_by_secants(
            lambda context: _bytes(model, method, replace(setting, context=context)),
            budget,
            facts.positions or LARGEST_CONTEXT,
            (setting.context, total),
        ),
        largest_batch=largest_by_secants(
            lambda batch: _bytes(model, method, replace(setting, batch=batch)),
            budget,
            LARGEST_BATCH,
            (setting.batch, total),
        ),
    )


def _bytes(model: Model, method: TrainingMethod, setting: Setting) -> int:
    from repro.memory.simulation import simulate

    return simulate(model.config, method, setting).as_metrics()["total_bytes"]


def _simulated(model: Model, row: MethodPlan, setting: Setting) -> MethodPlan:
    """Return ``row`` with the bytes of a simulated step, or with the reason why there is none."""
    if row.unsupported_reason is not None:
        return row
    from repro.memory.simulation import StepError, simulate

    try:
        step = simulate(model.config, row.method, setting)
    except StepError as error:
        return MethodPlan(row.method, str(error), row.warning)
    return replace(row, simulated=step.as_metrics())
