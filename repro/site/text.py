"""Convert Markdown and notebooks to HTML without scripts or remote files; formulas are MathML."""

import re
from html import unescape
from typing import Any

import nbformat
from latex2mathml.converter import convert
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from repro.report.formatting import FOLDED, STATEMENT


class Renderer(IPythonRenderer):
    """nbconvert's renderer, except for formulas, which nbconvert leaves to a script."""

    def __init__(self) -> None:
        # documents hold HTML, such as comments; nbconvert would add a sign to each heading
        super().__init__(escape=False, exclude_anchor_links=True)

    def block_math(self, body: str) -> str:
        """Return a formula on its own lines."""
        # a wide formula scrolls, by the keyboard, too
        return _mathml(body, "block").replace("<math ", '<math tabindex="0" ', 1)

    def inline_math(self, body: str) -> str:
        """Return a formula within a line."""
        return _mathml(body, "inline")


_FOLDED_CODE = """{% extends "basic/index.html.j2" %}
{% block input_group %}<details class="code"><summary>Code</summary>
{{ super() }}
</details>{% endblock %}
"""


class _Exporter(HTMLExporter):
    """nbconvert's ``basic`` template with folded code: no scripts, fonts or links of its own."""

    def __init__(self) -> None:
        super().__init__(  # type: ignore[no-untyped-call]
            template_name="basic",
            raw_template=_FOLDED_CODE,
            exclude_input_prompt=True,
            exclude_output_prompt=True,
        )

    def markdown2html(self, source: str) -> str:
        return markdown(source)


def markdown(source: str) -> str:
    """Return Markdown with formulas between dollars as HTML.

    Raises:
        latex2mathml.exceptions.LatexError: a formula is invalid.
    """
    return render(source, Renderer())


def render(source: str, renderer: Renderer) -> str:
    """Return Markdown rendered by ``renderer``."""
    html: str = MarkdownWithMath(renderer=renderer).render(source)
    return _accessible(html)


def notebook(content: str) -> str:
    """Return an executed notebook, given as its file's JSON, as the HTML of a page's body."""
    node: Any = nbformat.reads(content, as_version=4)  # type: ignore[no-untyped-call]
    exporter = _Exporter()
    html = []
    sections: list[list[Any]] = [[]]  # each begins with a heading of the second level
    for cell in node.cells:
        if cell.cell_type == "markdown" and cell.source.startswith("## ") and sections[-1]:
            sections.append([])
        sections[-1].append(cell)
    for cells in sections:  # each by itself: nbconvert knows no sections that fold
        node.cells = cells
        body, _ = exporter.from_notebook_node(node)
        if FOLDED in cells[0].metadata:  # the section opens with a click on its heading
            before, heading, rest = re.split("(<h2.*?</h2>)", body, maxsplit=1, flags=re.DOTALL)
            body = f"<details><summary>{heading}</summary>{before}{rest}</details>"
        html.append(str(body))
    return _labelled(_accessible("".join(html)))


_MARKUP = re.compile(r"(<(code|pre|script|style|math|svg)\b.*?</\2>|<[^>]*>)", re.DOTALL)
_UNITS = "%|\N{MULTIPLICATION SIGN}|points?|[kKMG]i?B|ms|s|min|h"
_BEFORE_UNIT = re.compile(rf"(?<=\d) (?=(?:{_UNITS})(?!\w))|(?<=±) (?=\d)")


def unbroken(html: str) -> str:
    """Keep numbers and units of a page on one line, by no-break spaces; code stays as it is."""
    parts = _MARKUP.split(html)
    parts[::3] = [_BEFORE_UNIT.sub("\N{NO-BREAK SPACE}", part) for part in parts[::3]]
    del parts[2::3]  # the names of elements
    return "".join(parts)


def _labelled(html: str) -> str:
    """Put the headings of the ledger's table on its cells, which a phone shows as a list."""

    def label(table: re.Match[str]) -> str:
        headings = re.findall(r"<th\b[^>]*>(.*?)</th>", table[0])
        if STATEMENT not in headings:
            return table[0]
        rows = re.split("(?=<tr)", table[0].replace("<table", '<table class="ledger"', 1))
        for place, row in enumerate(rows):
            labels = iter(headings)
            rows[place] = re.sub("<td", lambda _, of=labels: f'<td data-label="{next(of)}"', row)
        return "".join(rows)

    return re.sub(r"<table\b.*?</table>", label, html, flags=re.DOTALL)


def _accessible(html: str) -> str:
    """Make sideways-scrolling parts reachable by keyboard, and fill empty column headings."""
    html = re.sub(r"<th([^>]*)>\s*</th>", r"<td\1></td>", html)
    html = re.sub(r"<(pre|table)(?=>| (?!tabindex))", r'<\1 tabindex="0"', html)
    return html.replace('<div class="output_png', '<div tabindex="0" class="output_png')


def _mathml(body: str, display: str) -> str:
    # latex2mathml would put the number right after the formula, without a space
    latex = re.sub(r"\\tag\{(.+?)\}", r"\\qquad (\1)", unescape(body))
    return str(convert(latex, display=display))
