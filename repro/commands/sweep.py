"""``repro sweep SLUG``: run the cells of an artifact on this machine or on a cluster."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from repro.artifacts.index import SLUGS, load
from repro.commands.options import CommonOptions, Configuration, parse
from repro.core.errors import UsageError
from repro.core.units import GB
from repro.core.validation import require_positive, require_positive_int

if TYPE_CHECKING:
    from repro.execution.executor import Executor


@dataclass(frozen=True)
class SweepOptions(CommonOptions[Configuration]):
    """What ``repro sweep`` can be told."""

    executor: Literal["local", "ray"] = "local"
    """Where cells run: in processes of this machine, or on a Ray cluster. (What trains them is
    --engine.)"""
    address: str | None = None
    """Of the Ray cluster: auto (the default), the one of this machine; local, a new one on it;
    HOST:PORT."""
    workers: int | None = None
    """Cells at a time on this machine, memory allowing; by default one for every --threads cores.
    Ray takes what the cluster has."""
    threads: int = 1
    """Threads, and on Ray CPUs, of each cell."""
    memory: float | None = None
    """GB that cells may take together on this machine; by default what is free."""
    gpus_per_cell: float | None = None
    """Share of a GPU that a cell on cuda takes; by default 1/16."""
    again: bool = False
    """Also make again what stands in earlier records."""
    dry_run: bool = False
    """List the cells with what is done, begun and to do; run nothing."""

    def __post_init__(self) -> None:
        """Refuse what no sweep can have."""
        require_positive_int("threads", self.threads)
        if self.workers is not None:
            require_positive_int("workers", self.workers)
        if self.memory is not None:
            require_positive("memory", self.memory)
        if self.gpus_per_cell is not None:
            require_positive("gpus-per-cell", self.gpus_per_cell)
            if self.gpus_per_cell > 1:
                msg = f"gpus-per-cell = {self.gpus_per_cell:g}: a cell runs on one GPU: at most 1"
                raise UsageError(msg)
        self._refuse_what_would_do_nothing()

    def _refuse_what_would_do_nothing(self) -> None:
        ray = self.executor == "ray"
        cuda = getattr(self.config, "device", None) == "cuda"
        for name, value, heeded, of in (
            ("address", self.address, ray, "a Ray cluster: add --executor ray"),
            ("workers", self.workers, not ray, "cells on this machine: drop --executor ray"),
            ("memory", self.memory, not ray, "cells on this machine: drop --executor ray"),
            ("gpus-per-cell", self.gpus_per_cell, cuda, "cells on a GPU: add --device cuda"),
        ):
            if value is not None and not heeded:
                msg = f"{name} = {value} would do nothing: it is of {of}, or leave --{name} out"
                raise UsageError(msg)


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "sweep",
        help="run an artifact's cells on this machine or on a Ray cluster, but for those recorded",
        usage="repro sweep SLUG [--profile P] [--dry-run] [--executor ray --address A] [...]",
        description="Of each artifact: repro sweep SLUG --help.",
    )
    parser.add_argument(
        "slug", nargs="?", metavar="SLUG", help="an artifact that trains; see docs/sweep.md"
    )
    parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(execute=execute, next_step="repro report {slug} draws the figures")


def execute(args: argparse.Namespace) -> int:
    """Run what is not done and print where the new records are."""
    if args.slug is None:
        msg = f"give the artifact to run: {_with_cells()}"
        raise UsageError(msg)
    artifact = load(args.slug)
    if not artifact.trains_cells:
        msg = f"{args.slug} has no cells: use repro run; those with cells: {_with_cells()}"
        raise UsageError(msg)
    options = parse(SweepOptions, "repro sweep", artifact, args.rest)
    from repro.execution.survey import Survey
    from repro.harness import survey_artifact, sweep_artifact

    of = artifact, options.profile, options.config, options.out
    with _executor(options) as executor:
        if options.dry_run:
            survey = Survey(executor.environment, options.threads)
            before = survey_artifact(*of, survey, again=options.again)
            sys.stdout.write("".join(f"{line}\n" for line in survey.lines()))
            sys.stdout.write(f"results recorded before: {before}\n")
            return 0
        path = sweep_artifact(*of, executor, again=options.again)
    sys.stdout.write(f"{path or 'nothing to do: everything is recorded; see --again'}\n")
    return 0


def _with_cells() -> str:
    return ", ".join(slug for slug in SLUGS if load(slug).trains_cells)


@contextmanager
def _executor(options: Any) -> "Iterator[Executor]":  # noqa: ANN401 - of any artifact
    from repro.execution.local import GPUS_PER_CELL, LocalExecutor

    share = options.gpus_per_cell or GPUS_PER_CELL
    if options.executor == "ray":
        from repro.execution.cluster import cluster

        gpus = share if options.config.device == "cuda" else 0
        address = options.address or "auto"
        with cluster(address, threads=options.threads, gpus=gpus) as executor:
            yield executor
        return
    from repro.measurement.environment import capture

    here = capture()
    yield LocalExecutor(
        here,
        workers=options.workers or max(1, here.cores // options.threads),
        threads=options.threads,
        memory=None if options.memory is None else int(options.memory * GB),
        gpus_per_cell=share,
    )
