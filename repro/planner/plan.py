"""What fits a budget: one model by every method."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from repro.core.errors import UsageError
from repro.planner.architecture import Architecture
from repro.planner.configurations import architecture
from repro.planner.formula import Estimate, estimate
from repro.planner.methods import Method, caution, objection
from repro.planner.models import Model
from repro.planner.paper import paper_bytes
from repro.planner.search import largest_batch, longest_context
from repro.planner.setting import Setting


@dataclass(frozen=True)
class Row:
    """One method, against the budget."""

    method: Method
    objection: str | None
    """Why the method makes no sense with these weights; then nothing below is filled."""
    caution: str | None
    """What to know before using it."""
    estimate: Estimate | None = None
    """By the planner's formula; ``None`` also where the formula does not know the model."""
    longest_context: int | None = None
    """At the batch asked for, by the formula."""
    largest_batch: int | None = None
    """At the context asked for, by the formula."""
    paper: float | None = None
    """Bytes by the MeZO paper's equations, where they describe the method."""
    simulated: dict[str, int] | None = None
    """Bytes of a simulated step, by part and in total, if asked for."""

    @property
    def needs(self) -> float | None:
        """Bytes that decide: simulated ones if there are any, else the formula's."""
        if self.simulated is not None:
            return self.simulated["total_bytes"]
        return None if self.estimate is None else self.estimate.total

    def as_dict(self, budget: float) -> dict[str, Any]:
        """Return the row as plain values; bytes are whole numbers."""
        needs = self.needs
        return {
            "method": self.method.slug,
            "label": self.method.label,
            "objection": self.objection,
            "caution": self.caution,
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
    """One model by several methods."""

    model: Model
    architecture: Architecture | None
    """``None`` where only the simulation knows the model."""
    setting: Setting
    budget: float
    """Bytes."""
    rows: tuple[Row, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        a = self.architecture
        return {
            "model": self.model.name,
            "origin": self.model.origin,
            "config": dict(self.model.config),
            "parameters": None if a is None else a.parameters,
            "positions": None if a is None else a.positions,
            "setting": asdict(self.setting),
            "budget_bytes": round(self.budget),
            "methods": [row.as_dict(self.budget) for row in self.rows],
        }


def plan_model(
    model: Model,
    methods: Sequence[Method],
    setting: Setting,
    budget: float,
    *,
    shorten: bool = False,
    simulated: bool = False,
) -> Plan:
    """Plan ``model`` by every method.

    Args:
        model: what to train.
        methods: one row each.
        setting: how.
        budget: bytes.
        shorten: whether a context beyond the model's positions becomes all of them.
        simulated: whether a step is simulated too, which takes seconds a method.

    Raises:
        UsageError: the formula does not know the model and no simulation is asked for, a learned
            position embedding has no row for the last tokens of the context, or the tail has more
            blocks than the model.
        ReproError: the simulation fails.
    """
    known = _known(model, simulated=simulated)
    if known is not None:
        if shorten:
            setting = replace(setting, context=min(setting.context, known.positions))
        _require_rows(known, setting)
        _require_blocks(known, setting)
    rows = [_row(known, method, setting, budget) for method in methods]
    if simulated:
        rows = [_simulated(model, row, setting) for row in rows]
    return Plan(model, known, setting, budget, tuple(rows))


def _known(model: Model, *, simulated: bool) -> Architecture | None:
    try:
        return architecture(model.config)
    except UsageError:
        if simulated:
            return None
        raise


def _require_rows(a: Architecture, setting: Setting) -> None:
    if a.position_rows and setting.context > a.positions:
        msg = (
            f"context N = {setting.context}: the model's position embedding ends at "
            f"{a.positions}; give --context {a.positions} or less"
        )
        raise UsageError(msg)


def _require_blocks(a: Architecture, setting: Setting) -> None:
    if setting.tail > a.layers:
        msg = f"tail = {setting.tail}: the model has {a.layers} blocks; give at most as many"
        raise UsageError(msg)


def _row(a: Architecture | None, method: Method, setting: Setting, budget: float) -> Row:
    empty = Row(method, objection(method, setting), caution(method, setting))
    if empty.objection is not None or a is None:
        return empty
    return replace(
        empty,
        estimate=estimate(a, method, setting),
        longest_context=longest_context(a, method, setting, budget),
        largest_batch=largest_batch(a, method, setting, budget),
        paper=paper_bytes(a, method, setting),
    )


def _simulated(model: Model, row: Row, setting: Setting) -> Row:
    if row.objection is not None:
        return row
    from repro.planner.simulation import simulate

    return replace(row, simulated=simulate(model.config, row.method, setting).as_metrics())
