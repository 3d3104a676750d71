"""Plan the training of each arm: the formula proposes, and a measured step must fit the budget."""

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from repro.artifacts.base import Result
from repro.artifacts.mezo_fig4 import Config
from repro.artifacts.mezo_fig4.proposals import Proposal, propose
from repro.artifacts.shared.subprocesses import run_in_subprocesses
from repro.core.errors import ReproError, UsageError
from repro.core.units import format_bytes
from repro.data.text.task import SPLITS
from repro.data.text.tasks import get_task
from repro.data.text.tokens import load_tokenised
from repro.finetuning.arms import LABELS, Arm, is_full_backpropagation
from repro.finetuning.base_models import load_architecture, load_tokenizer, unobtainable
from repro.finetuning.sources import fingerprint
from repro.finetuning.step_memory import ArmStep, memory_of_step
from repro.measurement.device import memory_of
from repro.measurement.environment import source_sha256
from repro.measurement.result_cache import ResultCache
from repro.planner.architecture import Architecture


@dataclass(frozen=True)
class ChosenSetups:
    """The set-ups to run, and the results that led to their choice."""

    setups: tuple[ArmStep, ...]
    too_large: tuple[ArmStep, ...]
    """The smallest set-up tried of each arm whose set-ups all exceed the device's memory."""
    results: tuple[Result, ...]


def plan(config: Config, datasets: Sequence[str], prepared: ResultCache) -> ChosenSetups:
    """Choose a set-up for each arm; with ``every_model`` one for each of its models.

    Measured steps are kept in ``prepared``.

    Raises:
        UsageError: the budget is too small for an arm, the device is too small for all arms, or N
            is so small that it cuts a question.
        ReproError: none of an arm's models can be obtained.
    """
    reasons = {name: unobtainable(name) for name in _needed(config)}
    results = list(_unobtainable(config, reasons))
    sizes = {name: load_architecture(name) for name, reason in reasons.items() if not reason}
    for name, size in sizes.items():
        if config.context > size.positions:
            raise UsageError(
                f"context N = {config.context}: {name} has {size.positions} positions; give at "
                "most that, or leave the model out"
            )
    least = max(
        (_least_context(config, dataset, name) for name in sizes for dataset in datasets), default=1
    )
    estimate = _estimates(config, prepared)
    budget = _budget(config, sizes, reasons, estimate)
    # else no record would show the set-up whose peak is the budget
    if budget.of_bp and not (budget.is_taken and "bp" in config.arms):
        results.append(_result(config, "bp", budget, *budget.of_bp, chosen=False))
    setups: list[ArmStep] = []
    too_large: list[ArmStep] = []
    for arm in config.arms:
        models = _of_arm(config, arm, sizes, reasons)
        for proposals in _proposals(config, arm, models, least, budget):
            tried = _tried(proposals, arm, estimate, budget)
            rows = [_result(config, arm, budget, *one) for one in tried]
            results += [row for row in rows if row not in results]
            setup, _, fits = tried[-1]
            (setups if fits else too_large).append(replace(setup, arm=arm))
    if not setups:
        raise UsageError(
            f"device {config.device}: too little memory for every method and model; give smaller "
            "--bp-models and --mezo-models, or a smaller --context or --batch"
        )
    return ChosenSetups(tuple(setups), tuple(too_large), tuple(results))


Estimated = tuple[ArmStep, dict[str, Any]]
Estimate = Callable[[Arm, str, int, int], Estimated]
"""Estimates the memory of an arm's step with a model, a batch size and a context."""
Tried = tuple[ArmStep, dict[str, Any], bool]


class _Budget(NamedTuple):
    """The memory that every arm may use."""

    bytes: float
    """Budget in bytes; infinite if every model is run, the device's memory if BP exceeds it."""
    of_bp: Estimated | None = None
    """The BP configuration whose measured peak sets the budget, if one was measured for it."""

    @property
    def is_taken(self) -> bool:
        """Whether the budget is BP's measured peak, regardless of the formula."""
        return self.of_bp is not None and "measured_peak_bytes" in self.of_bp[1]


def _needed(config: Config) -> list[str]:
    """Return the models that some arm trains, or whose step by BP sets the budget."""
    by_bp = _takes_budget_of_bp(config) or any(map(is_full_backpropagation, config.arms))
    found = [*config.bp_models] if by_bp else []
    if not all(map(is_full_backpropagation, config.arms)):
        found += config.mezo_models
    return found


def _takes_budget_of_bp(config: Config) -> bool:
    return not config.every_model and not config.budget_bytes


def _unobtainable(config: Config, reasons: Mapping[str, str]) -> Iterator[Result]:
    """Yield the models that are left out, and report them before hours are spent on the others."""
    for name, reason in reasons.items():
        if reason:
            sys.stderr.write(f"leaving out {name}: {reason}\n")
            point = {"setting": config.setting, "model": name}
            yield Result("unobtainable", point, {"reason": reason})


def _estimates(config: Config, prepared: ResultCache) -> Estimate:
    """Return a function that estimates set-ups by formula, simulation and measurement.

    Each is estimated once, even if it runs out of memory, which ``prepared`` does not keep.
    """
    code = source_sha256("finetuning", "measurement", "memory", "planner")

    @cache
    def estimated(setup: ArmStep) -> dict[str, Any]:
        ((_, metrics),) = run_in_subprocesses(
            "mezo_fig4 memory",
            memory_of_step,
            [setup],
            lambda s: {"kind": "memory", **s.as_dict(), "base": fingerprint(s.model), "code": code},
            label=lambda s: f"{LABELS[s.arm]} on {s.model}, B={s.batch} N={s.context}",
            store=prepared,
            workers=1,
        )
        return metrics

    def estimate(arm: Arm, model: str, batch: int, context: int) -> Estimated:
        measured: Arm = "mezo_1" if arm == "mezo_5" else arm  # memory does not depend on n
        dtype = config.dtype_of(arm)
        setup = ArmStep(measured, model, dtype, batch, context, config.device, config.threads)
        return setup, estimated(setup)

    return estimate


def _least_context(config: Config, dataset: str, model: str) -> int:
    """Return the shortest N that leaves every question whole; refuse a shorter configured N."""
    tokenizer = load_tokenizer(model)
    splits = {name: load_tokenised(dataset, name, tokenizer) for name in SPLITS}
    name, split = max(splits.items(), key=lambda one: one[1].least_length)
    least = split.least_length
    if config.context < least:
        rows, _ = get_task(dataset).rows(name)
        longest = rows[int((split.prefix + split.suffix).argmax())]
        raise UsageError(
            f"context N = {config.context}: some prompts of {dataset} do not fit; {longest.where} "
            f"has {least} tokens of {model} that cannot be cut; give --context {least} or more"
        )
    return least


def _of_arm(
    config: Config, arm: Arm, sizes: Mapping[str, Architecture], reasons: Mapping[str, str]
) -> dict[str, Architecture]:
    names = config.models(arm)
    found = {name: sizes[name] for name in names if name in sizes}
    if not found or (config.every_model and len(found) < len(names)):
        why = "\n".join(f"  {name}: {reasons[name]}" for name in names if reasons[name])
        raise ReproError(f"{LABELS[arm]} lacks models, which are not available:\n{why}")
    return found


def _budget(
    config: Config,
    sizes: Mapping[str, Architecture],
    reasons: Mapping[str, str],
    estimate: Estimate,
) -> _Budget:
    if not _takes_budget_of_bp(config):
        return _Budget(math.inf if config.every_model else float(config.budget_bytes))
    models = _of_arm(config, "bp", sizes, reasons)
    largest = max(models, key=lambda name: models[name].parameters)
    setup, metrics = estimate("bp", largest, config.batch, config.context)
    peak = metrics.get("measured_peak_bytes")
    if peak is None:
        peak = memory_of(config.device)
        sys.stderr.write(
            f"BP on {largest} at B = {config.batch}, N = {config.context} runs out of "
            f"memory, so the budget is the device's whole memory, {format_bytes(peak)}\n"
        )
    return _Budget(float(peak), (setup, metrics))


def _proposals(
    config: Config, arm: Arm, models: Mapping[str, Architecture], least: int, budget: _Budget
) -> Iterator[list[Proposal]]:
    """Yield the proposals for each set-up of an arm, best first; without a budget only one."""
    groups = [{name: models[name]} for name in models] if config.every_model else [dict(models)]
    limit = math.inf if arm == "bp" and budget.is_taken else budget.bytes
    for group in groups:
        proposals = propose(
            arm,
            group,
            config.dtype_of(arm),
            batch=config.batch,
            context=config.context,
            least_context=least,
            budget=limit,
        )
        yield proposals[:1] if limit == math.inf else proposals


def _tried(proposals: list[Proposal], arm: Arm, estimate: Estimate, budget: _Budget) -> list[Tried]:
    """Measure one proposal after another until one stays within the budget; return all of them.

    The last one fits, unless none fits on the device.

    Raises:
        UsageError: some proposals fit on the device, but all of these exceed the budget.
    """
    tried: list[Tried] = []
    for proposal in proposals:
        setup, metrics = estimate(arm, proposal.model, proposal.batch, proposal.context)
        peak = metrics.get("measured_peak_bytes")  # none if the step ran out of memory
        fits = peak is not None and peak <= budget.bytes
        tried.append((setup, metrics, fits))
        if fits:
            return tried
    took = [(m["measured_peak_bytes"], s) for s, m, _ in tried if "measured_peak_bytes" in m]
    if not took:
        return tried
    peak, least = min(took, key=lambda one: one[0])
    raise UsageError(
        f"memory budget of {format_bytes(budget.bytes)}: too small for {LABELS[arm]}; give at "
        f"least {format_bytes(peak)} (--budget-bytes {peak}), as measured for {least.model} in "
        f"{least.dtype} at B = {least.batch}, N = {least.context}"
    )


def _result(
    config: Config, arm: Arm, budget: _Budget, setup: ArmStep, metrics: dict[str, Any], chosen: bool
) -> Result:
    limit = {} if budget.bytes == math.inf else {"budget_bytes": budget.bytes}
    point = {"setting": config.setting, **setup.as_dict(), "arm": arm}
    return Result("plan", point, metrics | limit | {"chosen": chosen})
