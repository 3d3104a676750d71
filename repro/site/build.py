"""Builds the site from records, figures, notebooks and documents: the same bytes from the same."""

import json
import shutil
from pathlib import Path

from repro.artifacts import index
from repro.core.errors import ReproError
from repro.report.claims_table import run_rows
from repro.report.notebooks import is_stale
from repro.report.runs import current_runs
from repro.site.documents import Documents
from repro.site.pages import Exhibit, Pages
from repro.site.provenance import runs, standing
from repro.site.publish import published

_ASSETS = ("site.css", "claims.js")
_WEB = Path(__file__).with_name("web")


def build(results: Path, notebooks: Path, clone: Path, target: Path) -> None:
    """Write the site to ``target``: whole, or not at all.

    Args:
        results: directory of the records.
        notebooks: directory of the notebooks; those that are missing are left out.
        clone: directory with ``README.md`` and ``docs``.
        target: directory that is made, or an earlier site, which is replaced.

    Raises:
        UsageError: ``results`` is no directory, ``clone`` no clone, or ``target`` holds anything
            but an earlier site.
        ReproError: records are corrupted, a figure of recorded artifacts was never drawn, or
            ``target`` cannot be written.
    """
    shown = [slug for slug in index.SLUGS if (notebooks / f"{slug}.ipynb").is_file()]
    documents = Documents(clone, shown)
    pages = Pages(documents)
    with published(target) as site:
        exhibits = [_exhibit(site, slug, results, notebooks, pages) for slug in index.SLUGS]
        rows = [row for exhibit in exhibits for row in exhibit.rows]
        for exhibit in exhibits:
            _write(site / "artifacts" / f"{exhibit.slug}.html", pages.artifact(exhibit))
        for document in documents.all():
            _write(site / "docs" / f"{document.name}.html", pages.document(document))
        for image in documents.images():
            _copy(clone / image, (site / image).parent)
        _write(site / "index.html", pages.index(exhibits))
        _write(site / "method.html", pages.method(rows))
        _write(site / "planner.html", pages.planner())
        _write(site / "claims.json", json.dumps([row.as_dict() for row in rows], indent=2) + "\n")
        for name in _ASSETS:
            shutil.copyfile(_WEB / name, site / name)


def _exhibit(site: Path, slug: str, results: Path, notebooks: Path, pages: Pages) -> Exhibit:
    """Copy an artifact's files, write its notebook's page, and return what else is to be shown."""
    artifact = index.load(slug)
    paths = current_runs(results, slug)
    for path in paths:
        _copy(path, site / "records" / slug)
    if paths:
        for name in artifact.captions:
            for suffix in ("svg", "png"):
                figure = results / slug / "figures" / f"{name}.{suffix}"
                if not figure.is_file():
                    msg = f"{figure} is missing: `repro report {slug}` draws it"
                    raise ReproError(msg)
                _copy(figure, site / "figures" / slug)
    notebook = notebooks / f"{slug}.ipynb"
    if notebook.is_file():
        _copy(notebook, site / "notebooks")
        text = notebook.read_text(encoding="utf-8")
        _write(site / "notebooks" / f"{slug}.html", pages.notebook(artifact.title, slug, text))
    made = standing(paths)
    return Exhibit(
        artifact=artifact,
        rows=run_rows(slug, paths),
        runs=runs(artifact, paths, made),
        made=made,
        notebook=notebook.is_file(),
        stale=is_stale(slug, notebook, paths),
    )


def _copy(path: Path, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, directory / path.name)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
