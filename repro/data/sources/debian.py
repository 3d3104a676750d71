"""Packages of Debian and its relatives, through apt; they are unpacked, never installed."""

import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from repro.data.base import BadContentError, Request, SourceUnavailableError, Value
from repro.data.sources.archives import open_tar
from repro.data.sources.clients import run_client


@dataclass(frozen=True)
class DebianPackage:
    """A set in a package of the distribution, whichever version that has."""

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
        with tar.open("wb") as file:
            unpacked = subprocess.run(  # noqa: S603 - a fixed command
                [_client("dpkg-deb"), "--fsys-tarfile", str(path)],
                stdout=file,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        if unpacked.returncode != 0:
            msg = f"{path.name}: {unpacked.stderr.strip()}"
            raise BadContentError(msg)
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


def read_member(archive: tarfile.TarFile, name: str) -> bytes:
    """Return the content of the regular file ``name`` of ``archive``.

    Raises:
        BadContentError: it is not there, or is not a regular file.
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
