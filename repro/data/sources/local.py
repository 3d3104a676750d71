"""Sets without a download: from the user's mirror directory, or computed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.data.base import Request, SourceUnavailableError, Value


@dataclass(frozen=True)
class Mirror:
    """Sets laid out under the user's mirror directory."""

    directory: str
    """Subdirectory of the mirror that holds the set."""
    read: Callable[[Path], Mapping[str, Value]]
    """Returns the content from that subdirectory; raises ``BadContentError`` or ``OSError``."""
    name = "mirror"

    def fetch(self, request: Request) -> Mapping[str, Value]:
        """Read the set from the mirror; see ``Source``."""
        if request.mirror is None:
            msg = "no mirror directory given (--mirror DIR or REPRO_DATA_MIRROR)"
            raise SourceUnavailableError(msg)
        path = request.mirror / self.directory
        if not path.is_dir():
            msg = f"{path} is not there"
            raise SourceUnavailableError(msg)
        try:
            return self.read(path)
        except OSError as error:
            msg = f"{error.filename or path}: {error.strerror or error}"
            raise SourceUnavailableError(msg) from error


@dataclass(frozen=True)
class Generated:
    """A set made by a deterministic function without arguments."""

    make: Callable[[], Mapping[str, Value]]
    name = "generated"

    def fetch(self, request: Request) -> Mapping[str, Value]:  # noqa: ARG002 - needs nothing
        """Make the set; see ``Source``."""
        return self.make()


@dataclass(frozen=True)
class Derived:
    """A set computed from another one."""

    base: str
    """Name of the other set."""
    make: Callable[[Mapping[str, Any]], Mapping[str, Value]]

    @property
    def name(self) -> str:
        """``derived:`` and the name of the base set."""
        return f"derived:{self.base}"

    def fetch(self, request: Request) -> Mapping[str, Value]:
        """Make the set from its base, which is fetched first if needed; see ``Source``."""
        return self.make(request.load(self.base))
