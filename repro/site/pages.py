"""The pages of the site, each as one string."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import cleandoc, getdoc
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from repro.artifacts.base import Artifact
from repro.claims.elasticzo import QUANTITIES
from repro.claims.quantity import Accuracy, Quantity, key
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
from repro.memory.setting import Setting
from repro.planner.families import FAMILIES
from repro.planner.methods import METHODS
from repro.planner.page import page as planner_page
from repro.report import wording
from repro.report.claims_table import ClaimRow
from repro.site import text
from repro.site.documents import Document, Documents
from repro.site.provenance import Made, Run

PAPERS = {
    "mezo": "Katti, Park, Rajendran, Simeone 2025, arXiv 2511.11362",
    "elasticzo": "Sugiura, Matsutani 2025, arXiv 2501.04287",
}
NAMES = {"mezo": "MeZO", "elasticzo": "ElasticZO"}
BUDGET = 16e9
"""Bytes that the planner's page opens with."""


@dataclass(frozen=True)
class Exhibit:
    """Everything that is shown of an artifact."""

    artifact: Artifact
    rows: Sequence[ClaimRow]
    runs: Sequence[Run]
    made: Sequence[Made]
    notebook: bool
    """Whether it has one."""
    stale: bool
    """Whether that is older than the records."""

    @property
    def slug(self) -> str:
        """The artifact's name."""
        return self.artifact.slug

    @property
    def profiles(self) -> str:
        """Of its records."""
        return ", ".join(dict.fromkeys(run.profile for run in self.runs))

    @property
    def made_of(self) -> dict[str, list[Made]]:
        """The runs behind each claim on trained cells, by its id."""
        quantities = ((row.id, QUANTITIES.get(row.id)) for row in self.rows)
        return {name: _behind(quantity, self.made) for name, quantity in quantities if quantity}


class Pages:
    """The pages, with links to the documents of a clone."""

    def __init__(self, documents: Documents) -> None:
        """Read which claims those name a suspected cause of."""
        self._documents = documents
        self._causes = documents.causes()

    def index(self, exhibits: Sequence[Exhibit]) -> str:
        """Return the page of all claims."""
        rows = [row for exhibit in exhibits for row in exhibit.rows]
        counts = Counter((row.verdict, row.paper) for row in rows)
        counts += Counter((row.verdict, "") for row in rows)
        return self._render(
            "index.html",
            exhibits=exhibits,
            rows=rows,
            counts=counts,
            verdicts=VERDICTS,
            summary=Markup(self._documents.summary()),  # noqa: S704 - ours
            documents=self._documents.all(),
            root="",
        )

    def artifact(self, exhibit: Exhibit) -> str:
        """Return an artifact's page."""
        about = text.markdown(cleandoc(exhibit.artifact.about or ""))
        counts = Counter(row.verdict for row in exhibit.rows)
        return self._render(
            "artifact.html",
            exhibit=exhibit,
            about=Markup(about),  # noqa: S704 - ours
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
        return self._render("document.html", title=document.title, body=body, root="../")

    def method(self, rows: Sequence[ClaimRow]) -> str:
        """Return the page that says how verdicts are made."""
        tested = [row.p_value for row in rows if row.p_value is not None]
        return self._render(
            "method.html",
            rule=Markup(text.markdown(rule())),  # noqa: S704 - ours
            tested=len(tested),
            small=sum(p < 0.05 for p in tested),
            resamples=f"{RESAMPLES:,}",
            caveat=wording.CAVEAT,
            root="",
        )

    def planner(self) -> str:
        """Return the planner's page, with the links that all pages have."""
        page = planner_page(list(FAMILIES), list(METHODS.values()), Setting(), BUDGET)
        links = self._render("navigation.html", root="")
        look = self._render("planner.css", root="")
        page = page.replace("</style>", f"{look}</style>", 1)
        page = page.replace("<body>", f"<body>\n{links}", 1)
        return self._documents.linked(page, "")

    def _render(self, template: str, **values: Any) -> str:  # noqa: ANN401 - what templates show
        names: Mapping[str, Any] = {
            "papers": PAPERS,
            "names": NAMES,
            "say": wording,
            "causes": self._causes,
            **values,
        }
        html = _TEMPLATES.get_template(template).render(names)
        return self._documents.linked(html, values["root"])


def rule() -> str:
    """Return the rule of verdicts in Markdown: that of the code, with its constants' values."""
    values = {
        "CLOSE_FRACTION": f"{CLOSE_FRACTION:.0%}".replace("%", " %"),
        "CLOSE_POINTS": f"{CLOSE_POINTS:g} percentage points",
    }
    meanings = "\n".join(f"- **{name}**: {meaning}." for name, meaning in MEANINGS.items())
    rules = [(getdoc(function) or "") for function in (verdict, judge_value, judge_ranking)]
    said = "\n\n".join([meanings, *(text.partition("\n\n")[2] or text for text in rules)])
    said = said.partition(" See ``")[0] + said.partition("``judge_ranking``.")[2]
    for name, value in values.items():
        said = said.replace(f"``{name}``", value)
    return said


def _behind(quantity: Quantity, made: Sequence[Made]) -> list[Made]:
    points = [quantity.point] if isinstance(quantity, Accuracy) else sum(quantity.pairs, ())
    cells = {key(point) for point in points}
    return [one for one in made if one.record.kind == "run" and key(one.record.point) in cells]


def _class(label: str) -> str:
    return "verdict-" + label.replace(",", "").replace(" ", "-")


_TEMPLATES = Environment(
    loader=PackageLoader("repro.site", "web"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["verdict_class"] = _class
