"""Keep the ratios of pytest-benchmark files as the tables that people read.

    python benchmarks/keep.py BENCHMARKS.json ... docs/speed.md

Benchmarks whose arms took turns have ``ratios``, and those of memory ``peak_bytes``; plain times
depend on the machine and what else it did, and are left out. Of a benchmark that is in several
files the last counts.

The page has a section for each test and in it a table for each processor. Tables that the files
have not are kept; a table of the same test and processor is replaced whole, with all its columns.
"""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from repro.core import atomic

HEAD = """# Speed and memory of the suite's own steps

These tables compare the time and memory of training steps. The networks are LeNet-5 (28 x 28
images) and, where a heading says so, PointNet or the language model SmolLM2-135M.
`benchmarks/keep.py` writes the tables from runs of `tox -e bench`, one test file at a time.
The two programs of a ratio ran alternately, so other load on the machine affected both alike. A
ratio is the median over 3 to 45 pairs of timings. B is the batch size. Where no number of threads
is given, steps of the engine ran on one thread and steps of the language model on two. All ran on
CPUs; for an H100 see [GPU](gpu.md#results-on-an-h100).

{summary}
A row `a/b` gives the time of a divided by the time of b: above 1, b is faster. Rows that name sets
of instructions compare two number formats on one set (`avx512 fp32/int8*`) or two sets in one
format (`int8* avx512/amx`); [the engine's document](ondevice.md#instruction-sets) lists the sets.
The rows use these names:

- *two forwards*: two forward passes;
- *plain*: MeZO as a plain PyTorch loop that draws whole tensors of noise;
- *published*: the widely used loop of Malladi et al. 2023, rewritten here from its description. It
  draws whole tensors of noise. It runs the prompt once with each answer and computes the logits of
  every token;
- *forward*: one forward pass of this suite, which computes logits at the last token of a prompt;
- *mezo*: this suite's MeZO in PyTorch, with PyTorch's noise;
- *mezo, engine's noise*: *mezo* with the Gaussian noise of the C++ engine;
- *mezo, engine's signs*: *mezo* with the random signs of the C++ engine;
- *mezo, no engine*: *mezo* without the C++ engine. In the other *mezo* rows the engine restores
  float16 and bfloat16 weights where the restore is exact;
- *noise*, *low rank*, *subspace*, *sparse*: eps z is added to the 14 million weights of four blocks
  of SmolLM2-135M and taken away again, with Gaussian z, LOZO's of rank 2, SubZero's of rank 4, or
  Gaussian z for the smaller weights only; by PyTorch, or by the C++ engine (*engine's ...*, also
  *signs*, random signs);
- *engine*: the C++ engine alone;
- *three perturbations*: a step's three perturbations of all weights, without forward passes;
- *share of peak*: the arithmetic rate of the step for each thread, from its shortest timing,
  divided by the rate that a loop of multiplications and additions reaches on the same processor;
- *full_zo*, *cls2*, *cls1*, *full_bp*: the methods of ElasticZO's Table 1 (Full ZO, ZO-Feat-Cls2,
  ZO-Feat-Cls1, Full BP);
- *int8*, *int8\\**: ElasticZO-INT8 with the loss in floating point, and in integers only.

A column `8 x 128` is for a batch of 8 prompts of 128 tokens. Memory is for such a batch, on one
thread. *exact* and *rounded* say how *mezo* restores the weights (`restore="exact"` or
`"rounded"`). The other programs are the same in both cases.
"""

_PLAIN_SETS = ("avx512", "avx2", "baseline")
"""Sets of instructions without dot products of bytes."""
_IN_SHORT = (
    ("MeZO on LeNet-5 against a plain loop", "MeZO against the plain loop", ["plain/mezo"]),
    ("The engine against the same plain loop", "Engine against PyTorch", ["plain/engine fp32"]),
    (
        "INT8 against float32 in the engine, with int8 dot products (VNNI) or AMX",
        "Engine against PyTorch",
        ["engine fp32/int8"],
    ),
    (
        "INT8\\* against float32 in the engine, without them",
        "Integers against float32 by instruction set",
        [f"{name} fp32/int8*" for name in _PLAIN_SETS],
    ),
    (
        "MeZO on SmolLM2-135M, with the engine's noise, against the published loop",
        "Language model step",
        ["published/mezo, engine's noise"],
    ),
    (
        "MeZO on SmolLM2-135M, bfloat16 with exact restores, without the engine, against that loop",
        "Language model step",
        ["published/mezo, no engine"],
    ),
    (
        "Full ZO on PointNet in the engine against PyTorch",
        "PointNet on the engine against PyTorch",
        ["torch/engine full_zo"],
    ),
)
"""What rows say together; their section, their names."""

_NAMES = {
    "bp": "BP",
    "elasticzo": "ElasticZO",
    "full": "Full",
    "mezo": "MeZO",
    "pointnet": "PointNet",
    "pytorch": "PyTorch",
    "zo": "ZO",
}


_SECTION = re.compile(r"^## (.+)\n", re.MULTILINE)
_TABLE = re.compile(r"^`[^`]+`; commit [^,]+, (.+?), PyTorch ", re.MULTILINE)
_Tables = dict[str, dict[str, str]]
"""By section and processor."""


def page(runs: Sequence[dict[str, Any]], former: str = "") -> str:
    """Return the ratios and peaks of all runs as Markdown, beside other tables of a former page."""
    kept = {one["fullname"]: one for run in runs for one in run["benchmarks"] if _results(one)}
    tables = _tables(former)
    by_table = sorted(kept.values(), key=_table_of)
    for (title, processor), benchmarks in groupby(by_table, key=_table_of):
        tables.setdefault(title, {})[processor] = _table(list(benchmarks))
    sections = (
        f"## {title}\n\n" + "\n".join(tables[title].values())
        for title in sorted(tables, key=str.lower)
    )
    return "\n".join([HEAD.replace("{summary}", _summary(tables)), *sections])


def main(arguments: list[str]) -> int:
    """Write the page of all files named but the last to that; return 2 on wrong usage."""
    if len(arguments) < 2:
        sys.stderr.write("usage: python benchmarks/keep.py BENCHMARKS.json ... PAGE.md\n")
        return 2
    *runs, target = map(Path, arguments)
    former = target.read_text() if target.exists() else ""
    made = page([json.loads(run.read_text()) for run in runs], former)
    atomic.replace(target, made.encode())
    return 0


def _summary(tables: _Tables) -> str:
    """Return the range of each row of ``_IN_SHORT`` over all processors and settings."""
    lines = []
    for said, title, names in _IN_SHORT:
        named = "|".join(map(re.escape, names))
        # on any number of threads
        sections = [tables[name] for name in tables if name.startswith(title)]
        text = "\n".join(table for section in sections for table in section.values())
        rows = re.findall(rf"^\| (?:{named}) \|(.+)\|$", text, re.MULTILINE)
        found = [float(cell) for row in rows for cell in row.split("|") if cell.strip()]
        if found:
            lines.append(f"- {said}: {min(found):.1f} to {max(found):.1f} times as fast.\n")
    if not lines:
        return ""
    return "In short, over all processors and settings below:\n\n" + "".join(lines)


def _tables(former: str) -> _Tables:
    """Return the tables of a page, each with what is said of it below.

    Raises:
        SystemExit: a section has text above its first table, or two tables of one processor: part
            of it would be lost.
    """
    _, *sections = _SECTION.split(former)
    found: _Tables = {}
    for title, text in zip(sections[::2], sections[1::2], strict=True):
        starts = list(_TABLE.finditer(text))
        ends = [*(start.start() for start in starts), len(text)]
        if text[: ends[0]].strip():
            msg = f"section {title!r}: move the text above the first table below it, or remove it"
            raise SystemExit(msg)
        if len({start[1] for start in starts}) < len(starts):
            msg = f"section {title!r}: join the tables of one processor"
            raise SystemExit(msg)
        found[title] = {
            start[1]: text[start.start() : end].rstrip() + "\n"
            for start, end in zip(starts, ends[1:], strict=True)
        }
    return found


def _table_of(benchmark: dict[str, Any]) -> tuple[str, str]:
    """Return the section and the processor of a benchmark."""
    test = benchmark["fullname"].partition("[")[0].partition("::")[2]
    words = test.removeprefix("test_").capitalize().split("_")
    title = " ".join(_NAMES.get(word.lower(), word) for word in words)
    return title, benchmark["extra_info"]["environment"]["cpu"]


def _table(benchmarks: Sequence[dict[str, Any]]) -> str:
    """Return the table of one test: a column for each of its settings, a row for each result."""
    file = benchmarks[0]["fullname"].partition("::")[0]
    made = [one["extra_info"]["environment"] for one in benchmarks]
    commits = _joined(str(here["commit"])[:7] for here in made)
    versions = _joined(here["versions"]["torch"] for here in made)
    how = f"commit {commits}, {made[0]['cpu']}, PyTorch {versions}"
    columns = {_setting(one): _results(one) for one in benchmarks}
    names = list(dict.fromkeys(name for column in columns.values() for name in column))
    rows = [[name, *(column.get(name, "") for column in columns.values())] for name in names]
    table = [["", *columns], *rows]
    if len(rows) == 1:  # one result of many settings reads better downwards
        table = [list(line) for line in zip(*table, strict=True)]
    head, *body = ["| " + " | ".join(line) + " |" for line in table]
    rule = "| --- |" + " --: |" * (len(table[0]) - 1)
    return "\n".join([f"`{Path(file).name}`; {how}.", "", head, rule, *body, ""])


def _joined(names: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(names))


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
