"""Keep the ratios of pytest-benchmark files as the tables that people read.

    python benchmarks/keep.py BENCHMARKS.json ... docs/speed.md

Benchmarks whose arms took turns have ``ratios``, and those of memory ``peak_bytes``; plain times
depend on the machine and what else it did, and are left out. Of a benchmark that is in several
files the last counts.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from repro.core import atomic

HEAD = """# Speed and memory of the suite's own steps

These tables compare the time and memory of training steps. The networks are LeNet-5 (28 x 28
images) and, where a heading says so, PointNet or the language model SmolLM2-135M.
`benchmarks/keep.py` writes the tables from runs of `tox -e bench`, one test file at a time; a
section with another source names it.
The two programs of a ratio ran alternately, so other load on the machine affected both alike. A
ratio is the median over the pairs of timings. B is the batch size.

A row `a/b` gives the time of a divided by the time of b: above 1, b is faster. The rows use these
names:

- *two forwards*: two forward passes;
- *plain*: MeZO as a plain PyTorch loop that draws whole tensors of noise;
- *published*: the widely used loop of Malladi et al. 2023, rewritten here from its description;
- *mezo*: this suite's MeZO in PyTorch, with PyTorch's noise;
- *mezo, engine's noise*: *mezo* with the noise of the C++ engine;
- *mezo, no engine*: *mezo* without the C++ engine. In the other *mezo* rows the engine restores
  float16 and bfloat16 weights where the restore is exact;
- *engine*: the C++ engine alone;
- *three perturbations*: three times the measured time of one perturbation of all weights, without
  forward passes;
- *share of peak*: the arithmetic rate of the step for each thread, divided by the rate that a loop
  of multiplications and additions reaches on the same processor;
- *full_zo*, *cls2*, *cls1*, *full_bp*: the methods of ElasticZO's Table 1 (Full ZO, ZO-Feat-Cls2,
  ZO-Feat-Cls1, Full BP);
- *int8*, *int8\\**: ElasticZO-INT8 with the loss in floating point, and in integers only.

*exact* and *rounded* say how *mezo* restores the weights (`restore="exact"` or `"rounded"`). The
programs that it is compared with always round.
"""


_NAMES = {"mezo": "MeZO", "pointnet": "PointNet", "pytorch": "PyTorch", "zo": "ZO"}


def page(runs: Sequence[dict[str, Any]]) -> str:
    """Return the ratios and peaks of all runs as Markdown: a table for each test."""
    kept = {one["fullname"]: one for run in runs for one in run["benchmarks"] if _results(one)}
    return "\n".join([HEAD, *map(_section, _by_test(kept.values()))])


def main(arguments: list[str]) -> int:
    """Write the page of all files named but the last to that; return 2 on wrong usage."""
    if len(arguments) < 2:
        sys.stderr.write("usage: python benchmarks/keep.py BENCHMARKS.json ... PAGE.md\n")
        return 2
    *runs, target = map(Path, arguments)
    atomic.replace(target, page([json.loads(run.read_text()) for run in runs]).encode())
    return 0


def _by_test(benchmarks: Iterable[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    def test(benchmark: dict[str, Any]) -> str:
        return str(benchmark["fullname"].partition("[")[0])

    return [list(group) for _, group in groupby(sorted(benchmarks, key=test), key=test)]


def _section(benchmarks: Sequence[dict[str, Any]]) -> str:
    """Return the table of one test: a column for each of its settings, a row for each result."""
    file, _, test = benchmarks[0]["fullname"].partition("[")[0].partition("::")
    words = test.removeprefix("test_").capitalize().split("_")
    title = " ".join(_NAMES.get(word.lower(), word) for word in words)
    made = "; ".join(dict.fromkeys(map(_made, benchmarks)))
    columns = {_setting(one): _results(one) for one in benchmarks}
    names = list(dict.fromkeys(name for column in columns.values() for name in column))
    rows = [[name, *(column.get(name, "") for column in columns.values())] for name in names]
    table = [["", *columns], *rows]
    if len(rows) == 1:  # one result of many settings reads better downwards
        table = [list(line) for line in zip(*table, strict=True)]
    head, *body = ["| " + " | ".join(line) + " |" for line in table]
    rule = "| --- |" + " --: |" * (len(table[0]) - 1)
    return "\n".join(
        [f"## {title}", "", f"`{Path(file).name}`; {made}.", "", head, rule, *body, ""]
    )


def _made(benchmark: dict[str, Any]) -> str:
    """Say by what code and where a benchmark was run."""
    here = benchmark["extra_info"]["environment"]
    torch = here["versions"]["torch"]
    return f"commit {str(here['commit'])[:7]}, {here['cpu']}, PyTorch {torch}"


def _setting(benchmark: dict[str, Any]) -> str:
    return ", ".join(_word(*each) for each in (benchmark["params"] or {}).items()) or "result"


def _word(name: str, value: Any) -> str:
    if name == "threads":
        return "1 thread" if value == 1 else f"{value} threads"
    if isinstance(value, str):
        return value.replace("_", " ")
    return f"{'B' if name == 'size' else name} = {value}"


def _results(benchmark: dict[str, Any]) -> dict[str, str]:
    info = benchmark["extra_info"]
    ratios = {name: f"{value:.2f}" for name, value in info.get("ratios", {}).items()}
    peak = info.get("peak_bytes")
    return {**ratios, "peak beyond the weights (MiB)": f"{peak / 2**20:.2f}"} if peak else ratios


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
