"""Memory of training steps as a figure: the published bars, and every account of each."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from repro.artifacts.shared.memory_accounts import ACCOUNTS, Accounts, StepMemory
from repro.claims.memory import Point, describe
from repro.core.names import METHOD_LABELS
from repro.core.units import format_binary_bytes
from repro.measurement.records import Record
from repro.plotting.stacks import MemoryBar, MemoryPanel, stacks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure(records: Sequence[Record], precision: str) -> "Figure":
    """Draw the steps of one precision, a row for each batch size."""
    found = Accounts(records)
    return stacks([_setting(steps, found) for _, steps in found.settings(precision)])


def _setting(steps: Sequence[Point], found: Accounts) -> MemoryPanel:
    published = {_short(step): row for step in steps if (row := found.get("analytic", step))}
    full_zo = published.get(METHOD_LABELS["full_zo"])
    tails = [_short(step) for step in steps if step["method"] in ("cls1", "cls2")]
    return MemoryPanel(
        title=describe(steps[0]),
        published=[MemoryBar(name, row.parts) for name, row in published.items()],
        extra={name: _beyond(published[name], full_zo) for name in tails} if full_zo else {},
        accounts={METHOD_LABELS[str(step["method"])]: _bars(step, found) for step in steps},
    )


def _beyond(row: StepMemory, least: StepMemory) -> dict[str, int]:
    return {part: size - least.parts.get(part, 0) for part, size in row.parts.items()}


def _bars(step: Point, found: Accounts) -> list[MemoryBar]:
    by_name = dict(found.of(step))
    formula = by_name["analytic"].total
    return [
        MemoryBar(
            ACCOUNTS[name].label,
            row.parts,
            f"{format_binary_bytes(row.total)}, {row.total / formula:.2f} ×",  # noqa: RUF001
        )
        for name, row in by_name.items()
    ]


def _short(step: Point) -> str:
    return METHOD_LABELS[str(step["method"])].removeprefix("ZO-Feat-")
