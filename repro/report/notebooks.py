"""Results notebooks: generated from each artifact's template, executed, dated by their records.

A notebook reads records and never trains. It keeps the hashes of its template, of the records it
shows and of the claims' verdicts, so that a stale one can be told without running it.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbconvert.preprocessors import CellExecutionError, ExecutePreprocessor

from repro.artifacts import index
from repro.core import atomic
from repro.core.environ import environment_set, same_package
from repro.core.errors import ReproError
from repro.report import view
from repro.report.claims_table import run_rows
from repro.report.kept import sha256
from repro.report.markdown import claims_markdown

_ARTIFACTS = Path(index.__file__).parent
_TIMEOUT_S = 600


def template(slug: str) -> Path:
    """Return the template of an artifact's notebook, in jupytext's Markdown.

    It lies beside the artifact's module, or in its package.
    """
    package = _ARTIFACTS / slug
    return package / "notebook.md" if package.is_dir() else _ARTIFACTS / f"{slug}.md"


def is_stale(slug: str, notebook: Path, runs: Sequence[Path]) -> bool:
    """Tell whether the notebook is missing, damaged, or older than what it is made from."""
    try:
        made_from = json.loads(notebook.read_bytes())["metadata"]["zo_repro"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return True
    stale: bool = made_from != _sources(slug, runs)
    return stale


def build(slug: str, runs: Sequence[Path], notebook: Path) -> None:
    """Generate the artifact's notebook from the records in ``runs``, execute it and write it.

    Raises:
        ReproError: a cell failed (on corrupted records, the first), or it cannot be written.
    """
    content: Any = jupytext.read(template(slug))
    executor: Any = ExecutePreprocessor(timeout=_TIMEOUT_S, kernel_name="python3")  # type: ignore[no-untyped-call]
    records = os.pathsep.join(str(run.resolve()) for run in runs)
    variables = same_package() | {view.RECORDS: records}
    try:
        # an empty directory, since a kernel may import from the one that it begins in
        with environment_set(variables), tempfile.TemporaryDirectory() as empty:
            executor.preprocess(content, {"metadata": {"path": empty}})
    except CellExecutionError as error:
        msg = f"the notebook of {slug} failed: {error.ename}: {error.evalue}"
        raise ReproError(msg) from error
    except (CellTimeoutError, DeadKernelError) as error:
        msg = f"the notebook of {slug} failed: {error}"
        raise ReproError(msg) from error
    # nothing that changes from one execution to the next: times, random ids, the kernel's version
    content.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        "zo_repro": _sources(slug, runs),
    }
    for number, cell in enumerate(content.cells):
        cell["id"] = f"{slug}-{number}"
        cell["metadata"] = {}
    text: str = nbformat.writes(content)  # type: ignore[no-untyped-call]
    atomic.replace(notebook, text.encode() + b"\n")


def _sources(slug: str, runs: Sequence[Path]) -> dict[str, Any]:
    table = claims_markdown(run_rows(slug, runs), reasons=True)
    return {
        "records_sha256": {run.name: sha256(run) for run in runs},
        "template_sha256": sha256(template(slug)),
        "claims_sha256": hashlib.sha256(table.encode()).hexdigest(),
    }
