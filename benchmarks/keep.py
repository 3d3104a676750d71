"""Keep the ratios of pytest-benchmark files as the table that people read.

    python benchmarks/keep.py BENCHMARKS.json ... docs/speed.md

Benchmarks whose arms took turns have ``ratios``, and those of memory ``peak_bytes``; plain times
depend on the machine and what else it did, and are left out. Of a benchmark that is in several
files the last counts.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from repro.core import atomic

HEAD = """# Speed and memory of the suite's own steps

Written by `benchmarks/keep.py` from runs of `tox -e bench`. The arms of a ratio took turns in one
run, so that what else the machine did fell on all of them alike; a ratio is the median over turns.
`benchmarks/` says what each arm does.
"""


def table(runs: Sequence[dict[str, Any]]) -> str:
    """Return the ratios and peaks of all runs as Markdown."""
    made = {
        benchmark["fullname"]: (benchmark, _commit(benchmark))
        for run in runs
        for benchmark in run["benchmarks"]
    }
    lines = [HEAD, *dict.fromkeys(map(_made, runs)), "", "| Benchmark | Compared | Result | By |"]
    lines.append("|---|---|---|---|")
    for _, (benchmark, commit) in sorted(made.items()):
        name = benchmark["name"].removeprefix("test_").replace("_", " ")
        lines += [
            f"| {name} | {what} | {value} | {commit} |" for what, value in _results(benchmark)
        ]
    return "\n".join(lines) + "\n"


def _made(run: dict[str, Any]) -> str:
    """Say when, by what and where a run was made."""
    benchmark = run["benchmarks"][0]
    environment = benchmark["extra_info"]["environment"]
    return (
        f"Made {run['datetime'][:10]} by commit {_commit(benchmark)} on "
        f"{environment['cpu']}, PyTorch {environment['versions']['torch']}."
    )


def _commit(benchmark: dict[str, Any]) -> str:
    return str(benchmark["extra_info"]["environment"]["commit"])[:7]


def _results(benchmark: dict[str, Any]) -> list[tuple[str, str]]:
    info = benchmark["extra_info"]
    ratios = [(what, f"{value:.2f}") for what, value in info.get("ratios", {}).items()]
    peak = info.get("peak_bytes")
    return [*ratios, ("peak", f"{peak / 2**20:.2f} MiB")] if peak else ratios


def main(arguments: list[str]) -> int:
    """Write the table of all files named but the last to that; return 2 on wrong usage."""
    if len(arguments) < 2:
        sys.stderr.write("usage: python benchmarks/keep.py BENCHMARKS.json ... TABLE.md\n")
        return 2
    *runs, page = map(Path, arguments)
    made = table([json.loads(run.read_text()) for run in runs])
    atomic.replace(page, made.encode())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
