"""The provenance of each number: file, code, machine, time, and the command that reproduces it."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from repro.artifacts.base import Artifact
from repro.core.units import GB, format_seconds
from repro.measurement.environment import commit_label
from repro.measurement.records import Record, read_run, read_runs
from repro.report.commands import profile_and_options
from repro.report.summary import recorded_seconds, seconds_of


@dataclass(frozen=True)
class Made:
    """A current record."""

    number: int
    """Number by which the page refers to the record."""
    file: str
    record: Record

    @property
    def anchor(self) -> str:
        """Identifier of the record on the page."""
        return f"record-{self.number}"

    @property
    def what(self) -> str:
        """Kind and coordinates of the result."""
        point = self.record.point
        where = [f"{name} {value}" for name, value in point.items() if value is not None]
        return f"{self.record.kind}: {', '.join(where)}" if where else self.record.kind

    @property
    def utc(self) -> str:
        """Time of computation; a training run reused from another run keeps its own."""
        return str(self._trained.get("utc", self.record.utc))

    @property
    def commit(self) -> str:
        """Commit of the code that computed it."""
        return commit_label(*self.record.code)

    @property
    def duration(self) -> str:
        """Duration of the computation, if recorded."""
        total = seconds_of(self.record)
        return "" if total is None else format_seconds(total)

    @property
    def _trained(self) -> dict[str, Any]:
        trained: dict[str, Any] = self.record.metrics.get("trained") or {}
        return trained


@dataclass(frozen=True)
class RunFile:
    """A file of records, at least one of them current."""

    name: str
    profile: str
    command: str
    """Command that reproduces the file's records."""
    count: int
    current: int
    """Number of its records that are current."""
    utc: str
    """Time at which its last record was written."""
    commit: str
    machine: str
    software: str
    duration: str
    """Sum of the recorded durations; empty if there are none."""


def current_records(paths: Sequence[Path]) -> list[Made]:
    """Return the current records in the files ``paths``, each with its file's name."""
    # as text, since records hold dictionaries and cannot be members of a set
    current = {msgspec.json.encode(record) for record in read_runs(paths)}
    found = [(path.name, record) for path in paths for record in read_run(path)]
    kept = [(file, record) for file, record in found if msgspec.json.encode(record) in current]
    return [Made(number, *each) for number, each in enumerate(kept, start=1)]


def runs(artifact: Artifact, paths: Sequence[Path], made: Sequence[Made]) -> list[RunFile]:
    """Describe each file of ``paths``."""
    found = []
    for path in paths:
        records = read_run(path)
        last = records[-1]
        here, total = last.environment, recorded_seconds(records)
        trained = [
            record.metrics.get("trained", {"threads": record.environment.threads})
            for record in records
        ]  # older records of training runs lack the number of threads
        threads = sorted({int(one["threads"]) for one in trained if "threads" in one})
        machine = [
            here.cpu,
            f"{here.cores} cores",
            here.cpu_capability,
            f"{here.memory_bytes / GB:.0f} GB",
            here.gpu or "no GPU",
        ]
        if threads:
            noun = "thread" if threads == [1] else "threads"
            machine.insert(-1, f"{' or '.join(map(str, threads))} {noun}")
        run = RunFile(
            name=path.name,
            profile=last.profile,
            command=command(artifact, last),
            count=len(records),
            current=sum(one.file == path.name for one in made),
            utc=last.utc,
            commit=commit_label(here.commit, here.dirty),
            machine=", ".join(filter(None, machine)),
            software=f"Python {here.python}, torch {here.versions['torch']}, {here.system}",
            duration="" if total is None else format_seconds(total),
        )
        found.append(run)
    return found


def command(artifact: Artifact, record: Record) -> str:
    """Return the command line that repeats the run of ``record`` with the present code.

    Options are given where the configuration differs from the present profile.
    """
    profile, options = profile_and_options(artifact, record)
    return shlex.join(["repro", "run", artifact.slug, "--profile", profile, *options])
