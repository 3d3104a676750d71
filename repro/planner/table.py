"""Plans as tables for the terminal."""

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from repro.core.units import format_bytes
from repro.memory.setting import Setting
from repro.memory.training_method import TrainingMethod
from repro.planner.choices import Choice
from repro.planner.plan import MethodPlan, Plan
from repro.planner.search import LARGEST_BATCH
from repro.planner.weights import weight_bytes

_WIDTH = 160
"""Table width in columns if the output is not a terminal."""
NOT_COUNTED = (
    "Not counted: rounding by the allocator, workspaces of kernels, the CUDA context, the process "
    "itself (docs/plan.md)."
)


def plan_text(plan: Plan) -> str:
    """Return the plan of one model: a line for each method, then remarks."""
    names = _columns(plan)
    table = _table("method", names)
    for row in plan.rows:
        cells = _cells(row, plan.budget, plan.positions)
        table.add_row(_label(row.method, plan.setting), *(cells[name] for name in names))
    closing = [*_remarks(plan), *_checkpointing(plan), *_basis(plan), NOT_COUNTED]
    return _joined(
        [_model_line(plan), _setting_line(plan.setting, plan.budget)], _lines(table), closing
    )


def _columns(plan: Plan) -> list[str]:
    """Return the names of the non-empty columns."""
    names = ["fits", "simulated", "formula", "to spare", "longest N", "largest B", "MeZO paper"]
    empty = set() if _is_simulated(plan) else {"simulated"}
    if plan.architecture is None:
        empty = {"formula", "MeZO paper"}
        if all(row.longest_context is None for row in plan.rows):
            empty |= {"longest N", "largest B"}
    return [name for name in names if name not in empty]


def _is_simulated(plan: Plan) -> bool:
    return any(row.simulated for row in plan.rows)


def _basis(plan: Plan) -> list[str]:
    """Return the lines about the origin of the numbers."""
    if plan.architecture is None:
        return ["All values come from the tensors of simulated steps."]
    basis = "All columns but the last come from the planner's formula."
    if _is_simulated(plan):
        basis = (
            'The columns "fits" and "to spare" come from the tensors of a simulated step, '
            "longest N and largest B from the formula."
        )
    return [basis, "MeZO paper: equations (2) and (3) as printed, with L' = 1."]


def choices_text(
    chosen: Sequence[Choice], setting: Setting, budget: float, *, shortened: bool
) -> str:
    """Return the largest model of each family for each method, as ``choose`` found it."""
    slugs = list(dict.fromkeys(choice.method.slug for choice in chosen))
    table = _table("family", slugs)
    for family in dict.fromkeys(choice.family for choice in chosen):
        models = {c.method.slug: c.model for c in chosen if c.family == family}
        names = (models[slug] for slug in slugs)
        table.add_row(
            family, *("-" if name is None else short_name(name, family) for name in names)
        )
    few = "use all of theirs" if shortened else "are left out"
    closing = [
        "Each column shows the largest model that fits with that --method, by the formula.",
        f"Models with fewer than {setting.context} positions {few}.",
        NOT_COUNTED,
    ]
    return _joined([_setting_line(setting, budget)], _lines(table), closing)


def short_name(model: str, family: str) -> str:
    """Return a model's name without the first word of its family, as ``3.2-1b`` in llama-3."""
    return model.removeprefix(f"{family.partition('-')[0]}-")


def _remarks(plan: Plan) -> list[str]:
    """Return the remarks about methods, each once, and about the context."""
    methods: dict[str, list[str]] = {}
    for row in plan.rows:
        for remark in (row.unsupported_reason, row.warning):
            if remark:
                methods.setdefault(remark, []).append(row.method.slug)
    remarks = [f"{', '.join(slugs)}: {remark}." for remark, slugs in methods.items()]
    context, positions = plan.setting.context, plan.positions
    if positions is not None and context > positions:
        remarks.append(f"N = {context} exceeds the {positions} positions of the model.")
    return remarks + [f"{note[0].upper()}{note[1:]}." for note in plan.notes]


def _checkpointing(plan: Plan) -> list[str]:
    """Name the methods for which checkpointing saves nothing, with the reason."""
    peaks = {row.method.slug: row.estimate.total for row in plan.rows if row.estimate is not None}
    pairs = [("bp-sgd", "checkpoint-sgd"), ("bp-adam", "checkpoint-adam")]
    same = [
        both for both in pairs if peaks.keys() >= {*both} and len({peaks[m] for m in both}) == 1
    ]
    if not same:
        return []
    slugs = ", ".join(whole for whole, _ in same)
    return [
        f"{slugs}: checkpointing saves nothing, because at the peak all gradients are stored and "
        "the activations are already freed."
    ]


def _model_line(plan: Plan) -> str:
    a, model = plan.architecture, plan.model
    line = f"{model.name} ({model.origin}): {plan.parameters:,} parameters"
    if a is None:
        return line
    return f"{line}, {format_bytes(weight_bytes(a, plan.setting))} of weights"


def _setting_line(setting: Setting, budget: float) -> str:
    loss = "the last token" if setting.loss == "last" else "every token"
    return (
        f"Budget {format_bytes(budget)}; N = {setting.context}, B = {setting.batch}, "
        f"{setting.format}, {setting.attention} attention, loss of {loss}"
    )


def _cells(row: MethodPlan, budget: float, positions: int | None) -> dict[str, str]:
    needs = row.needs
    spare = 0.0 if needs is None else budget - needs
    short = "-" if needs is None else f"{format_bytes(-spare)} short"
    counted = None if row.simulated is None else row.simulated["total_bytes"]
    return {
        "fits": "-" if needs is None else "yes" if spare >= 0 else "no",
        "simulated": _bytes(counted),
        "formula": _bytes(None if row.estimate is None else row.estimate.total),
        "to spare": format_bytes(spare) if needs is not None and spare >= 0 else short,
        "longest N": _limit(row.longest_context, positions),
        "largest B": _limit(row.largest_batch, LARGEST_BATCH),
        "MeZO paper": _bytes(row.paper),
    }


def _label(method: TrainingMethod, setting: Setting) -> str:
    if method.trains == "adapters":
        return f"{method.label}, r = {setting.rank}"
    if method.trains == "tail":
        blocks = {0: "", 1: "last block + "}.get(setting.tail, f"last {setting.tail} blocks + ")
        return f"{method.label}, {blocks}output by BP"
    return method.label


def _bytes(value: float | None) -> str:
    return "-" if value is None else format_bytes(value)


def _limit(value: int | None, most: int | None) -> str:
    if value is None:
        return "-"
    if value == most:
        return f"{value} (all)"
    return str(value) if value else "none"


def _table(first: str, others: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _joined(*paragraphs: Sequence[str]) -> str:
    return "\n\n".join("\n".join(lines) for lines in paragraphs) + "\n"


def _lines(table: Table) -> list[str]:
    console = Console() if sys.stdout.isatty() else Console(width=_WIDTH, no_color=True)
    with console.capture() as captured:
        console.print(table)
    return [line.rstrip() for line in captured.get().splitlines()]
