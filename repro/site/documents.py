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
