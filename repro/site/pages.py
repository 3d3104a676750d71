"""The pages of the site, each as one string."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import cleandoc, getdoc
from itertools import takewhile
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from repro.artifacts.base import Artifact
from repro.claims.index import CLAIMS
from repro.claims.quantity import key
from repro.claims.statistics import RESAMPLES
from repro.claims.verdict import (
    CLOSE_FRACTION,
    CLOSE_POINTS,
    MEANINGS,
    VERDICTS,
    judge_ranking,
    judge_value,
    verdict,
)
from repro.core.names import PAPERS
from repro.memory.setting import Setting
from repro.planner.families import FAMILIES
from repro.planner.methods import TRAINING_METHODS
from repro.planner.page import page as planner_page
from repro.report import formatting
from repro.report.claims_table import ClaimRow, points_of
from repro.report.headlines import HEADLINES, headline_ours, headline_rows
from repro.report.markdown import caution
from repro.site import text
from repro.site.documents import Document, Documents
from repro.site.provenance import Made, RunFile

_PLANNER_HEAD = """\
<meta name="description" content="Which language models and methods fit in a given memory.">
<link rel="icon" href="favicon.svg" type="image/svg+xml">
<link rel="stylesheet" href="top.css">
<script defer src="entries.js"></script>
<script defer src="search.js"></script>"""
"""What the planner's page takes from the site; alone it loads no files."""
BUDGET = 8e9
"""Initial budget of the planner's page in bytes."""


@dataclass(frozen=True)
class Shown:
    """An artifact's entry in the index."""

    artifact: Artifact
    rows: Sequence[ClaimRow]
    profiles: str
    """Profiles of its records; empty if it was not run."""

    @property
    def slug(self) -> str:
        """The artifact's name."""
        return self.artifact.slug


@dataclass(frozen=True)
class Exhibit(Shown):
    """The content of an artifact's page."""

    runs: Sequence[RunFile]
    made: Sequence[Made]
    notebook: bool
    """Whether the artifact has a notebook."""
    stale: bool
    """Whether the notebook is older than the records."""

    @property
    def made_of(self) -> dict[str, list[Made]]:
        """The records behind each claim on training runs, by the claim's id."""
        found = {}
        for row in self.rows:
            if wanted := {key(point) for point in points_of(CLAIMS[row.id])}:
                runs = (made for made in self.made if made.record.kind == "run")
                found[row.id] = [made for made in runs if key(made.record.point) in wanted]
        return found


class Pages:
    """Renders the pages, with links to the documents of a clone."""

    def __init__(self, documents: Documents) -> None:
        """Find the claims for which the documents name a suspected cause."""
        self._documents = documents
        self._causes = documents.causes()

    @property
    def fingerprint(self) -> str:
        """Cache key of the documents' content used in an artifact's page."""
        return json.dumps([self._documents.names, sorted(self._causes)])

    def index(self, exhibits: Sequence[Shown]) -> str:
        """Return the first page: the headline answers, the documents and all statements."""
        rows = [row for exhibit in exhibits for row in exhibit.rows]
        counts = Counter((row.verdict, "") for row in rows)
        counts += Counter(("", row.paper) for row in rows)
        return self._render(
            "index.html",
            exhibits=exhibits,
            rows=rows,
            counts=counts,
            verdicts=VERDICTS,
            headlines=headline_rows(rows),
            headline_texts=HEADLINES,
            headline_ours=headline_ours,
            caution=caution(rows),
            readers=[
                (reader, [Markup(line) for line in lines])  # noqa: S704 - ours
                for reader, lines in self._documents.readers()
            ],
            root="",
        )

    def entries(self, rows: Sequence[ClaimRow]) -> str:
        """Return the script with the entries of the search: sections, then statements."""
        found = [
            (document.title, one.text, f"docs/{document.name}.html#{one.id}", one.section)
            for document in self._documents.all
            for one in document.sections
        ]
        found += [
            (
                "statement",
                row.statement,
                f"artifacts/{row.artifact}.html#{row.id}",
                f"{row.id} {row.section} {row.artifact}",
            )
            for row in rows
        ]
        lines = ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in found)
        return f'"use strict";\nconst ENTRIES = [\n{lines}\n];\n'

    def artifact(self, exhibit: Exhibit) -> str:
        """Return an artifact's page."""
        from repro.report.notebooks import template  # imports jupytext, which takes seconds

        about = text.markdown(cleandoc(exhibit.artifact.about or ""))
        # a template begins with its title and, in bold, its result (docs/adding.md)
        _, *paragraphs = template(exhibit.slug).read_text(encoding="utf-8").split("\n\n")
        answer = "\n\n".join(takewhile(lambda one: one.startswith("**"), paragraphs))
        counts = Counter(row.verdict for row in exhibit.rows)
        return self._render(
            "artifact.html",
            exhibit=exhibit,
            about=Markup(about),  # noqa: S704 - ours
            answer=Markup(text.markdown(answer)),  # noqa: S704 - ours
            counts=[(name, counts[name]) for name in VERDICTS if counts[name]],
            root="../",
        )

    def notebook(self, title: str, slug: str, content: str) -> str:
        """Return the page of an executed notebook, given as its file's text."""
        body = Markup(text.notebook(content))  # noqa: S704 - ours
        return self._render("notebook.html", title=title, slug=slug, body=body, root="../")

    def document(self, document: Document) -> str:
        """Return the page of a document."""
        body = Markup(document.body)  # noqa: S704 - ours
        return self._render("document.html", document=document, body=body, root="../")

    def method(self, rows: Sequence[ClaimRow]) -> str:
        """Return the page that explains how verdicts are reached."""
        tested = [row.p_value for row in rows if row.p_value is not None]
        return self._render(
            "method.html",
            rule=Markup(text.markdown(rule())),  # noqa: S704 - ours
            tested=len(tested),
            small=sum(p < 0.05 for p in tested),
            resamples=f"{RESAMPLES:,}",
            caveat=formatting.CAVEAT,
            root="",
        )

    def planner(self) -> str:
        """Return the planner's page, with the site's navigation and search."""
        page = planner_page(list(FAMILIES), list(TRAINING_METHODS.values()), Setting(), BUDGET)
        changes = {
            '<link rel="icon" href="data:,">': _PLANNER_HEAD,
            "style-src ": "style-src 'self' ",
            "script-src ": "script-src 'self' ",
            "img-src data:": "img-src 'self' data:",
            "</style>": "a { color: var(--weights); }\n</style>",
            "<body>": "<body>\n" + self._render("top.html", root=""),
            "<main>": '<main id="main">',
        }
        for alone, in_site in changes.items():
            page = page.replace(alone, in_site, 1)
        return text.unbroken(self._documents.linked(page, ""))

    def _render(self, template: str, **values: Any) -> str:  # noqa: ANN401 - values for the template
        names: Mapping[str, Any] = {
            "papers": PAPERS,
            "say": formatting,
            "causes": self._causes,
            **values,
        }
        html = _TEMPLATES.get_template(template).render(names)
        return text.unbroken(self._documents.linked(html, values["root"]))


def rule() -> str:
    """Return the rule of verdicts in Markdown, taken from the code, with its constants' values."""
    values = {
        "CLOSE_FRACTION": f"{CLOSE_FRACTION:.0%}".replace("%", " %"),
        "CLOSE_POINTS": f"{CLOSE_POINTS:g} percentage points",
    }
    meanings = "\n".join(f"- **{name}**: {meaning}." for name, meaning in MEANINGS.items())
    rules = [(getdoc(function) or "") for function in (verdict, judge_value, judge_ranking)]
    said = "\n\n".join([meanings, *(text.partition("\n\n")[2] or text for text in rules)])
    said = re.sub(r"\s+See ``judge_value`` and ``judge_ranking``\.", "", said)
    for name, value in values.items():
        said = said.replace(f"``{name}``", value)
    return said


_TEMPLATES = Environment(
    loader=PackageLoader("repro.site", "web"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["verdict_class"] = lambda verdict: (
    "verdict-" + verdict.replace(",", "").replace(" ", "-")
)
