"""Generate and execute the results notebooks, all with the same structure.

A notebook reads records and never trains. It opens with the template's title, the verdicts and the
main figure, followed by the template's text and its conclusion. Everything after the conclusion is
folded: the template's raw tables, all statements, the provenance of the records, and the deviations
from the paper.

The title is the template's text up to two blank lines or the next heading.

A notebook keeps the hashes of its cells, records and verdicts, so ``is_stale`` need not execute it.
"""

import hashlib
import json
import logging
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from repro.artifacts import index
from repro.claims.index import CLAIMS
from repro.core import atomic
from repro.core.errors import ReproError
from repro.core.paths import sha256_of
from repro.core.processes import same_package
from repro.report.claims_table import run_rows
from repro.report.formatting import FOLDED
from repro.report.markdown import claims_markdown
from repro.report.runs import RECORDS, current_runs

CONCLUSION = "## Conclusion"
"""Heading of the last unfolded section of a template; later sections are folded."""
FEW_CLAIMS = 6
"""Limit of claims; with more, a notebook opens with their counts and folds their table."""
_ARTIFACTS = Path(index.__file__).parent
_SETUP = """\
from IPython.display import Markdown

from repro.artifacts import {slug} as artifact{tables}
from repro.report import notebook_api

records = notebook_api.newest_records("{slug}")"""
_RESET = """\
import os

os.environ[{variable!r}] = {value!r}
get_ipython().reset()"""
_OWN = (
    "> Figures and tables in this notebook show your own records. The text is about those in the "
    "suite's repository and need not hold for yours."
)
_TABLES = "\nfrom repro.artifacts.{slug} import tables"
_INCLUDE = re.compile(r"^<!-- include (\w+) -->\n", re.MULTILINE)
"""A line of a template, replaced by a file of ``repro/artifacts/shared``."""
_TEMPLATE_FORMAT = {"extension": ".md", "split_at_heading": True}
_TIMEOUT_S = 600


def template(slug: str) -> Path:
    """Return the template of an artifact's notebook, in jupytext's Markdown.

    It is next to the artifact's module, or in its package.
    """
    package = _ARTIFACTS / slug
    return package / "notebook.md" if package.is_dir() else _ARTIFACTS / f"{slug}.md"


def is_stale(slug: str, notebook: Path, runs: Sequence[Path]) -> bool:
    """Return whether the notebook is missing, damaged, or older than its sources."""
    try:
        made_from = json.loads(notebook.read_bytes())["metadata"]["zo_repro"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return True
    stale: bool = made_from != _sources(slug, runs)
    return stale


def build(notebooks: Iterable[tuple[str, Sequence[Path], Path]]) -> Iterator[Path]:
    """Generate, execute and write notebooks, and yield the path of each.

    One kernel executes them all, since it takes longer to start than most of them; each notebook
    finds it without names and with an execution count of 1.

    Args:
        notebooks: artifact, files of records and path of each.

    Raises:
        ReproError: a cell failed (with corrupted records, the first one), or the notebook cannot be
            written.
    """
    # after an interrupt, nbclient's pending task fails with its kernel
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    client = NotebookClient(_notebook(), timeout=_TIMEOUT_S, kernel_name="python3")
    # an empty directory, since a kernel may import from its working directory; the kernel's
    # messages at its start and end are hidden, the cells' output is kept
    environment = {**os.environ, **same_package()}
    with (
        tempfile.TemporaryDirectory() as empty,
        client.setup_kernel(cwd=empty, env=environment, stderr=subprocess.DEVNULL),
    ):
        for slug, runs, path in notebooks:
            content = assemble(slug, own=_are_own(slug, runs))
            records = os.pathsep.join(str(run.resolve()) for run in runs)
            before = _notebook(_code(_RESET.format(variable=RECORDS, value=records)))
            try:
                for client.nb in (before, content):
                    client.reset_execution_trackers()
                    for number, cell in enumerate(client.nb.cells):
                        client.execute_cell(cell, number)
            except CellExecutionError as error:
                msg = f"the notebook of {slug} failed: {error.ename}: {error.evalue}"
                raise ReproError(msg) from error
            except (CellTimeoutError, DeadKernelError) as error:
                raise ReproError(f"the notebook of {slug} failed: {error}") from error
            _make_reproducible(content, slug)
            content.metadata["zo_repro"] = _sources(slug, runs)
            text: str = nbformat.writes(content)  # type: ignore[no-untyped-call]
            atomic.replace(path, text.encode() + b"\n")
            yield path


def assemble(slug: str, *, own: bool = False) -> Any:  # noqa: ANN401 - nbformat is untyped
    """Return the artifact's notebook before execution: template and shared cells in order.

    If the records are the reader's ``own``, it says so below the heading.

    Its first code cell defines ``artifact``, ``records``, ``notebook_api``, ``Markdown``, and the
    module ``tables`` if the artifact's package has one.
    """
    artifact = index.load(slug)
    statements = sum(not CLAIMS[name].same_as for name in artifact.claims)
    figure = next(iter(artifact.captions))
    opening = [_code(f'notebook_api.figure(artifact.ARTIFACT, "{figure}", records)')]
    sections = [
        ("How the records were made", "notebook_api.provenance(records)"),
        ("Deviations from the paper", "notebook_api.about(artifact.ARTIFACT)"),
    ]
    if statements > FEW_CLAIMS:
        sections.insert(0, ("Every statement", f'notebook_api.claims("{slug}")'))
    if statements:
        show = "claims" if statements <= FEW_CLAIMS else "verdicts"
        opening.insert(0, _code(f'notebook_api.{show}("{slug}")'))
    content: Any = jupytext.reads(_text(template(slug)), fmt=_TEMPLATE_FORMAT)
    title, *story = content.cells
    if own:
        heading, _, rest = title.source.partition("\n")
        title.source = f"{heading}\n\n{_OWN}\n{rest}"
    tables = _TABLES.format(slug=slug) if (_ARTIFACTS / slug / "tables.py").is_file() else ""
    setup = _code(_SETUP.format(slug=slug, tables=tables))
    content.cells = [title, setup, *opening, *story]
    for name, code in sections:
        heading = nbformat.v4.new_markdown_cell(f"## {name}")  # type: ignore[no-untyped-call]
        content.cells += [heading, _code(code)]
    return content


def _are_own(slug: str, runs: Sequence[Path]) -> bool:
    """Return whether ``runs`` are others than those in the suite's repository."""
    results = _ARTIFACTS.parents[1] / "results"
    known = current_runs(results, slug) if results.is_dir() else []
    return {run.resolve() for run in runs} != {run.resolve() for run in known}


def _text(path: Path) -> str:
    """Return the text of a template or of a file that several templates include."""
    return _INCLUDE.sub(
        lambda line: _text(_ARTIFACTS / "shared" / f"{line[1]}.md"),
        path.read_text(encoding="utf-8"),
    )


def _notebook(*cells: Any) -> Any:  # noqa: ANN401 - nbformat is untyped
    return nbformat.v4.new_notebook(cells=list(cells))  # type: ignore[no-untyped-call]


def _code(source: str) -> Any:  # noqa: ANN401 - nbformat is untyped
    return nbformat.v4.new_code_cell(source)  # type: ignore[no-untyped-call]


def _sources(slug: str, runs: Sequence[Path]) -> dict[str, Any]:
    content = assemble(slug, own=_are_own(slug, runs))
    cells = json.dumps([[cell.cell_type, cell.source] for cell in content.cells])
    table = claims_markdown(run_rows(slug, runs), reasons=True)
    return {
        "records_sha256": {run.name: sha256_of(run) for run in runs},
        "cells_sha256": hashlib.sha256(cells.encode()).hexdigest(),
        "claims_sha256": hashlib.sha256(table.encode()).hexdigest(),
    }


def _make_reproducible(notebook: Any, slug: str) -> None:  # noqa: ANN401 - nbformat is untyped
    """Fold code and the last sections; drop times, random ids and the kernel's version."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    concluded = False
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"{slug}-{number}"
        cell["metadata"] = {}
        if cell["cell_type"] == "code":
            cell["metadata"] = {"jupyter": {"source_hidden": True}}
        elif concluded and cell["source"].startswith("## "):
            cell["metadata"] = {FOLDED: True}
        concluded = concluded or cell["source"].startswith(CONCLUSION)
