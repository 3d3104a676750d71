"""Environment variables of child processes."""

import os
import site
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import repro

ROOT = Path(repro.__file__).resolve().parent.parent
"""The directory on the import path in which this process found the package."""


@contextmanager
def environment_set(settings: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables while the block runs."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def same_package() -> dict[str, str]:
    """Return variables that make a child Python import the same package as this process.

    ``python -c`` and ``python -m`` look for modules in the current directory first, so a command
    run in a directory with another ``repro`` would run that code. Children inherit the interpreter
    options of this process: under -E they would ignore these variables.
    """
    safe = {"PYTHONSAFEPATH": "1"}
    if str(ROOT) in (*site.getsitepackages(), site.getusersitepackages()):
        return safe
    given = os.environ.get("PYTHONPATH")
    return safe | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [given])])}
