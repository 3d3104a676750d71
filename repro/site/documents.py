"""Convert the documents in ``docs/`` to HTML, with links to the site's files.

A link to a module that has a reference page leads there. A link to any other file of the clone is
replaced by its text. The identifier of a statement becomes a link to the statement.
"""

import posixpath
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from repro.claims.index import CLAIMS
from repro.core.errors import UsageError
from repro.report.kept import kept, key_of
from repro.site import text
from repro.site.reference import PACKAGES, reference

DISCREPANCIES = "discrepancies"
"""The document with the causes of differences."""
OVERVIEW = "README"
"""The document that lists the others by reader; the site shows it on its first page."""
_NAMED = re.compile(r"<code>docs/(\w+)\.md</code>")
_STATEMENT_LINK = re.compile(r'<a (href="[^"]*artifacts/[^"]*#([AB][\w-]*)")')
_READER = re.compile(r"^## (.+?)\n\n((?:- .+\n)+)", re.MULTILINE)
_HEADING = re.compile(r'<h([1-3]) id="([^"]*)">(.*?)</h\1>', re.DOTALL)
_ELSEWHERE = {
    "README.md": "index.html",
    "docs/README.md": "index.html#documents",
    "results/README.md": "index.html#all",
}
"""The site's address for each overview of the clone."""
_MODULE = re.compile(r"repro/(\w+)(?:/(\w+)\.py)?")
"""A package or a module, as documents link to it."""
_NAMED_STATEMENT = re.compile(r"`([AB][\w-]*)`")


@dataclass(frozen=True)
class Heading:
    """A heading of a document."""

    level: int
    id: str
    text: str
    """Text of the heading, without markup."""
    section: str
    """The text from the heading to the next one, without markup."""


@dataclass(frozen=True)
class Document:
    """A file of ``docs/``."""

    name: str
    """Name of the file, without directory and suffix."""
    title: str
    body: str
    """The content in HTML."""

    @property
    def headings(self) -> list[Heading]:
        """The headings of the second level."""
        return [heading for heading in self.sections if heading.level == 2]

    @property
    def sections(self) -> list[Heading]:
        """The headings of the first three levels, with the text below each."""
        found = list(_HEADING.finditer(self.body))
        ends = [*(heading.start() for heading in found[1:]), len(self.body)]
        return [
            Heading(int(one[1]), one[2], _plain(one[3]), _plain(self.body[one.end() : end]))
            for one, end in zip(found, ends, strict=True)
        ]


@dataclass(frozen=True)
class Documents:
    """The clone's texts as pages of a site with some of its notebooks."""

    root: Path
    """Directory of ``README.md`` and ``docs``."""
    notebooks: Collection[str]
    """Names of the notebooks on the site."""

    def __post_init__(self) -> None:
        """Refuse a directory without a clone's files.

        Raises:
            UsageError: ``root`` has no ``docs/README.md`` or no ``docs/discrepancies.md``.
        """
        overview = self.root / "docs" / f"{OVERVIEW}.md"
        if not overview.is_file() or DISCREPANCIES not in self.names:
            raise UsageError(
                f"{self.root} does not hold the docs/ of a clone, which are part of the site; "
                "give --documents DIR, the directory of the clone"
            )

    @cached_property
    def names(self) -> list[str]:
        """The names of all documents but the overview."""
        found = sorted(path.stem for path in (self.root / "docs").glob("*.md"))
        return [name for name in found if name != OVERVIEW]

    def readers(self) -> list[tuple[str, list[str]]]:
        """Return the documents by audience: a heading, and a line of HTML for each document.

        The links are relative to the root of the site.
        """
        found = []
        for reader, items in _READER.findall(self._source(OVERVIEW)):
            sources = (item.removeprefix("- ") for item in items.splitlines())
            lines = (text.render(source, _Renderer(self, page="")).strip() for source in sources)
            found.append((reader, [x.removeprefix("<p>").removesuffix("</p>") for x in lines]))
        return found

    @cached_property
    def all(self) -> list[Document]:
        """Return every document and reference, as HTML for pages in ``docs/``."""
        # GitHub's identifiers would lose the dots in the names of modules
        renderer, by_name = (
            _Renderer(self),
            _Renderer(self, identify=lambda html: _plain(html).replace(" ", "-")),
        )
        written = [self._document(name, self._source(name), renderer) for name in self.names]
        references = kept("reference", key_of(()), lambda: [[p, reference(p)] for p in PACKAGES])
        return [*written, *(self._document(f"api-{p}", text, by_name) for p, text in references)]

    def images(self) -> list[Path]:
        """Return the images in documents, below ``root``."""
        return sorted(p.relative_to(self.root) for p in (self.root / "docs").rglob("*.png"))

    def causes(self) -> set[str]:
        """Return the statements for which ``discrepancies`` names a cause."""
        return {*_NAMED_STATEMENT.findall(self._source(DISCREPANCIES))} & CLAIMS.keys()

    def linked(self, html: str, root: str) -> str:
        """Turn the names of documents in a page into links.

        Args:
            html: the page, in which ``docs/NAME.md`` is written as code.
            root: relative path from the page to the root of the site.
        """

        def link(found: re.Match[str]) -> str:
            if found[1] not in self.names:
                return found[0]
            return f'<a href="{root}docs/{found[1]}.html">{found[0]}</a>'

        return _NAMED.sub(link, html)

    def goal(self, address: str, here: str, page: str) -> str | None:
        """Return the target of a link on the site, or ``None`` if the site does not have it.

        Args:
            address: the link's address in the text.
            here: directory of the text in the clone.
            page: directory of the page on the site.
        """
        parts = urlsplit(address)
        if parts.scheme or not parts.path:
            return address
        path = posixpath.normpath(posixpath.join(here, parts.path))
        if path in _ELSEWHERE:
            return posixpath.relpath(_ELSEWHERE[path], page or ".")
        if (module := _MODULE.fullmatch(path)) and module[1] in PACKAGES:
            at = f"#repro.{module[1]}.{module[2]}" if module[2] else ""
            return posixpath.relpath(f"docs/api-{module[1]}.html", page or ".") + at
        directory, file = posixpath.split(path)
        name, suffix = posixpath.splitext(file)
        known = {("docs", ".md"): self.names, ("notebooks", ".ipynb"): self.notebooks}
        if name not in known.get((directory, suffix), ()):
            return None
        found = posixpath.relpath(f"{directory}/{name}.html", page or ".")
        return f"{found}#{parts.fragment}" if parts.fragment else found

    def _document(self, name: str, source: str, renderer: "_Renderer") -> Document:
        title, _, _ = source.partition("\n")
        seen: set[str] = set()

        def identified(link: re.Match[str]) -> str:
            if link[2] in seen:
                return link[0]
            seen.add(link[2])
            return f'<a id="{link[2]}" {link[1]}'

        body = _STATEMENT_LINK.sub(identified, text.render(source, renderer))
        return Document(name, title.removeprefix("# ").replace("`", ""), body)

    def _source(self, name: str) -> str:
        return (self.root / "docs" / f"{name}.md").read_text(encoding="utf-8")


class _Renderer(text.Renderer):
    """Renders a document for a page in the directory ``page`` of the site."""

    def __init__(
        self,
        documents: Documents,
        page: str = "docs",
        identify: Callable[[str], str] | None = None,
    ) -> None:
        super().__init__()
        self._identify = identify or anchor
        self._documents = documents
        self._page = page

    def heading(self, text: str, level: int, **attrs: Any) -> str:  # noqa: ANN401 - nbconvert's
        return super().heading(text, level, **{**attrs, "id": self._identify(text)})

    def link(self, text: str, url: str, title: str | None = None) -> str:
        goal = self._documents.goal(url, "docs", self._page)
        return text if goal is None else super().link(text, goal, title)

    def codespan(self, text: str) -> str:
        html = super().codespan(text)
        if text not in CLAIMS:
            return html
        statement = CLAIMS[CLAIMS[text].same_as or text]
        page = posixpath.relpath(f"artifacts/{statement.artifact}.html", self._page or ".")
        return f'<a href="{page}#{statement.id}">{html}</a>'


def anchor(heading: str) -> str:
    """Return the identifier that GitHub assigns to a heading, which is given as HTML."""
    words = unescape(re.sub(r"<[^>]+>", "", heading)).lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")


def _plain(html: str) -> str:
    """Return the text of HTML, with all white space as single spaces."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())
