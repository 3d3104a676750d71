"""Group the recorded runs for figures, tables and findings."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from repro.claims.trained import of_newest_settings
from repro.finetuning.arms import ARMS, LABELS, Arm
from repro.measurement.records import Record, of_kind, rank

GENERATED = "yesno-facts"
"""The task of generated questions; it gives no verdict."""
FEW_SHOT = "sst2-k16"
"""The task with few training examples, which has statements of its own; its five splits are also
tasks, such as ``sst2-k16-13``."""
TITLES = {
    "boolq": "BoolQ",
    "boolq-qa": "BoolQ, question and answer",
    "rte": "RTE",
    "sst2": "SST-2",
    FEW_SHOT: "SST-2, 16 examples a class",
    GENERATED: "generated questions",
}
"""Names of the tasks in the literature."""


@dataclass(frozen=True)
class ArmSeeds:
    """All seeds of one arm on one model."""

    arm: Arm
    model: str
    records: tuple[Record, ...]
    """One record for each seed, in the order of the seeds."""
    left_out: int = 0
    """Number of seeds run with other settings than the newest, such as another learning rate."""

    @property
    def label(self) -> str:
        """Display name of the arm and its model."""
        return f"{LABELS[self.arm]}, {short_name(self.model)}"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of every seed's run."""
        return _settings(self.records[0])

    def best(self) -> dict[int | None, float]:
        """Return the highest accuracy during training in per cent, by seed."""
        return {record.seed: 100 * max(record.metrics["accuracy"]) for record in self.records}

    def final(self) -> dict[int | None, float]:
        """Return the final accuracy in per cent, by seed; a run that diverged has none."""
        ends = {record.seed: record.metrics.get("final_accuracy") for record in self.records}
        return {seed: 100 * end for seed, end in ends.items() if end is not None}


@dataclass(frozen=True)
class TaskRuns:
    """The records of one task in one setting, as one profile trained it."""

    name: str
    profile: str
    dataset: str
    lines: tuple[ArmSeeds, ...]
    plans: tuple[Record, ...]
    """The set-ups, one for each arm and model: those chosen, and those that exceed the device."""
    grids: tuple[Record, ...]
    zero_shot: tuple[Record, ...] = ()
    """The accuracy of each model before any training."""

    def majority(self, which: str) -> float | None:
        """Return the per cent of the ``monitored`` or ``final`` questions with the majority answer.

        ``None`` if no run finished.
        """
        of = (100 * r.metrics["majority"][which] for line in self.lines for r in line.records)
        return next(of, None)

    def before_training(self, line: ArmSeeds) -> float | None:
        """Return the zero-shot accuracy of the line's model in per cent, as a mean over its seeds.

        For each seed that of its own processor counts, if there is one with the settings of the
        newest. ``None`` if it was not measured.
        """
        measured = [r for r in self.zero_shot if r.point["model"] == line.model]
        if not measured:
            return None
        newest = max(measured, key=lambda record: record.utc)
        settings = newest.metrics.get("settings")
        found = {r.processor: r for r in measured if r.metrics.get("settings") == settings}
        here = (run.environment.gpu or run.environment.cpu for run in line.records)
        return fmean(100 * found.get(name, newest).metrics["accuracy"] for name in here)

    @property
    def title(self) -> str:
        """The task's name in the literature; for a user's own task, the name of its file."""
        return TITLES.get(self.dataset, Path(self.dataset).stem)

    @property
    def is_few_shot(self) -> bool:
        """Whether the task has few training examples."""
        # a file of the user's may have a similar name
        return self.dataset.startswith(FEW_SHOT) and not self.dataset.endswith(".toml")

    @property
    def made(self) -> str:
        """The setting's name, with the profile unless the name has it."""
        return self.name if self.profile in self.name else f"{self.name} ({self.profile})"

    @property
    def machines(self) -> list[str]:
        """The machines of the runs, each once."""
        return list(dict.fromkeys(machine(r) for line in self.lines for r in line.records))


def settings(records: Sequence[Record]) -> list[TaskRuns]:
    """Return every recorded task and setting: highest profile first, BoolQ first within it."""
    keys = dict.fromkeys((r.point["setting"], r.point["dataset"]) for r in of_kind(records, "run"))
    found = [
        _setting(  # memory does not depend on data
            name,
            dataset,
            [
                record
                for record in records
                if record.point["setting"] == name
                and record.point.get("dataset", dataset) == dataset
            ],
        )
        for name, dataset in keys
    ]
    return sorted(found, key=lambda s: (rank(s.profile), s.dataset == "boolq"), reverse=True)


def short_name(model: str) -> str:
    """Return a model's name without its owner or directory."""
    return Path(model).name


def machine(record: Record) -> str:
    """Return the hardware that decides a run's time: the GPU, or the processor and threads."""
    here = record.environment
    return here.gpu or f"{here.cpu}, {record.metrics['settings']['threads']} threads"


def answers_right(line: ArmSeeds, seeds: Sequence[int | None]) -> list[tuple[int, ...]]:
    """Return for each final question, for each seed, whether the answer is right: 1 or 0.

    Empty if a record does not tell.
    """
    found = {record.seed: record.metrics for record in line.records}
    if not all("final_right" in found[seed] for seed in seeds):
        return []
    bits = ((found[seed]["final_right"], found[seed]["items"]["final"]) for seed in seeds)
    return list(
        zip(
            *(map(int, f"{int(hexed, 16):0{4 * len(hexed)}b}"[:n]) for hexed, n in bits),
            strict=True,
        )
    )


def running_maximum(record: Record, axis: str) -> list[tuple[float, float]]:
    """Return (value on the axis, highest accuracy in per cent so far) at each evaluation."""
    best = accumulate(record.metrics["accuracy"], max)
    return [(x, 100 * y) for x, y in zip(record.metrics[axis], best, strict=True)]


def value_at(points: Sequence[tuple[float, float]], x: float) -> float:
    """Return the height at ``x`` of the step function that changes at each of ``points``."""
    heights = [height for place, height in points if place <= x]
    return heights[-1] if heights else points[0][1]


def first_reached(points: Sequence[tuple[float, float]], height: float) -> float | None:
    """Return where ``points`` first reach ``height``, with linear interpolation between them.

    ``None`` if they never reach it.
    """
    if points[0][1] >= height:
        return points[0][0]
    for (before, low), (after, high) in pairwise(points):
        if high >= height:
            return before + (after - before) * (height - low) / (high - low)
    return None


def _setting(name: str, dataset: str, records: Sequence[Record]) -> TaskRuns:
    runs = list(of_kind(records, "run"))
    keys = dict.fromkeys((run.point["arm"], run.point["model"]) for run in runs)
    lines = (
        _line(runs, arm, model)
        for arm, model in sorted(keys, key=lambda key: (ARMS.index(key[0]), key[1]))
    )
    # B and N are part of a plan's point, so records may hold an earlier choice with other values
    too_large = {set_up(run) for run in runs if "out_of_memory" in run.metrics}
    chosen = [
        record
        for record in of_kind(records, "plan")
        if record.metrics["chosen"] or _sets_budget(record) or set_up(record) in too_large
    ]
    chosen.sort(key=lambda record: record.utc)
    plans = {(plan.point["arm"], plan.point["model"]): plan for plan in chosen}
    return TaskRuns(
        name,
        profile=runs[0].profile,
        dataset=dataset,
        lines=tuple(line for line in lines if line.records),
        plans=tuple(plans.values()),
        grids=tuple(of_kind(records, "grid")),
        zero_shot=tuple(of_kind(records, "zero_shot")),
    )


def set_up(record: Record) -> tuple[Any, ...]:
    """Return what a plan and the runs made by it have in common."""
    names = ("setting", "arm", "model", "batch", "context")
    return tuple(record.point.get(name) for name in names)


def _sets_budget(plan: Record) -> bool:
    """Return whether the budget is this plan's peak: BP's, also where a run trains other arms."""
    peak = plan.metrics.get("measured_peak_bytes")
    return peak is not None and peak == plan.metrics.get("budget_bytes")


def _line(runs: Iterable[Record], arm: Arm, model: str) -> ArmSeeds:
    """Return one line: its runs with an evaluation and the same settings as the newest."""
    here = [r for r in runs if (r.point["arm"], r.point["model"]) == (arm, model)]
    here = [r for r in here if r.metrics.get("accuracy")]
    if not here:
        return ArmSeeds(arm, model, ())
    alike, others = of_newest_settings(here, _settings)
    left_out = {record.seed for record in others} - {record.seed for record in alike}
    return ArmSeeds(arm, model, tuple(alike), len(left_out))


def _settings(record: Record) -> dict[str, Any]:
    """Return a run's settings; fields that older records lack get the values of that time."""
    settings: dict[str, Any] = record.metrics["settings"]
    return {"noise": "torch", "native_passes": False, "steps": 0, **settings}
