"""Packages of Debian and its relatives, through apt; they are unpacked, never installed."""

import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from repro.core.processes import end_with_parent
from repro.data.base import BadContentError, Request, SourceUnavailableError, Value
from repro.data.sources.archives import open_tar
from repro.data.sources.clients import run_client

_BLOCK = 2**20
_LARGEST_TREE = 2**28
"""Largest unpacked package in bytes; Fashion-MNIST's has 31 million."""


@dataclass(frozen=True)
class DebianPackage:
    """A set in a package of the distribution, in the distribution's version."""

    package: str
    read: Callable[[tarfile.TarFile], Mapping[str, Value]]
    """Returns the content from the package's file tree."""

    @property
    def name(self) -> str:
        """``debian:`` and the package's name."""
        return f"debian:{self.package}"

    def fetch(self, request: Request) -> Mapping[str, Value]:
        """Download the package and read it; see ``Source``."""
        path = self._download(request.workspace)
        tar = path.with_suffix(".tar")
        _unpack(path, tar)
        with tar.open("rb") as unpacked_file, open_tar(unpacked_file, path.name) as archive:
            return self.read(archive)

    def _download(self, directory: Path) -> Path:
        unsandboxed = ["-o", "APT::Sandbox::User=root"]  # else root's apt warns of the directory
        try:
            run_client([_client("apt-get"), "download", *unsandboxed, self.package], directory)
        except SourceUnavailableError as error:
            msg = f"{error}; refresh the package lists with apt-get update, if they are old"
            raise SourceUnavailableError(msg) from error
        found = list(directory.glob(f"{self.package}_*.deb"))
        if len(found) != 1:
            msg = f"expected one {self.package}_*.deb, got {len(found)}"
            raise BadContentError(msg)
        return found[0]


def _unpack(package: Path, tar: Path) -> None:
    """Write the file tree of ``package`` to ``tar``, unless it exceeds the size limit."""
    command = [_client("dpkg-deb"), "--fsys-tarfile", str(package)]
    with (
        tar.open("wb") as file,
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(  # noqa: S603 - a fixed command
            command, stdout=subprocess.PIPE, stderr=errors, preexec_fn=end_with_parent
        ) as unpacking,
    ):
        assert unpacking.stdout is not None  # noqa: S101 - for the type checker
        while block := unpacking.stdout.read(_BLOCK):
            file.write(block)
            if file.tell() > _LARGEST_TREE:
                unpacking.kill()
                msg = f"{package.name}: holds more than {_LARGEST_TREE:,} bytes; get it again"
                raise BadContentError(msg)
        unpacking.stdout.close()
        if unpacking.wait() != 0:
            errors.seek(0)
            msg = f"{package.name}: {errors.read().decode(errors='replace').strip()}"
            raise BadContentError(msg)


def read_member(archive: tarfile.TarFile, name: str) -> bytes:
    """Return the content of the regular file ``name`` of ``archive``.

    Raises:
        BadContentError: it is missing, or is not a regular file.
    """
    try:
        file = archive.extractfile(name)
    except KeyError:
        file = None
    if file is None:
        msg = f"the package has no file {name}"
        raise BadContentError(msg)
    return file.read()


def _client(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        msg = f"{name} is not installed (it belongs to Debian and its relatives)"
        raise SourceUnavailableError(msg)
    return path
