"""Markdown and notebooks as HTML that asks nothing of anybody: formulas are MathML."""

import re
from html import unescape
from typing import Any

import nbformat
from latex2mathml.converter import convert
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath


class Renderer(IPythonRenderer):
    """nbconvert's, but for formulas, which it leaves to a script."""

    def __init__(self) -> None:
        super().__init__(escape=False, exclude_anchor_links=True)

    def block_math(self, body: str) -> str:
        """Return a formula on lines of its own."""
        return _mathml(body, "block")

    def inline_math(self, body: str) -> str:
        """Return a formula within a line."""
        return _mathml(body, "inline")


class _Exporter(HTMLExporter):
    """The ``basic`` template: a body without scripts, fonts or links of its own."""

    def __init__(self) -> None:
        super().__init__(  # type: ignore[no-untyped-call]
            template_name="basic", exclude_input_prompt=True, exclude_output_prompt=True
        )

    def markdown2html(self, source: str) -> str:
        return markdown(source)


def markdown(source: str) -> str:
    """Return Markdown with formulas between dollars as HTML.

    Raises:
        latex2mathml.exceptions.LatexError: a formula is wrong.
    """
    return render(source, Renderer())


def render(source: str, renderer: Renderer) -> str:
    """Return Markdown as the renderer makes it."""
    html: str = MarkdownWithMath(renderer=renderer).render(source)
    return _accessible(html)


def notebook(content: str) -> str:
    """Return an executed notebook, given as its file's JSON, as the HTML of a page's body."""
    node: Any = nbformat.reads(content, as_version=4)  # type: ignore[no-untyped-call]
    body, _ = _Exporter().from_notebook_node(node)
    return _accessible(str(body))


def _accessible(html: str) -> str:
    """Let the keyboard reach parts that scroll sideways, and leave no heading of a column empty."""
    html = re.sub(r"<th([^>]*)>\s*</th>", r"<td\1></td>", html)
    return html.replace("<pre>", '<pre tabindex="0">').replace("<table", '<table tabindex="0"')


def _mathml(body: str, display: str) -> str:
    latex = re.sub(r"\\tag\{(.+?)\}", r"\\qquad (\1)", unescape(body))
    return str(convert(latex, display=display))
