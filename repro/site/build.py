"""Build the site from records, figures, notebooks and documents; equal input gives equal bytes.

The pages of an artifact are cached for as long as its records, its notebook and whether this is up
to date, its verdicts, the documents and the code do not change.
"""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from repro.artifacts import index
from repro.core.errors import ReproError
from repro.report.claims_table import ClaimRow, claim_rows
from repro.report.kept import kept, key_of
from repro.report.runs import current_runs
from repro.site.documents import Documents
from repro.site.pages import Exhibit, Pages, Shown
from repro.site.provenance import current_records, runs
from repro.site.publish import published

_ASSETS = ("site.css", "top.css", "claims.js", "search.js", "favicon.svg")
_WEB = Path(__file__).with_name("web")


def build(results: Path, notebooks: Path, clone: Path, target: Path) -> None:
    """Write the whole site to ``target``, or nothing.

    Args:
        results: directory of the records.
        notebooks: directory of the notebooks; missing ones are left out.
        clone: directory with ``docs``.
        target: a new directory, or an earlier site to replace.

    Raises:
        UsageError: ``results`` is not a directory, ``clone`` is not a clone, or ``target`` holds
            anything but an earlier site.
        ReproError: records are corrupted, a figure of recorded artifacts was never drawn, or
            ``target`` cannot be written.
    """
    names = [slug for slug in index.SLUGS if (notebooks / f"{slug}.ipynb").is_file()]
    documents = Documents(clone, names)
    pages = Pages(documents)
    with published(target) as site:
        rows = claim_rows(results)  # of all artifacts, as values of one are shown with another
        shown = [
            _shown(
                site, slug, [row for row in rows if row.artifact == slug], results, notebooks, pages
            )
            for slug in index.SLUGS
        ]
        for document in documents.all:
            _write(site / "docs" / f"{document.name}.html", pages.document(document))
        for image in documents.images():
            _copy(clone / image, (site / image).parent)
        _write(site / "index.html", pages.index(shown))
        _write(site / "entries.js", pages.entries(rows))
        _write(site / "method.html", pages.method(rows))
        _write(site / "planner.html", pages.planner())
        _write(site / "claims.json", json.dumps([row.as_dict() for row in rows], indent=2) + "\n")
        for name in _ASSETS:
            shutil.copyfile(_WEB / name, site / name)


def _shown(
    site: Path,
    slug: str,
    rows: Sequence[ClaimRow],
    results: Path,
    notebooks: Path,
    pages: Pages,
) -> Shown:
    """Copy an artifact's files, write its pages, and return its entry in the index."""
    from repro.report.notebooks import is_stale  # imports jupytext, which takes seconds

    artifact = index.load(slug)
    paths = current_runs(results, slug)
    for path in paths:
        _copy(path, site / "records" / slug)
    if paths:
        for name in artifact.captions:
            for suffix in ("svg", "png"):
                figure = results / slug / "figures" / f"{name}.{suffix}"
                if not figure.is_file():
                    raise ReproError(f"{figure} is missing: `repro report {slug}` draws it")
                _copy(figure, site / "figures" / slug)
    notebook = notebooks / f"{slug}.ipynb"
    if notebook.is_file():
        _copy(notebook, site / "notebooks")
    sources = [*paths, *([notebook] if notebook.is_file() else [])]
    judged = json.dumps([row.as_dict() for row in rows])
    stale = is_stale(slug, notebook, paths)
    key = key_of(sources, pages.fingerprint, judged, str(stale), *(path.name for path in paths))
    made = kept(f"pages-{slug}", key, lambda: _pages(slug, paths, rows, notebook, pages, stale))
    _write(site / "artifacts" / f"{slug}.html", made["artifact"])
    if made["notebook"] is not None:
        _write(site / "notebooks" / f"{slug}.html", made["notebook"])
    return Shown(artifact, rows, made["profiles"])


def _pages(
    slug: str,
    paths: Sequence[Path],
    rows: Sequence[ClaimRow],
    notebook: Path,
    pages: Pages,
    stale: bool,
) -> dict[str, Any]:
    """Return the pages of an artifact and the profiles of its records."""
    artifact = index.load(slug)
    made = current_records(paths)
    files = runs(artifact, paths, made)
    exhibit = Exhibit(
        artifact=artifact,
        rows=rows,
        profiles=", ".join(dict.fromkeys(file.profile for file in files)),
        runs=files,
        made=made,
        notebook=notebook.is_file(),
        stale=stale,
    )
    page = None
    if notebook.is_file():
        page = pages.notebook(artifact.title, slug, notebook.read_text(encoding="utf-8"))
    return {
        "artifact": pages.artifact(exhibit),
        "notebook": page,
        "profiles": exhibit.profiles,
    }


def _copy(path: Path, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, directory / path.name)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
