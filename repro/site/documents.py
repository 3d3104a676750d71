"""README's headlines and ``docs/`` as HTML, with links to what of the clone the site has.

A link to anything else of the clone, such as its code, is left out, its text kept. An identifier of
a claim leads to the claim.
"""

import posixpath
import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from repro.claims.index import CLAIMS
from repro.core.errors import UsageError
from repro.site import text

DISCREPANCIES = "discrepancies"
"""The document that names the causes of differences."""
_SUMMARY = re.compile(r"^(\| statement \| published \|.*?)\n\n", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"<code>docs/(\w+)\.md</code>")
_STATEMENT_LINK = re.compile(r'<a (href="[^"]*artifacts/[^"]*#([AB][\w-]*)")')
_NAMED_STATEMENT = re.compile(r"`([AB][\w-]*)`")


@dataclass(frozen=True)
class Document:
    """A file of ``docs/``."""

    name: str
    """Without directory and suffix."""
    title: str
    body: str
    """HTML."""


@dataclass(frozen=True)
class Documents:
    """The clone's texts, as the pages of a site that also has some of its notebooks."""

    root: Path
    """Directory of ``README.md`` and ``docs``."""
    notebooks: Collection[str]
    """Names of those that the site has."""

    def __post_init__(self) -> None:
        """Refuse a directory that is no clone.

        Raises:
            UsageError: it has no ``README.md`` with a summary, or no ``docs/discrepancies.md``.
        """
        readme = self.root / "README.md"
        whole = readme.is_file() and _SUMMARY.search(readme.read_text(encoding="utf-8"))
        if not whole or DISCREPANCIES not in self.names:
            msg = f"{self.root} has not README.md and docs of a clone; give --documents DIR"
            raise UsageError(msg)

    @cached_property
    def names(self) -> list[str]:
        """The names of all documents."""
        return sorted(path.stem for path in (self.root / "docs").glob("*.md"))

    def summary(self) -> str:
        """Return README's headline statements as HTML for a page at the top of the site."""
        found = _SUMMARY.search((self.root / "README.md").read_text(encoding="utf-8"))
        return self._html(found[1] if found else "", "")

    def all(self) -> list[Document]:
        """Return every document, as HTML for pages in ``docs/``."""
        return [self._document(name) for name in self.names]

    def images(self) -> list[Path]:
        """Return the images that documents show, below ``root``."""
        return sorted(p.relative_to(self.root) for p in (self.root / "docs").rglob("*.png"))

    def causes(self) -> set[str]:
        """Return the statements that ``discrepancies`` names a cause of."""
        return {*_NAMED_STATEMENT.findall(self._source(DISCREPANCIES))} & CLAIMS.keys()

    def linked(self, html: str, root: str) -> str:
        """Return the HTML of a page with links to the documents that it names.

        Args:
            html: where ``docs/NAME.md`` is written as code.
            root: from the page to the top of the site.
        """

        def link(found: re.Match[str]) -> str:
            if found[1] not in self.names:
                return found[0]
            return f'<a href="{root}docs/{found[1]}.html">{found[0]}</a>'

        return _NAMED.sub(link, html)

    def goal(self, address: str, here: str) -> str | None:
        """Return where a link of a text in the clone's directory ``here`` leads on the site."""
        parts = urlsplit(address)
        if parts.scheme or not parts.path:
            return address
        directory, file = posixpath.split(posixpath.normpath(posixpath.join(here, parts.path)))
        name, suffix = posixpath.splitext(file)
        known = {("docs", ".md"): self.names, ("notebooks", ".ipynb"): self.notebooks}
        if name not in known.get((directory, suffix), ()):
            return None
        page = posixpath.relpath(f"{directory}/{name}.html", here or ".")
        return f"{page}#{parts.fragment}" if parts.fragment else page

    def _document(self, name: str) -> Document:
        title, _, _ = self._source(name).partition("\n")
        seen: set[str] = set()

        def identified(link: re.Match[str]) -> str:
            if link[2] in seen:
                return link[0]
            seen.add(link[2])
            return f'<a id="{link[2]}" {link[1]}'

        body = _STATEMENT_LINK.sub(identified, self._html(self._source(name), "docs"))
        return Document(name, title.removeprefix("# ").replace("`", ""), body)

    def _source(self, name: str) -> str:
        return (self.root / "docs" / f"{name}.md").read_text(encoding="utf-8")

    def _html(self, source: str, here: str) -> str:
        return text.render(source, _Renderer(self, here))


class _Renderer(text.Renderer):
    """Of a text in the directory ``here``: the clone's, and so the site's."""

    def __init__(self, documents: Documents, here: str) -> None:
        super().__init__()
        self._documents = documents
        self._here = here

    def heading(self, text: str, level: int, **attrs: Any) -> str:  # noqa: ANN401 - nbconvert's
        return super().heading(text, level, **{**attrs, "id": anchor(text)})

    def link(self, text: str, url: str, title: str | None = None) -> str:
        goal = self._documents.goal(url, self._here)
        return text if goal is None else super().link(text, goal, title)

    def codespan(self, text: str) -> str:
        html = super().codespan(text)
        claim = CLAIMS.get(text)
        if claim is None:
            return html
        page = posixpath.relpath(f"artifacts/{claim.artifact}.html", self._here or ".")
        return f'<a href="{page}#{claim.same_as or text}">{html}</a>'


def anchor(heading: str) -> str:
    """Return the identifier that GitHub gives to a heading, itself given as HTML."""
    words = unescape(re.sub(r"<[^>]+>", "", heading)).lower()
    return re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
