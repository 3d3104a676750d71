"""Cache results of the report for as long as their inputs do not change.

A key is a hash of the content of the inputs, of this package's files and of the versions of the
libraries that draw. Modification times do not matter, so a fresh clone and an old one give the same
key.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from repro.core import atomic
from repro.core.errors import ReproError
from repro.core.paths import cache_dir, sha256_of

_PACKAGE = Path(__file__).parents[1]
_SUFFIXES = (".py", ".md", ".html", ".css", ".js")
_LIBRARIES = ("griffelib", "jinja2", "latex2mathml", "markupsafe", "matplotlib", "mistune",
              "nbconvert", "nbformat", "numpy", "pandas", "pygments", "scipy",
              "seaborn")  # fmt: skip


def key_of(paths: Iterable[Path], *more: str) -> str:
    """Return the cache key for results made from the files ``paths`` and the texts ``more``."""
    parts = [_of_the_code(), *(f"{path.name} {sha256_of(path)}" for path in paths), *more]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def kept(name: str, key: str, make: Callable[[], Any]) -> Any:  # noqa: ANN401 - any JSON value
    """Return the cached value ``name`` if its key is ``key``; else compute and cache it.

    Args:
        name: name of the file in the cache; a value with another key is replaced.
        key: the result of ``key_of``.
        make: computes the value, which must be valid in JSON.
    """
    path = cache_dir() / "report" / f"{name}.json"
    try:
        found = json.loads(path.read_bytes())
        if found["key"] == key:
            return found["value"]
    except (OSError, ValueError, KeyError, TypeError):
        pass  # nothing is cached, or the file is damaged
    text = json.dumps({"key": key, "value": make()})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic.replace(path, text.encode())
    except (OSError, ReproError):
        pass  # without a cache the next report takes as long as this one
    return json.loads(text)["value"]  # as from the cache, where a tuple is a list


@cache
def _of_the_code() -> str:
    files = sorted(path for path in _PACKAGE.rglob("*") if path.suffix in _SUFFIXES)
    lines = [f"{path.relative_to(_PACKAGE)} {sha256_of(path)}" for path in files]
    lines += [f"{library} {version(library)}" for library in _LIBRARIES]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
