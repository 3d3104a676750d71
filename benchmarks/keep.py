"""Keep the ratios of a pytest-benchmark file as the table that people read.

    python benchmarks/keep.py BENCHMARKS.json docs/speed.md

Benchmarks whose arms took turns have ``ratios``, and those of memory ``peak_bytes``; plain times
depend on the machine and what else it did, and are left out.
"""

import json
import sys
from pathlib import Path
from typing import Any

from repro.core import atomic

HEAD = """# Speed and memory of the suite's own steps

Written by `benchmarks/keep.py` from a run of `tox -e bench`. The arms of a ratio took turns in one
run, so that what else the machine did fell on all of them alike; a ratio is the median over turns.
`benchmarks/` says what each arm does.
"""


def table(run: dict[str, Any]) -> str:
    """Return the run's ratios and peaks as Markdown."""
    benchmarks = sorted(run["benchmarks"], key=lambda benchmark: str(benchmark["fullname"]))
    environment = next(b["extra_info"]["environment"] for b in benchmarks)
    lines = [
        HEAD,
        f"Made {run['datetime'][:10]} by commit {str(environment['commit'])[:7]} on "
        f"{environment['cpu']}, PyTorch {environment['versions']['torch']}.",
        "",
        "| Benchmark | Compared | Result |",
        "|---|---|---|",
    ]
    for benchmark in benchmarks:
        name = benchmark["name"].removeprefix("test_").replace("_", " ")
        lines += [f"| {name} | {what} | {value} |" for what, value in _results(benchmark)]
    return "\n".join(lines) + "\n"


def _results(benchmark: dict[str, Any]) -> list[tuple[str, str]]:
    info = benchmark["extra_info"]
    ratios = [(what, f"{value:.2f}") for what, value in info.get("ratios", {}).items()]
    peak = info.get("peak_bytes")
    return [*ratios, ("peak", f"{peak / 2**20:.2f} MiB")] if peak else ratios


def main(arguments: list[str]) -> int:
    """Write the table of the first file named to the second; return 2 on wrong usage."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python benchmarks/keep.py BENCHMARKS.json TABLE.md\n")
        return 2
    made = table(json.loads(Path(arguments[0]).read_text()))
    atomic.replace(Path(arguments[1]), made.encode())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
