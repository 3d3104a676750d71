"""Results notebooks: generated from each artifact's template, executed, dated by their records.

A notebook reads records and never trains. It keeps the hash of its template and of the records it
shows, so that a stale one can be told without running it.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbconvert.preprocessors import CellExecutionError, ExecutePreprocessor

from repro.artifacts import index
from repro.core import atomic
from repro.core.errors import ReproError
from repro.measurement.records import latest_run
from repro.report.newest import newest_records

_PACKAGE = Path(index.__file__).parent
_TIMEOUT_S = 600


def template(slug: str) -> Path:
    """Return the template of an artifact's notebook, in jupytext's Markdown."""
    return _PACKAGE / slug / "notebook.md"


def is_stale(slug: str, notebooks: Path, results: Path) -> bool:
    """Tell whether the notebook is missing, or older than its records or its template."""
    path = notebooks / f"{slug}.ipynb"
    if not path.is_file():
        return True
    made_from: dict[str, str] = json.loads(path.read_bytes())["metadata"].get("zo_repro", {})
    return made_from != _sources(slug, results)


def build(slug: str, notebooks: Path, results: Path) -> Path:
    """Generate and execute the artifact's notebook and return its path.

    Raises:
        ReproError: there are no records or they are corrupted, or a cell failed.
    """
    newest_records(results, slug)
    notebook: Any = jupytext.read(template(slug))
    executor: Any = ExecutePreprocessor(timeout=_TIMEOUT_S, kernel_name="python3")  # type: ignore[no-untyped-call]
    os.environ["REPRO_RESULTS"] = str(results.resolve())  # the kernel inherits it
    try:
        executor.preprocess(notebook, {"metadata": {"path": str(Path.cwd())}})
    except CellExecutionError as error:
        msg = f"the notebook of {slug} failed: {error.ename}: {error.evalue}"
        raise ReproError(msg) from error
    _make_reproducible(notebook, slug)
    notebook.metadata["zo_repro"] = _sources(slug, results)
    path = notebooks / f"{slug}.ipynb"
    text: str = nbformat.writes(notebook)  # type: ignore[no-untyped-call]
    atomic.replace(path, text.encode() + b"\n")
    return path


def _sources(slug: str, results: Path) -> dict[str, str]:
    run = latest_run(results / slug)
    return {
        "records": "" if run is None else run.name,
        "records_sha256": "" if run is None else hashlib.sha256(run.read_bytes()).hexdigest(),
        "template_sha256": hashlib.sha256(template(slug).read_bytes()).hexdigest(),
    }


def _make_reproducible(notebook: Any, slug: str) -> None:  # noqa: ANN401 - nbformat is untyped
    """Drop what changes from one execution to the next: times, random ids, the kernel's version."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"{slug}-{number}"
        cell["metadata"] = {}
