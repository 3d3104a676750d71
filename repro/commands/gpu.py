"""``repro gpu``: run on a GPU what a CPU cannot show."""

import argparse
import difflib
import sys
from pathlib import Path
from typing import Any

from repro.core.errors import UsageError
from repro.core.paths import results_dir
from repro.core.units import format_bytes
from repro.core.validation import require_positive


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "gpu",
        help="run on a GPU what a CPU cannot show, as much as fits in the time",
        description="Run the GPU jobs that fit in the time, those of most value first. Finished "
        "jobs are recorded; run the same command again to do the rest.",
    )
    parser.add_argument("--minutes", type=float, default=20, help="time to use (default 20)")
    parser.add_argument("--out", type=Path, default=None, help="directory of the results")
    parser.add_argument("--only", nargs="+", metavar="JOB", help="run these jobs alone")
    parser.add_argument(
        "--dry-run", action="store_true", help="list the jobs with minutes and memory; run nothing"
    )
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    """Run or list the jobs; the exit status is 0 if all that were asked for are done."""
    from repro import gpu

    require_positive("minutes", args.minutes)
    jobs = gpu.ordered()
    if args.only:
        names = {job.name: job for job in jobs}
        for name in args.only:
            if name not in names:
                near = difflib.get_close_matches(name, names, n=1) or list(names)
                msg = f"no GPU job {name!r}; did you mean {' or '.join(near)}?"
                raise UsageError(msg)
        jobs = [job for job in jobs if job.name in args.only]
    if args.dry_run:
        return _list(jobs, args.minutes)
    done = gpu.run_session(args.minutes, args.out or results_dir(), jobs, _say)
    return 0 if done else 1


def _list(jobs: Any, minutes: float) -> int:  # noqa: ANN401 - of repro.gpu, which is imported late
    from repro import gpu

    passed = 0.0
    for job in jobs:
        passed += job.minutes
        memory = "" if job.largest is None else format_bytes(gpu.planned_bytes(**job.largest))
        fits = "" if passed <= minutes else "  (after the time is up)"
        _say(f"{job.name:<14} {job.minutes:4.1f} min {memory:>8}  {job.shows}{fits}")
    _say(f"{'in all':<14} {passed:4.1f} min on an H100; memory as the planner expects it")
    _say(
        f"copy there: {', '.join(gpu.SOURCE)} ({format_bytes(gpu.source_bytes())}) and, if they "
        f"are missing, the packages {', '.join(gpu.PACKAGES)}"
    )
    _say("table1-int8 also needs the data sets: repro data fetch mnist fashion_mnist")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
