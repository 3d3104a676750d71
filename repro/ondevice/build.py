"""Builds the engine on demand, into the user's cache, and loads it.

The package holds no binary and installs without a compiler. ``repro engine build`` compiles the
sources in this directory. The result is kept under a name made of their content, the Python, the C
library and the chosen compiler: after a change of any of them the engine is built again, and no old
one is loaded.
"""

import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from repro.core import atomic
from repro.core.errors import ReproError
from repro.core.leftovers import temporary_directory
from repro.core.paths import cache_dir
from repro.core.processes import run_command
from repro.core.validation import require_choice

SOURCES = Path(__file__).with_name("cpp")
_MODULE = "_engine"
_NEEDS = (
    "it takes a C++20 compiler (g++ 12 or later, or clang++ 16), CMake 3.22 and nanobind, of which "
    "`pip install cmake nanobind` brings the last two"
)


class EngineError(ReproError):
    """The engine is not there, or could not be built."""


class ToolsMissingError(EngineError):
    """The compiler or another tool that builds the engine is missing."""


def module_path() -> Path:
    """Return where the module made of these sources is, or would be.

    Engines are kept in ``REPRO_ENGINE_DIR``, else in the cache directory.
    """
    digest = _digest_of(SOURCES).copy()
    suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
    compiler = [os.environ.get(name, "") for name in ("CXX", "CXXFLAGS")]
    # another machine that shares the directory may have an older C library
    digest.update("\0".join([suffix, *compiler, *platform.libc_ver()]).encode())
    override = os.environ.get("REPRO_ENGINE_DIR")
    root = Path(override) if override else cache_dir() / "engine"
    return root / digest.hexdigest()[:16] / f"{_MODULE}{suffix}"


@cache
def _digest_of(sources: Path) -> "hashlib._Hash":
    """Return the hash of the files in ``sources``, to be copied before more is added."""
    digest = hashlib.sha256()
    for path in sorted(sources.rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(sources).as_posix().encode() + b"\0")
            digest.update(path.read_bytes())
    return digest


def build(*, otherwise: str = "") -> Path:
    """Build the module, unless it is there as a whole, and return its path.

    The module is written atomically. Of two builds at a time, the second waits for the first.

    Args:
        otherwise: what a user without the tools can do instead, for the error.

    Raises:
        ToolsMissingError: there is no compiler, no CMake or no nanobind.
        EngineError: the directory cannot be written, or the build fails; the message has the end of
            its output.
    """
    target = module_path()
    if _is_whole(target):
        return target
    own = Path(sys.executable).with_name("cmake")  # of this environment, else the system's
    cmake = str(own) if own.is_file() else shutil.which("cmake") or ""
    # as CMake reads CXX: a launcher such as ccache may come before the compiler
    compilers = shlex.split(os.environ.get("CXX", ""))[:1] or ["c++", "g++", "clang++"]
    missing = ""
    if not any(map(shutil.which, compilers)):
        missing = f"C++ compiler ({', '.join(compilers)})"
    elif not cmake:
        missing = "CMake"
    elif importlib.util.find_spec("nanobind") is None:
        missing = "nanobind"
    if missing:
        msg = f"no {missing} to build the engine with: {_NEEDS}"
        raise ToolsMissingError(f"{msg}; or {otherwise}" if otherwise else msg)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.parent.with_suffix(".lock")), temporary_directory(target) as directory:
            if not _is_whole(target):  # by now it may be
                _compile(cmake, directory, target)
    except OSError as error:
        raise EngineError(
            f"cannot store the engine in {target.parent}: {error.strerror or error}; set "
            "REPRO_ENGINE_DIR to a directory that can be written"
        ) from error
    return target


def _compile(cmake: str, directory: Path, target: Path) -> None:
    """Compile in ``directory``, and write the module's size and then the module."""
    _run(
        cmake,
        *("-S", str(SOURCES), "-B", str(directory), "-DZO_PYTHON=ON"),
        f"-DPython_EXECUTABLE={sys.executable}",
    )
    _run(cmake, "--build", str(directory), "--parallel", str(os.cpu_count() or 1))
    module = (directory / target.name).read_bytes()
    atomic.replace(_size_file(target), str(len(module)).encode())
    atomic.replace(target, module)


def _size_file(module: Path) -> Path:
    return module.with_suffix(".size")


def _is_whole(module: Path) -> bool:
    """Return whether a built module has its full size; loading one cut short kills the process."""
    try:
        return module.stat().st_size == int(_size_file(module).read_text())
    except (OSError, ValueError):
        return False


def is_built() -> bool:
    """Return whether the engine was built from these sources."""
    return f"repro.ondevice.{_MODULE}" in sys.modules or _is_whole(module_path())


def load() -> Any:  # noqa: ANN401 - a compiled module
    """Return the module.

    Raises:
        EngineError: it has not been built; says how to.
    """
    name = f"repro.ondevice.{_MODULE}"
    if name in sys.modules:
        return sys.modules[name]
    path = module_path()
    if not _is_whole(path):
        raise EngineError(f"the on-device engine is not built: run `repro engine build`; {_NEEDS}")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # noqa: S101 - the suffix is that of an extension
    assert spec.loader is not None  # noqa: S101
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError as error:
        raise EngineError(
            f"the engine cannot be loaded ({error}): remove {path} and run `repro engine build`"
        ) from error
    sys.modules[name] = module
    return module


def load_for(instructions: str) -> Any:  # noqa: ANN401 - a compiled module
    """Return the module.

    Raises:
        UsageError: this machine has no such instruction set.
        EngineError: as ``load``.
    """
    engine = load()
    require_choice("instructions", instructions, ("auto", *engine.instruction_sets()))
    return engine


def _run(*command: str) -> None:
    done = run_command(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode:
        end = "\n".join((done.stdout + done.stderr).splitlines()[-20:])
        raise EngineError(f"building the engine failed; {_NEEDS}. The end of the output:\n{end}")
