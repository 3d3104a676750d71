"""What each arm trains: proposed by the formula, accounted for, and held to the budget."""

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from repro.artifacts.base import Context, Result
from repro.artifacts.isolated_points import isolated_points
from repro.artifacts.mezo_fig4 import Config
from repro.core.errors import ReproError, UsageError
from repro.core.units import format_bytes
from repro.data.text.tokens import load_tokenised
from repro.finetuning.arms import LABELS, Arm, estimates
from repro.finetuning.base_models import load_architecture, load_tokenizer, unobtainable
from repro.finetuning.planner import Proposal, propose
from repro.finetuning.step_memory import Setup, account
from repro.planner.architecture import Architecture


@dataclass(frozen=True)
class Plan:
    """The set-ups that are run, and the results that tell how they were chosen."""

    setups: tuple[Setup, ...]
    results: tuple[Result, ...]


def plan(config: Config, dataset: str, context: Context) -> Plan:
    """Choose a set-up for each arm; with ``every_model`` one for each of its models.

    Raises:
        UsageError: the budget is too small for an arm, or N cuts into a question.
        ReproError: of an arm's models none can be had.
    """
    reasons = {name: unobtainable(name) for name in (*config.bp_models, *config.mezo_models)}
    results = list(_unobtainable(config, reasons))
    least, sizes = 1, {}
    for name in (name for name, reason in reasons.items() if not reason):
        sizes[name] = load_architecture(name)
        _require_positions(config, name, sizes[name])
        least = max(least, _least_context(config, dataset, name))
    accounts = _Accounts(config, context)
    budget, of_bp = _budget(config, sizes, reasons, accounts)
    if of_bp and "bp" not in config.arms:
        results.append(_result(config, "bp", budget, *of_bp, chosen=False))
    setups: list[Setup] = []
    for arm in config.arms:
        models = _of_arm(config, arm, sizes, reasons)
        for proposals in _proposals(config, arm, models, least, budget):
            tried = [*_tried(proposals, arm, accounts, budget)]
            results += [_result(config, arm, budget, *one) for one in tried]
            setups.append(_fitting(arm, tried, budget))
    return Plan(tuple(setups), tuple(results))


Accounted = tuple[Setup, dict[str, Any]]
Tried = tuple[Setup, dict[str, Any], bool]


def _unobtainable(config: Config, reasons: Mapping[str, str]) -> Iterator[Result]:
    """Yield the models that are left out, and say so before hours go into the others."""
    for name, reason in reasons.items():
        if reason:
            sys.stderr.write(f"without {name}: {reason}\n")
            point = {"setting": config.setting, "model": name}
            yield Result("unobtainable", point, {"reason": reason})


def _require_positions(config: Config, model: str, size: Architecture) -> None:
    if config.context > size.positions:
        msg = (
            f"context N = {config.context}: {model} has {size.positions} positions; take at most "
            "that, or leave the model out"
        )
        raise UsageError(msg)


class _Accounts:
    """Formula, simulation and measurement of set-ups, each made once."""

    def __init__(self, config: Config, context: Context) -> None:
        self._config, self._context = config, context

    def of(self, arm: Arm, model: str, batch: int, context: int) -> Accounted:
        here = self._config
        measured: Arm = "mezo_1" if estimates(arm) else arm  # n takes no memory
        setup = Setup(measured, model, here.dtype, batch, context, here.device, here.threads)
        ((_, metrics),) = isolated_points(
            "mezo_fig4 memory",
            account,
            [setup],
            Setup.as_dict,
            label=lambda s: f"{LABELS[s.arm]} on {s.model}, B={s.batch} N={s.context}",
            store=self._context.journal,
            workers=1,
            preload=["repro.finetuning.step_memory"],
        )
        return setup, metrics


def _least_context(config: Config, dataset: str, model: str) -> int:
    tokenizer = load_tokenizer(model)
    splits = (load_tokenised(dataset, split, tokenizer) for split in ("train", "validation"))
    least = max(split.least_length for split in splits)
    if config.context < least:
        msg = (
            f"context N = {config.context}: cuts into a question of {dataset}; with the tokenizer "
            f"of {model} take at least {least}"
        )
        raise UsageError(msg)
    return least


def _of_arm(
    config: Config, arm: Arm, sizes: Mapping[str, Architecture], reasons: Mapping[str, str]
) -> dict[str, Architecture]:
    names = config.models(arm)
    found = {name: sizes[name] for name in names if name in sizes}
    if not found or (config.every_model and len(found) < len(names)):
        why = "\n".join(f"  {name}: {reasons[name]}" for name in names if reasons[name])
        msg = f"models for {LABELS[arm]} that cannot be had:\n{why}"
        raise ReproError(msg)
    return found


def _budget(
    config: Config,
    sizes: Mapping[str, Architecture],
    reasons: Mapping[str, str],
    accounts: _Accounts,
) -> tuple[float, Accounted | None]:
    """Return the bytes each arm may take, and BP's set-up if that was measured for it.

    They are infinite where every model is run.
    """
    if config.every_model:
        return math.inf, None
    if config.budget_bytes:
        return float(config.budget_bytes), None
    models = _of_arm(config, "bp", sizes, reasons)
    largest = max(models, key=lambda name: models[name].parameters)
    setup, metrics = accounts.of("bp", largest, config.batch, config.context)
    if "measured_peak_bytes" not in metrics:
        msg = f"BP on {largest} runs out of memory and sets no budget: lower N or B"
        raise ReproError(msg)
    return float(metrics["measured_peak_bytes"]), (setup, metrics)


def _proposals(
    config: Config, arm: Arm, models: Mapping[str, Architecture], least: int, budget: float
) -> Iterator[list[Proposal]]:
    """Yield the proposals for each set-up of an arm, the most wanted first."""
    groups = [{name: models[name]} for name in models] if config.every_model else [dict(models)]
    sets_budget = arm == "bp" and not config.budget_bytes  # and takes it, whatever the formula says
    given = config.every_model or sets_budget
    for group in groups:
        proposals = propose(
            arm,
            group,
            config.dtype,
            batch=config.batch,
            context=config.context,
            least_context=least,
            budget=math.inf if given else budget,
        )
        yield proposals[:1] if given else proposals


def _tried(
    proposals: list[Proposal], arm: Arm, accounts: _Accounts, budget: float
) -> Iterator[Tried]:
    """Account for one proposal after the other until one stays within the budget."""
    for proposal in proposals:
        setup, metrics = accounts.of(arm, proposal.model, proposal.batch, proposal.context)
        unlimited = budget == math.inf
        fits = unlimited or metrics.get("measured_peak_bytes", math.inf) <= budget
        yield setup, metrics, fits
        if fits:
            return


def _fitting(arm: Arm, tried: list[Tried], budget: float) -> Setup:
    setup, _, fits = tried[-1]
    if not fits:
        took = [m["measured_peak_bytes"] for _, m, _ in tried if "measured_peak_bytes" in m]
        said = (
            f"was measured to take at least {format_bytes(min(took))}; give that much"
            if took
            else "runs out of memory at every size; lower N or B, or take a smaller model"
        )
        msg = f"memory budget of {format_bytes(budget)}: {LABELS[arm]} {said}"
        raise UsageError(msg)
    return replace(setup, arm=arm)


def _result(
    config: Config, arm: Arm, budget: float, setup: Setup, metrics: dict[str, Any], chosen: bool
) -> Result:
    limit = {} if budget == math.inf else {"budget_bytes": budget}
    point = {"setting": config.setting, **setup.as_dict(), "arm": arm}
    return Result("plan", point, metrics | limit | {"chosen": chosen})
