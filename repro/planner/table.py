"""Plans as tables for the terminal."""

import shutil
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from repro.core.units import format_bytes
from repro.memory.setting import Setting
from repro.planner.architecture import Architecture
from repro.planner.choices import Choice
from repro.planner.configurations import architecture
from repro.planner.families import family
from repro.planner.formula import LARGEST_BATCH, weight_bytes
from repro.planner.plan import LARGEST_CONTEXT, MethodPlan, Plan

_WIDTH = 160
"""Minimum width of a table in columns, so that a narrow terminal wraps lines and cuts no value."""
NOT_COUNTED = (
    "Not counted: rounding by the allocator, kernels' workspaces, the CUDA context, the process "
    "(docs/plan.md)."
)


def plan_text(plan: Plan) -> str:
    """Return the plan of one model: a line for each method, then remarks."""
    name, origin = plan.model.name, plan.model.origin
    opening = name if origin == name else f"{name} ({origin})"
    opening += f": {plan.sizes.parameters:,} parameters"
    if isinstance(plan.sizes, Architecture):
        opening += f", {format_bytes(weight_bytes(plan.sizes, plan.setting))} of weights"
        basis = ["All columns but the last come from the planner's formula."]
        hidden = {"simulated"}
        if any(row.simulated for row in plan.rows):
            basis = [
                'The columns "fits" and "to spare" come from the tensors of a simulated step, '
                "longest N and largest B from the formula."
            ]
            hidden = set()
        basis.append(
            "MeZO paper: its equations (2) for BP and (3) for MeZO, as printed, with L' = 1."
        )
    else:
        basis = ["All values come from the tensors of simulated steps."]
        hidden = {"formula", "MeZO paper"}
        if all(row.longest_context is None for row in plan.rows):
            hidden |= {"longest N", "largest B"}
    cells = [_cells(row, plan) for row in plan.rows]
    names = ["fits", "simulated", "formula", "to spare", "longest N", "largest B", "MeZO paper"]
    shown = [name for name in names if name not in hidden]
    table = _table(["method", *shown], [[row["method"], *(row[n] for n in shown)] for row in cells])
    lines = [opening, _setting_line(plan.setting, plan.budget)]
    return _joined(lines, table, [*_remarks(plan), *basis, NOT_COUNTED])


def choices_text(
    chosen: Sequence[Choice],
    families: Sequence[str],
    setting: Setting,
    budget: float,
    *,
    shortened: bool,
) -> str:
    """Return the largest model of each family for each method, as ``choose`` found it."""
    slugs = list(dict.fromkeys(choice.method.slug for choice in chosen))
    rows = []
    for name in dict.fromkeys(choice.family for choice in chosen):
        models = {c.method.slug: c.model for c in chosen if c.family == name}
        found = (models.get(slug) for slug in slugs)
        rows.append([name, *("-" if one is None else short_name(one, name) for one in found)])
    few = "use all of theirs" if shortened else "are left out"
    other = dict.fromkeys(c.family for c in chosen if c.attention != setting.attention)
    tails = {c.method.slug for c in chosen if c.method.trains == "tail"}
    shallow = [
        name
        for name in families
        if max(architecture(m.config).layers for m in family(name)) < setting.tail
    ]
    closing = [
        "Each column shows the largest model that fits with that --method, by the formula.",
        f"Models with fewer than {setting.context} positions {few}.",
        *(f"{name}: eager attention, because its class has no SDPA." for name in other),
        *(
            f"{', '.join(shallow)}: no model has {setting.tail} blocks for {slug}."
            for slug in tails
            if shallow
        ),
        NOT_COUNTED,
    ]
    return _joined([_setting_line(setting, budget)], _table(["family", *slugs], rows), closing)


def short_name(model: str, family: str) -> str:
    """Return a model's name without the first word of its family, as ``3.2-1b`` in llama-3."""
    return model.removeprefix(f"{family.partition('-')[0]}-")


def _cells(row: MethodPlan, plan: Plan) -> dict[str, str]:
    """Return the text of every column of a method's line."""
    method, tail, needs = row.method, plan.setting.tail, row.needs
    label = method.label
    if method.trains == "adapters":
        label += f", r = {plan.setting.rank}"
        if plan.setting.adapters == "activations":
            label += " in the activations' format"
    if method.trains == "tail":
        blocks = {0: "", 1: "last block + "}.get(tail, f"last {tail} blocks + ")
        # a tied output layer is the embedding, which the zeroth-order steps train
        rest = "final norm" if plan.sizes.tied else "output"
        label += f", {blocks}{rest} by BP"
    fits, spare = "-", "-"
    if needs is not None:
        left = plan.budget - needs
        fits = "yes" if left >= 0 else "no"
        spare = format_bytes(left) if left >= 0 else f"{format_bytes(-left)} short"
    sizes = {
        "simulated": None if row.simulated is None else row.simulated["total_bytes"],
        "formula": None if row.estimate is None else row.estimate.total,
        "MeZO paper": row.paper,
    }
    limits = {
        "longest N": (row.longest_context, plan.sizes.positions or LARGEST_CONTEXT),
        "largest B": (row.largest_batch, LARGEST_BATCH),
    }
    return {
        "method": label,
        "fits": fits,
        "to spare": spare,
        **{n: "-" if value is None else format_bytes(value) for n, value in sizes.items()},
        **{
            n: "-" if value is None else f"{value} (max)" if value == most else f"{value or 'none'}"
            for n, (value, most) in limits.items()
        },
    }


def _remarks(plan: Plan) -> list[str]:
    """Return the remarks about methods, each once, about the context, and about checkpointing."""
    methods: dict[str, list[str]] = {}
    for row in plan.rows:
        for remark in (row.unsupported_reason, row.warning):
            if remark:
                methods.setdefault(remark, []).append(row.method.slug)
    remarks = [f"{', '.join(slugs)}: {remark}." for remark, slugs in methods.items()]
    context, positions = plan.setting.context, plan.sizes.positions
    if positions is not None and context > positions:
        remarks.append(f"N = {context} exceeds the {positions} positions of the model.")
    remarks += [f"{note[0].upper()}{note[1:]}." for note in plan.notes]
    peaks = {row.method.slug: row.estimate.total for row in plan.rows if row.estimate is not None}
    pairs = [("bp-sgd", "checkpoint-sgd"), ("bp-adam", "checkpoint-adam")]
    same = [a for a, b in pairs if a in peaks and b in peaks and peaks[a] == peaks[b]]
    if same:
        remarks.append(
            f"{', '.join(same)}: checkpointing saves nothing, because at the peak all gradients "
            "are stored and the activations are already freed."
        )
    return remarks


def _setting_line(setting: Setting, budget: float) -> str:
    loss = "the last token" if setting.loss == "last" else "every token"
    return (
        f"Budget {format_bytes(budget)}; context N = {setting.context}, batch B = {setting.batch}, "
        f"{setting.format}, {setting.attention} attention, loss of {loss}"
    )


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table whose first column holds names and the others values."""
    table = Table(box=None, pad_edge=False)
    for number, name in enumerate(names):
        table.add_column(name, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    terminal = sys.stdout.isatty()
    width = max(_WIDTH, shutil.get_terminal_size().columns) if terminal else _WIDTH
    console = Console(width=width, no_color=not terminal, force_terminal=terminal)
    with console.capture() as captured:
        console.print(table)
    return [line.rstrip() for line in captured.get().splitlines()]


def _joined(*paragraphs: Sequence[str]) -> str:
    return "\n\n".join("\n".join(lines) for lines in paragraphs) + "\n"
