"""Plan one model within a memory budget, with every method."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from repro.core.errors import ReproError, UsageError
from repro.core.names import Attention
from repro.core.units import format_bytes
from repro.memory.setting import Setting, TrainingMethod
from repro.planner.architecture import Architecture
from repro.planner.configurations import NoFormulaError, architecture, notes_on
from repro.planner.formula import (
    LARGEST_BATCH,
    Moment,
    estimate,
    largest_batch,
    longest_context,
)
from repro.planner.methods import unsupported_reason, warning
from repro.planner.models import Model
from repro.planner.paper import paper_bytes

LARGEST_CONTEXT = 1 << 20
"""Upper limit of the search for a context, for models without a number of positions."""
SECANTS = 12
"""Secant guesses before bisection, since secants may converge slowly where memory is not linear."""
NOTABLE = 0.01
"""Fraction of the parameters above which matrices outside linear layers get a warning."""


_NO_SDPA = "the model has no sdpa attention: eager instead"
_NOT_FUSED = (
    "on a GPU, PyTorch (2.11 was tried) has no fused float32 attention for keys that heads share, "
    "and stores the scores: plan with --attention eager"
)


@dataclass(frozen=True)
class SimulatedOnlyModel:
    """A causal language model outside the formula, as built by its class in transformers."""

    built: str
    """Name of this class."""
    parameters: int
    fused: int
    """Elements of matrices outside linear layers, such as experts in a tensor of three axes."""
    positions: int | None
    """The longest context in the configuration; ``None`` if it has none."""
    position_rows: int
    """``positions`` if positions are embedded by a table of their own, which ends there; else 0."""
    layers: int | None
    attention: Attention
    """SDPA if the model's code supports it, else eager."""
    recurrent: bool
    """Whether its blocks keep a recurrent state, which is simulated token by token."""
    tied: bool
    """Whether its output layer shares the embedding's weights."""


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
    sizes: Architecture | SimulatedOnlyModel
    """If the formula does not cover the model, the facts from transformers."""
    notes: tuple[str, ...]
    """Sentences about the plan's choice of defaults."""
    setting: Setting
    budget: float
    """Memory budget in bytes."""
    rows: tuple[MethodPlan, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        return {
            "model": self.model.name,
            "origin": self.model.origin,
            "config": dict(self.model.config),
            "parameters": self.sizes.parameters,
            "positions": self.sizes.positions,
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
    fall_back: bool = True,
    simulated: bool = False,
    report: Callable[[str], object] | None = None,
) -> Plan:
    """Plan ``model`` with every method.

    Outside the formula, longest context and largest batch are found by simulating a few more steps
    of each method, except for recurrent models, whose steps are simulated token by token.

    Args:
        model: what to train.
        methods: one row each.
        setting: how.
        budget: bytes.
        shorten: whether a context beyond the model's positions becomes all of them.
        fall_back: whether to use eager attention if the model has no SDPA.
        simulated: whether a step is simulated too, which takes seconds per method.
        report: if given, a model outside the formula is planned by simulated steps only. It
            receives a line that says so, and one for each method before its steps, which take
            seconds to minutes.

    Raises:
        NoFormulaError: the formula does not cover the model, and there is no ``report``.
        UsageError: a learned position embedding has no row for the last tokens of the context, the
            tail has more blocks than the model, or the model has no SDPA.
        ReproError: transformers cannot build the model to simulate.
    """
    try:
        known, notes = architecture(model.config), notes_on(model.config)
    except NoFormulaError as error:
        if report is None:
            raise
        facts = _inspected(model.config)
        report(f"The formula does not cover {error.subject}; training steps are simulated.")
        return _plan_unknown(model, facts, methods, setting, budget, shorten, fall_back, report)
    if known.eager_only and setting.attention == "sdpa":
        if not fall_back:
            msg = f"attention = 'sdpa': {model.name} has none; leave --attention out, or give eager"
            raise UsageError(msg)
        notes.append(_NO_SDPA)
        setting = replace(setting, attention="eager")
    if (setting.attention, setting.format) == ("sdpa", "float32") and known.kv_heads < known.heads:
        notes.append(_NOT_FUSED)
    if shorten:
        setting = replace(setting, context=min(setting.context, known.positions))
    if known.position_rows:
        _require_positions(known.positions, setting)
    _require_blocks(known.layers, setting)
    rows = []
    for method in methods:
        row = MethodPlan(method, unsupported_reason(method, setting), warning(method, setting))
        if row.unsupported_reason is None:
            row = replace(
                row,
                estimate=estimate(known, method, setting),
                longest_context=longest_context(known, method, setting, budget),
                largest_batch=largest_batch(known, method, setting, budget),
                paper=paper_bytes(known, method, setting),
            )
        rows.append(_simulated(model, row, setting) if simulated else row)
    return Plan(model, known, tuple(notes), setting, budget, tuple(rows))


@contextmanager
def _without_advice() -> Iterator[None]:
    """Keep transformers from repeating its advice on a model whenever it is built."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(before)


@_without_advice()
def _plan_unknown(
    model: Model,
    facts: SimulatedOnlyModel,
    methods: Sequence[TrainingMethod],
    setting: Setting,
    budget: float,
    shorten: bool,
    fall_back: bool,
    report: Callable[[str], object],
) -> Plan:
    """Plan a ``model`` outside the formula, by simulated steps only; see ``plan_model``."""
    notes = notes_on(model.config)
    given = model.config.get("architectures")
    has_parts = "text_config" in model.config  # noted already
    if given and isinstance(given, list) and facts.built not in given and not has_parts:
        notes.append(
            f"the configuration describes a {given[0]}; planned is a {facts.built} of the same "
            "sizes, a causal language model with a logit for every token"
        )
    if shorten and facts.positions is not None:
        setting = replace(setting, context=min(setting.context, facts.positions))
    if facts.position_rows:
        _require_positions(facts.position_rows, setting)
    if facts.layers is not None:
        _require_blocks(facts.layers, setting)
    if fall_back and facts.attention == "eager" and setting.attention == "sdpa":
        notes.append(_NO_SDPA)
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
    return Plan(model, facts, tuple(notes), setting, budget, tuple(rows))


def _require_positions(rows: int, setting: Setting) -> None:
    if setting.context > rows:
        raise UsageError(
            f"context N = {setting.context}: the model's position embedding ends at {rows}; give "
            f"--context {rows} or less"
        )


def _require_blocks(layers: int, setting: Setting) -> None:
    if setting.tail > layers:
        msg = f"tail = {setting.tail}: the model has {layers} blocks; give at most {layers}"
        raise UsageError(msg)


@_without_advice()
def _inspected(config: Mapping[str, Any]) -> SimulatedOnlyModel:
    """Build the model of ``config`` without allocating memory, and inspect it."""
    import torch
    from torch import nn
    from transformers import CONFIG_MAPPING, AutoModelForCausalLM
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    from transformers.pytorch_utils import Conv1D

    from repro.memory.fake_models import reason_of, text_config

    try:
        checked = text_config(config)
        kind = checked.model_type
        if kind in CONFIG_MAPPING and kind not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
            msg = f"model type {kind!r} is no causal language model of transformers"
            if kind != (given := config.get("model_type")):
                msg = (
                    f"model type {given!r}: transformers has no language model of its text part "
                    f"alone ({kind!r}); give the config.json of a text model with its sizes"
                )
            raise ReproError(msg)
        with torch.device("meta"):
            model: Any = AutoModelForCausalLM.from_config(checked)  # type: ignore[no-untyped-call]
    except ReproError:
        raise
    except Exception as error:  # a model's own code may raise anything
        msg = f"transformers cannot build this configuration: {reason_of(error)}"
        raise ReproError(msg) from error

    def whole(name: str) -> int | None:
        value = getattr(checked, name, None)
        return value if isinstance(value, int) and value > 0 else None

    positions = whole("max_position_embeddings")
    # OPT's class begins at row 2, RoBERTa's behind the row of the padding
    rows = {
        module.num_embeddings: module.num_embeddings
        - (0 if module.padding_idx is None else module.padding_idx + 1)
        for module in model.modules()
        if isinstance(module, nn.Embedding) and module is not model.get_input_embeddings()
    }
    positioned = 0
    if positions:
        positioned = positions if positions + 2 in rows else rows.get(positions, 0)
    linear = (nn.Linear, Conv1D, nn.Embedding, nn.Conv1d)
    return SimulatedOnlyModel(
        built=type(model).__name__,
        parameters=sum(p.numel() for p in model.parameters()),
        fused=sum(
            p.numel()
            for module in model.modules()
            if not isinstance(module, linear)
            for p in module.parameters(recurse=False)
            if p.ndim > 1
        ),
        positions=positions,
        position_rows=positioned,
        layers=whole("num_hidden_layers"),
        attention="sdpa" if model._supports_sdpa else "eager",
        recurrent=bool(model._is_stateful),
        tied=bool(checked.tie_word_embeddings),
    )


def _simulated_row(
    model: Model,
    facts: SimulatedOnlyModel,
    method: TrainingMethod,
    setting: Setting,
    budget: float,
) -> MethodPlan:
    from repro.memory.simulation import StepError, simulate

    warnings = [warning(method, setting)]
    if method.trains == "adapters" and facts.fused >= NOTABLE * facts.parameters:
        left = format_bytes(setting.width * facts.fused)
        warnings.append(
            f"{left} of weights stay in bfloat16: they are in no linear layer (fused experts), and "
            "bitsandbytes quantises linear layers alone; they get no adapters either"
            if setting.quantised
            else f"{left} of weights are in no linear layer (fused experts) and have no adapters "
            "here"
        )
    said = "; ".join(filter(None, warnings)) or None
    row = _simulated(model, MethodPlan(method, unsupported_reason(method, setting), said), setting)
    if row.simulated is None or facts.recurrent:
        return row
    total = row.simulated["total_bytes"]

    def taken(changed: Setting) -> float:
        try:
            return float(simulate(model.config, method, changed).total)
        except StepError:  # the model does not run at this size, so it does not fit either
            return math.inf

    return replace(
        row,
        longest_context=largest_by_secants(
            lambda context: taken(replace(setting, context=context)),
            budget,
            facts.positions or LARGEST_CONTEXT,
            (setting.context, total),
        ),
        largest_batch=largest_by_secants(
            lambda batch: taken(replace(setting, batch=batch)),
            budget,
            LARGEST_BATCH,
            (setting.batch, total),
        ),
    )


def _simulated(model: Model, row: MethodPlan, setting: Setting) -> MethodPlan:
    """Return ``row`` with the bytes of a simulated step, or with the reason why there is none."""
    if row.unsupported_reason is not None:
        return row
    from repro.memory.simulation import StepError, simulate

    try:
        step = simulate(model.config, row.method, setting)
    except StepError as error:
        if row.estimate is None:
            return MethodPlan(row.method, str(error), row.warning)
        warned = [row.warning] if row.warning else []
        return replace(row, warning="; ".join([*warned, f"not simulated: {error}"]))
    return replace(row, simulated=step.as_metrics())


def largest_by_secants(
    cost: Callable[[int], float], budget: float, limit: int, known: tuple[int, float]
) -> int:
    """Return the largest x with ``cost(x) <= budget``, or 0, with few evaluations of ``cost``.

    Args:
        cost: cost of a whole number from 1 to ``limit``; it grows with the number, mostly in
            proportion.
        budget: largest allowed cost.
        limit: the largest number.
        known: a number, which may be above ``limit``, and its cost.
    """
    number, least = known
    if number > limit:
        if least <= budget:
            return limit
        number, least = limit, cost(limit)
    costs = {number: least}
    while True:
        low = max((x for x, y in costs.items() if y <= budget), default=0)
        high = min((x for x, y in costs.items() if y > budget), default=limit + 1)
        if high - low <= 1:
            return low
        guess = (low + high) // 2
        finite = math.isfinite(max(costs.values()))
        if len(costs) <= SECANTS and finite:
            # where the line through the two nearest points meets the budget
            (x, y), (x0, y0) = sorted(
                [*costs.items(), (0, 0.0)],
                key=lambda point: (point[0] == 0, abs(point[1] - budget)),
            )[:2]
            guess = x if y == y0 else int(x + (budget - y) * (x - x0) / (y - y0))
        guess = min(max(guess, low + 1), high - 1)
        costs[guess] = cost(guess)
