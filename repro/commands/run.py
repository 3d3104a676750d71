"""``repro run SLUG`` and ``repro sweep SLUG``: run an artifact, or only its missing training runs.

Their options are the fields of the artifact's configuration and of the two classes here.
"""

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from repro.artifacts.index import SLUGS, load
from repro.commands.options import CommonOptions, Configuration, in_format, parse
from repro.core.errors import UsageError
from repro.core.paths import results_dir
from repro.core.units import GB
from repro.core.validation import require_positive, require_positive_int

if TYPE_CHECKING:
    from repro.execution.schedule import Executor


@dataclass(frozen=True)
class RunOptions(CommonOptions[Configuration]):
    """Options of ``repro run``."""

    only_missing: bool = False
    """Take results from the earlier records of this profile; compute and record only the others.
    For mezo_fig4, zo_methods and the artifacts that repro sweep takes."""
    report: bool = False
    """Also draw the figures and build the notebook, in a directory next to the records."""
    save_models: Path | None = None
    """Also save each language model that this command trains in a directory here, in the format of
    transformers; mezo_fig4 only."""


@dataclass(frozen=True)
class SweepOptions(CommonOptions[Configuration]):
    """Options of ``repro sweep``."""

    executor: Literal["local", "ray"] = "local"
    """Where training runs execute: in processes of this machine, or on a Ray cluster."""
    address: str | None = None
    """Ray cluster: auto for this machine's (as by default), local for a new one, or HOST:PORT."""
    workers: int | None = None
    """Maximum number of training runs at a time; None: one for every --threads cores."""
    threads: int = 1
    """Threads of each training run; on Ray also its CPUs."""
    memory: float | None = None
    """Memory in GB for all training runs together on this machine; None: the free memory."""
    gpus_per_run: float | None = None
    """Share of a GPU for a training run on cuda; None: 1/16."""
    again: bool = False
    """Write all results again, whatever is recorded; the cache's finished runs are not repeated."""
    dry_run: bool = False
    """List the finished, unfinished and missing training runs, and train none."""

    def __post_init__(self) -> None:
        """Validate the options."""
        require_positive_int("threads", self.threads)
        if self.workers is not None:
            require_positive_int("workers", self.workers)
        if self.memory is not None:
            require_positive("memory", self.memory)
        if self.gpus_per_run is not None:
            require_positive("gpus-per-run", self.gpus_per_run)
            if self.gpus_per_run > 1:
                raise UsageError(
                    f"--gpus-per-run {self.gpus_per_run:g}: must be at most 1, as a run uses one "
                    "GPU"
                )
        ray = self.executor == "ray"
        cuda = getattr(self.config, "device", None) == "cuda"
        for name, value, has_effect, needed in (
            ("address", self.address, ray, "without --executor ray; add it"),
            ("workers", self.workers, not ray, "with --executor ray; drop one of them"),
            ("memory", self.memory, not ray, "with --executor ray; drop one of them"),
            ("gpus-per-run", self.gpus_per_run, cuda, "without --device cuda; add it"),
        ):
            if value is not None and not has_effect:
                raise UsageError(f"--{name} {value} has no effect {needed}, or leave --{name} out")


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the two commands to the parser."""
    run = subparsers.add_parser(
        "run",
        help="run one artifact; repro run SLUG --help lists its options",
        description="Run one artifact and write its records. repro run SLUG --help lists its "
        "options.",
        usage="repro run SLUG [--profile P] [--out DIR] [--report] [options of the artifact]",
    )
    sweep = subparsers.add_parser(
        "sweep",
        help="train the missing runs of an artifact, on this machine or on a Ray cluster",
        usage="repro sweep SLUG [--profile P] [--dry-run] [--executor ray --address A] [...]",
        description="Train the runs of an artifact that have no record yet, here or on a Ray "
        "cluster. repro sweep SLUG --help lists its options.",
    )
    commands: tuple[tuple[Any, Callable[[argparse.Namespace], int], str], ...] = (
        (run, _run, "name of an artifact, as in repro list"),
        (sweep, _sweep, "name of an artifact that trains; see docs/sweep.md"),
    )
    for parser, execute, slug in commands:
        # optional, so that our own message can say which artifacts there are
        parser.add_argument("slug", nargs="?", metavar="SLUG", help=slug)
        # parsed by tyro, once the artifact is known, whose configuration gives the options
        parser.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
        parser.set_defaults(
            execute=execute,
            next_step=_NEXT.format(""),
            if_unrecognized="; give the artifact before its options, as in repro run SLUG "
            "--profile quick",
        )


_ALL_RECORDED = "Nothing to do: all results are recorded"
_NEXT = "repro report {{slug}}{0} draws its figures; repro open {{slug}}{0} shows them"


def _next_step(out: Path) -> str:
    """Return ``next_step`` for records written to ``out``."""
    return _NEXT.format("" if out == results_dir() else f" --results {shlex.quote(in_format(out))}")


def _run(args: argparse.Namespace) -> int:
    """Run the artifact and print the path of its records."""
    if args.slug is None:
        msg = "give the artifact to run, as in: repro run mezo_fig3; repro list shows all"
        raise UsageError(msg)
    artifact = load(args.slug)
    options = parse(RunOptions, "repro run", artifact, args.rest)
    if options.only_missing and not artifact.takes_recorded:
        msg = f"{args.slug} cannot take results from earlier records; leave out --only-missing"
        raise UsageError(msg)
    if options.save_models and not artifact.saves_models:
        raise UsageError(f"{args.slug} saves no models; leave out --save-models, or run mezo_fig4")
    from repro.harness import run_artifact
    from repro.measurement.records import CUSTOM, DIRTY

    path = run_artifact(
        artifact,
        options.profile,
        options.config,
        options.out,
        again=not options.only_missing,
        models=options.save_models,
    )
    sys.stdout.write(f"{path or _ALL_RECORDED}\n")
    if path and path.stem.endswith(DIRTY):
        sys.stderr.write(
            "The code has uncommitted changes, so nobody can reproduce these records: "
            "--only-missing and repro sweep do not reuse them.\n"
        )
    if options.report and path:
        _report(artifact.slug, path)
    args.next_step = _next_step(options.out)
    if path and path.name.startswith(CUSTOM) and not artifact.reads_custom and not options.report:
        args.next_step = "the same command with --report draws the figures of a custom run"
    elif options.report and path:
        args.next_step = "repro claims lists the published statements"
    return 0


def _sweep(args: argparse.Namespace) -> int:
    """Train the missing runs and print the path of the new records."""
    if args.slug is None:
        raise UsageError(f"give the artifact to sweep: {_that_train()}")
    artifact = load(args.slug)
    if not artifact.can_sweep:
        why = "has no training runs to sweep; use repro run"
        if artifact.takes_recorded:
            why = "has training runs whose times are results; use repro run --only-missing"
        raise UsageError(f"{args.slug} {why}, or sweep one of {_that_train()}")
    options = parse(SweepOptions, "repro sweep", artifact, args.rest)
    from repro.execution.schedule import DryRunExecutor
    from repro.harness import dry_run_artifact, run_artifact

    asked = artifact, options.profile, options.config, options.out
    with _executor(options) as executor:
        if options.dry_run:
            seen = DryRunExecutor(executor.environment, options.threads)
            before = dry_run_artifact(*asked, seen, again=options.again)
            sys.stdout.write("".join(f"{line}\n" for line in seen.lines()))
            sys.stdout.write(f"results recorded before: {before}\n")
            args.next_step = "the same command without --dry-run trains the missing runs"
            return 0
        path = run_artifact(*asked, executor, again=options.again)
    args.next_step = _next_step(options.out)
    sys.stdout.write(f"{path or _ALL_RECORDED + '; --again writes them again'}\n")
    return 0


def _report(slug: str, run: Path) -> None:
    from repro.report.claims_table import run_rows
    from repro.report.figures import draw
    from repro.report.notebooks import build
    from repro.report.terminal import claims_text

    directory = run.with_suffix("")
    for path in draw(slug, [run], directory):
        sys.stdout.write(f"{path}\n")
    for path in build([(slug, [run], directory / f"{slug}.ipynb")]):
        sys.stdout.write(f"{path}\n")
    if rows := run_rows(slug, [run]):
        sys.stdout.write(claims_text(rows))


def _that_train() -> str:
    return ", ".join(slug for slug in SLUGS if load(slug).can_sweep)


@contextmanager
def _executor(options: Any) -> "Iterator[Executor]":  # noqa: ANN401 - of any artifact
    from repro.execution.local import GPUS_PER_RUN, LocalExecutor

    share = options.gpus_per_run or GPUS_PER_RUN
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
        gpus_per_run=share,
    )
