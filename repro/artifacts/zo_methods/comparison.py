"""Group the recorded runs by task and method, for the figure and the tables."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import numpy as np

from repro.artifacts.zo_methods.arms import ARMS, ComparedMethod
from repro.claims.index import CLAIMS
from repro.claims.statistics import MeanEstimate, estimate
from repro.claims.trained import caveat, of_newest_settings
from repro.measurement.records import Record, of_kind, rank

TITLES = {
    "mnist": "LeNet-5 on MNIST",
    "fashion_mnist": "LeNet-5 on Fashion-MNIST",
    "sst2": "SST-2",
    "yesno-facts": "generated questions",
}
"""Names of the tasks in titles; others keep their own."""


@dataclass(frozen=True)
class MethodSeeds:
    """All seeds of one method on one task."""

    task: str
    name: str
    """Name of the method in ``ARMS``."""
    records: tuple[Record, ...]
    """The runs that came to their end, with the settings of the newest."""
    caveat: str
    """How many seeds diverged, and how many were left out; empty if none."""
    step: Record
    """The cost of a step."""

    @property
    def arm(self) -> ComparedMethod:
        """The method."""
        return ARMS[self.name]

    @property
    def lr(self) -> float:
        """The learning rate of the runs."""
        return float(self.records[0].metrics["settings"]["lr"])

    @property
    def seconds(self) -> float:
        """CPU time of a training run in seconds, mean over seeds."""
        return fmean(record.metrics["cpu_seconds"][-1] for record in self.records)

    @property
    def processors(self) -> frozenset[str]:
        """The processors of the runs."""
        return frozenset(record.environment.cpu for record in self.records)

    @property
    def steps(self) -> int:
        """Steps of a training run."""
        return int(self.records[0].metrics["steps"][-1])

    @property
    def forwards(self) -> float:
        """Forward passes of a training run."""
        return float(self.records[0].metrics["forward_passes"][-1])

    def final(self, value: Literal["accuracy", "loss"] = "accuracy") -> list[float]:
        """Return the accuracy of each seed at the end, in per cent, or its loss."""
        unit = 100 if value == "accuracy" else 1
        return [unit * record.metrics[value][-1] for record in self.records]

    def at_time(self, seconds: float) -> MeanEstimate:
        """Return the accuracy after that CPU time, interpolated between evaluations."""
        return estimate(
            [
                float(np.interp(seconds, r.metrics["cpu_seconds"], r.metrics["accuracy"])) * 100
                for r in self.records
            ]
        )

    def published_gain(self) -> float | None:
        """Return the published gain over clipped MeZO, in points; ``None`` if there is none.

        Table 1 of the ElasticZO paper has the accuracies of both, for LeNet-5 in float32.
        """
        own, mezo = (f"B-T1-{self.task}-fp32-{row}" for row in (self.arm.published, "full_zo"))
        if self.name == "mezo" or own not in CLAIMS:
            return None
        return CLAIMS[own].published - CLAIMS[mezo].published


@dataclass(frozen=True)
class TaskComparison:
    """All methods on one task and device, as the highest profile trained them."""

    task: str
    device: str
    profile: str
    lines: tuple[MethodSeeds, ...]
    """The methods with a run that came to its end, by their accuracy at the end, the best first."""
    failed: tuple[str, ...]
    """Names of the methods without such a run."""
    grids: tuple[Record, ...]

    @property
    def name(self) -> str:
        """Name of the task, of the network if it is LeNet-5, and of the kind of device."""
        return f"{TITLES.get(self.task, self.task)}, {'CPU' if self.device == 'cpu' else 'GPU'}"

    @property
    def title(self) -> str:
        """Its name and the profile."""
        return f"{self.name} ({self.profile})"

    @property
    def timed(self) -> tuple[MethodSeeds, ...]:
        """The methods whose times may be compared: those that most ran on the same processor.

        There is none on a GPU, which the runs share.
        """
        on_one = [line for line in self.lines if len(line.processors) == 1]
        if self.device != "cpu" or not on_one:
            return ()
        ((most, _),) = Counter(line.processors for line in on_one).most_common(1)
        return tuple(line for line in on_one if line.processors == most)

    @property
    def equal_time(self) -> float:
        """CPU time of the run that takes the least, in seconds: every timed method has as much."""
        return min(line.seconds for line in self.timed)


def comparisons(records: Sequence[Record]) -> Iterator[TaskComparison]:
    """Yield the comparison of each task on each device.

    Methods are comparable only if one profile trained them, so lower profiles are left out.
    """
    for task, device in dict.fromkeys(map(_task_and_device, of_kind(records, "run"))):
        here = [record for record in records if _task_and_device(record) == (task, device)]
        profile = max((r.profile for r in of_kind(here, "run")), key=rank)
        here = [record for record in here if record.profile == profile]
        runs = list(of_kind(here, "run"))
        steps = {record.point["arm"]: record for record in of_kind(here, "step")}
        lines, failed = [], []
        for name in ARMS:
            mine = [record for record in runs if record.point["arm"] == name]
            if not mine:
                continue
            alike, others = of_newest_settings(mine, lambda record: record.metrics.get("settings"))
            ended = [record for record in alike if not record.metrics["divergence"]]
            if ended:
                diverged = {record.seed for record in alike if record.metrics["divergence"]}
                told = caveat(len(alike), diverged, others)
                lines.append(MethodSeeds(task, name, tuple(ended), told, steps[name]))
            else:
                failed.append(name)
        lines.sort(key=lambda line: fmean(line.final()), reverse=True)
        grids = tuple(of_kind(here, "grid"))
        yield TaskComparison(task, device, profile, tuple(lines), tuple(failed), grids)


def _task_and_device(record: Record) -> tuple[str, str]:
    return record.point["task"], record.point["device"]
