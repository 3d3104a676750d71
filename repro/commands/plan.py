"""``repro plan``: show which models and methods fit in a given memory."""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repro.core.errors import ReproError, UsageError
from repro.core.names import ATTENTIONS
from repro.core.units import format_bytes, parse_bytes
from repro.memory.setting import ADAPTER_FORMATS, FORMATS, LOSSES, Setting, TrainingMethod
from repro.planner.families import FAMILIES
from repro.planner.methods import TRAINING_METHODS

if TYPE_CHECKING:
    from repro.planner.choices import Choice
    from repro.planner.models import Model
    from repro.planner.plan import Plan

SMALL = 100e6
"""Bytes; a smaller budget is hardly meant for a language model."""


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "plan",
        help="show which models and methods fit in a given memory",
        description="Show which methods fit a model into a memory budget, with the longest context "
        "and the largest batch of each. Without a model, show the largest model of each family "
        "that fits. docs/plan.md explains the formula.",
    )
    parser.add_argument(
        "--budget",
        nargs="+",
        required=True,
        metavar="SIZE",
        help="memory: 16GB, 8 GB, 8GiB or 500MB; a GB is 10**9 bytes, a GiB 2**30",
    )
    model = parser.add_mutually_exclusive_group()
    model.add_argument(
        "--model",
        metavar="NAME",
        help="a known name, a config.json or its directory, or a name on the Hugging Face hub",
    )
    model.add_argument(
        "--params", metavar="COUNT", help="a Llama model with about this many parameters: 7B, 350M"
    )
    model.add_argument(
        "--family",
        choices=FAMILIES,
        metavar="FAMILY",
        help=f"only this family (default: all: {', '.join(FAMILIES)})",
    )
    default = Setting()
    parser.add_argument(
        "--context",
        type=int,
        metavar="N",
        help=f"tokens in a sequence (default: {default.context}, or the model's maximum)",
    )
    parser.add_argument(
        "--batch",
        type=int,
        default=default.batch,
        metavar="B",
        help="sequences in a batch (default: %(default)s)",
    )
    parser.add_argument(
        "--dtype",
        choices=FORMATS,
        default=default.format,
        help="number format of the weights (default: %(default)s)",
    )
    parser.add_argument(
        "--method",
        nargs="+",
        choices=TRAINING_METHODS,
        default=list(TRAINING_METHODS),
        metavar="METHOD",
        help=f"only these methods (default: all: {', '.join(TRAINING_METHODS)})",
    )
    parser.add_argument(
        "--attention",
        choices=ATTENTIONS,
        help=f"attention kernel (default: {default.attention}, or eager where a model lacks it)",
    )
    parser.add_argument(
        "--loss",
        choices=LOSSES,
        default=default.loss,
        help="loss of the last token, as for a classification prompt, or of all tokens (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--rank",
        type=int,
        metavar="R",
        help=f"rank of LoRA adapters (default: {default.rank})",
    )
    parser.add_argument(
        "--adapters",
        choices=ADAPTER_FORMATS,
        help="number format of LoRA adapters and of their inputs: float32, the default here and in "
        "peft, or the activations' (autocast_adapter_dtype=False)",
    )
    parser.add_argument(
        "--tail",
        type=int,
        metavar="K",
        help="ElasticZO: number of last blocks trained by backpropagation, besides the final "
        "norm and an output layer that shares no weights with the embedding (default: "
        f"{default.tail})",
    )
    parser.add_argument(
        "--simulate",
        action="store_true",
        help="also simulate a training step and count its tensors (seconds to a minute for each "
        "method, minutes if the model is recurrent); models that the formula does not cover are "
        "always simulated",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="write a web page with sliders instead; it starts with the other options' values",
    )
    parser.set_defaults(
        execute=execute,
        next_step="docs/methods.md has the code of each method; "
        "repro plan --html FILE writes a page with sliders",
    )


def execute(args: argparse.Namespace) -> int:
    """Print the plan, or write the page.

    Raises:
        UsageError: an option is out of range, or two options contradict each other.
        ReproError: nothing fits (raised after the plan is printed), or the model cannot be
            obtained.
    """
    budget = parse_bytes("budget", " ".join(args.budget))
    methods = [TRAINING_METHODS[slug] for slug in dict.fromkeys(args.method)]
    given = {
        "context": args.context,
        "attention": args.attention,
        **_of_methods(args, methods),
    }
    setting = Setting(
        batch=args.batch,
        format=args.dtype,
        loss=args.loss,
        **{name: value for name, value in given.items() if value is not None},
    )
    if args.html is not None:
        return _write_page(args, methods, setting, budget)
    if args.model is not None or args.params is not None:
        return _plan_model(args, methods, setting, budget)
    if args.simulate:
        raise UsageError("--simulate needs a model; add --model or --params")
    return _plan_families(args, methods, setting, budget)


def _of_methods(args: argparse.Namespace, methods: list[TrainingMethod]) -> dict[str, Any]:
    """Return the values of the options that only some methods take, ``None`` if not given.

    Raises:
        UsageError: an option is given, and none of ``methods`` takes it.
    """
    values = {}
    for option, part in (("rank", "adapters"), ("adapters", "adapters"), ("tail", "tail")):
        values[option] = getattr(args, option)
        if values[option] is None or any(method.trains == part for method in methods):
            continue
        having = ", ".join(slug for slug, one in TRAINING_METHODS.items() if one.trains == part)
        raise UsageError(f"--{option} belongs to {having}; add one of them to --method or drop it")
    return values


def _plan_model(
    args: argparse.Namespace, methods: list[TrainingMethod], setting: Setting, budget: float
) -> int:
    from repro.planner.plan import plan_model

    model = _model(args)
    assert model is not None  # noqa: S101 - the caller checked that an option names one
    plan = plan_model(
        model,
        methods,
        setting,
        budget,
        shorten=args.context is None,
        fall_back=args.attention is None,
        simulated=args.simulate,
        report=lambda line: sys.stderr.write(f"{line}\n"),
    )
    if args.json:
        _print_json(plan.as_dict())
    else:
        from repro.planner.table import plan_text

        sys.stdout.write(plan_text(plan))
    return _require_any(_of_model(plan), budget, _unsupported(plan))


def _model(args: argparse.Namespace) -> "Model | None":
    """Return the model named by the options, if any."""
    from repro.planner.models import named, of_size

    if args.model is not None:
        return named(args.model)
    return None if args.params is None else of_size(args.params)


def _of_model(plan: "Plan") -> list[tuple[float, str]]:
    """Return each method's memory, with its name."""
    return [(row.needs, row.method.label) for row in plan.rows if row.needs is not None]


def _of_families(chosen: Sequence["Choice"]) -> list[tuple[float, str]]:
    return [(choice.needed_bytes, f"{choice.method.label} on {choice.shown}") for choice in chosen]


def _write_page(
    args: argparse.Namespace, methods: list[TrainingMethod], setting: Setting, budget: float
) -> int:
    from repro.core import atomic
    from repro.planner.choices import choose
    from repro.planner.page import page
    from repro.planner.plan import plan_model

    if args.json or args.simulate:
        raise UsageError("--html: the page computes by the formula; drop --json and --simulate")
    model = _model(args)
    families = [args.family] if args.family else list(FAMILIES)
    reasons: list[str] = []
    if model is None:
        # shorten, as the page also cuts the context to the positions of a model
        needs = _of_families(choose(families, methods, setting, budget, shorten=True))
    else:
        fall_back = args.attention is None
        plan = plan_model(model, methods, setting, budget, shorten=True, fall_back=fall_back)
        needs, reasons = _of_model(plan), _unsupported(plan)
    text = page(families, methods, setting, budget, model)
    atomic.replace(args.html, text.encode())
    args.next_step = "docs/methods.md has the code of each method"
    sys.stdout.write(f"{args.html}\n")
    return _require_any(needs, budget, reasons)


def _plan_families(
    args: argparse.Namespace, methods: list[TrainingMethod], setting: Setting, budget: float
) -> int:
    from repro.planner.choices import choose

    shorten = args.context is None
    families = [args.family] if args.family else list(FAMILIES)
    chosen = choose(families, methods, setting, budget, shorten=shorten)
    if args.json:
        _print_json(
            {
                "setting": asdict(setting),
                "budget_bytes": round(budget),
                "basis": "formula",
                "choices": [choice.as_dict() for choice in chosen],
            }
        )
    elif any(choice.model for choice in chosen):  # else the table would be empty
        from repro.planner.table import choices_text

        sys.stdout.write(choices_text(chosen, families, setting, budget, shortened=shorten))
    return _require_any(_of_families(chosen), budget)


def _print_json(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value, indent=2) + "\n")
    sys.stdout.flush()  # before anything goes to standard error


def _unsupported(plan: "Plan") -> list[str]:
    """Return why methods of ``plan`` cannot be planned at all."""
    return [row.unsupported_reason for row in plan.rows if row.unsupported_reason is not None]


def _require_any(
    needs: Sequence[tuple[float, str]], budget: float, unsupported_reasons: Sequence[str] = ()
) -> int:
    """Return 0 if something fits; else report the method that needs least memory."""
    if not needs:
        reason = next(iter(unsupported_reasons), "none supports these settings")
        msg = f"no requested method can be planned: {reason}; give another --dtype or --method"
        raise UsageError(msg)
    least, what = min(needs)
    if least > budget:
        digit = 10 ** (math.floor(math.log10(least)) - 2)
        enough = format_bytes(math.ceil(least / digit) * digit)  # rounded up, so it suffices
        msg = (
            f"nothing fits {format_bytes(budget)}: {what} needs least memory, "
            f"{format_bytes(least)}; --budget {enough.replace(' ', '')} is enough"
        )
        if budget < SMALL:
            msg += ". For networks of kilobytes to megabytes see docs/memory.md#in-kibibytes"
        raise ReproError(msg)
    return 0
