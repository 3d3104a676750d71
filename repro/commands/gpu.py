"""``repro gpu``: run the measurements that need a GPU."""

import argparse
import sys
from pathlib import Path
from typing import Any

from repro.core.errors import UsageError
from repro.core.paths import results_dir
from repro.core.units import format_bytes
from repro.core.validation import require_positive, unknown
from repro.data.catalog import load_set


def add_parser(subparsers: Any) -> None:  # noqa: ANN401 - argparse does not publish the type
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "gpu",
        help="run the measurements that need a GPU, within a time limit",
        description="Run the measurements that need a GPU (jobs), those worth the most a "
        "minute first. A job starts only if its estimated time fits into the remaining minutes. "
        "Run the same command again to run the rest; the tests run every time.",
    )
    parser.add_argument("--minutes", type=float, default=20, help="time limit (default: 20)")
    parser.add_argument(
        "--out", type=Path, default=None, help="directory of the records (default: results)"
    )
    parser.add_argument("--only", nargs="+", metavar="JOB", help="run only these jobs")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="list the jobs with their minutes and memory, and run none",
    )
    parser.set_defaults(
        execute=execute, next_step="repro report draws the figures from the new records"
    )


def execute(args: argparse.Namespace) -> int:
    """Run or list the jobs; return 0 if all requested jobs are done."""
    from repro import gpu

    require_positive("minutes", args.minutes)
    jobs = gpu.ordered()
    if args.only:
        names = {job.name: job for job in jobs}
        for name in args.only:
            if name not in names:
                raise UsageError(unknown("GPU job", name, names, "repro gpu --dry-run"))
        jobs = [job for job in jobs if job.name in args.only]
    if args.dry_run:
        return _list(jobs, args.minutes)
    done = gpu.run_session(args.minutes, args.out or results_dir(), jobs, _say)
    return 0 if done else 1


def _list(jobs: Any, minutes: float) -> int:  # noqa: ANN401 - of repro.gpu, which is imported late
    from repro import gpu

    remaining = minutes
    for job in jobs:
        is_done = job.minutes <= remaining  # a later job may fit where this one does not
        remaining -= job.minutes if is_done else 0
        memory = "" if job.largest is None else format_bytes(gpu.planned_bytes(**job.largest))
        fits = "" if is_done else "  (not within --minutes)"
        _say(f"{job.name:<15} {job.minutes:4.1f} min {memory:>8}  {job.shows}{fits}")
    total = sum(job.minutes for job in jobs)
    _say(f"{'total':<15} {total:4.1f} min on an H100; memory as the planner predicts it")
    _say(
        f"copy to the GPU machine: {', '.join(gpu.SOURCE)} ({format_bytes(gpu.source_bytes())}) "
        f"and, if they are missing, the packages {', '.join(gpu.PACKAGES)}; the job tests also "
        f"needs {', '.join(gpu.TEST_PACKAGES)}"
    )
    for job in jobs:
        if job.data:
            size = format_bytes(sum(load_set(name).size for name in job.data))
            names = " ".join(job.data)
            _say(f"{job.name} also needs {size} of data: repro data fetch {names}")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
