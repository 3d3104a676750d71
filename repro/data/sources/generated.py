"""Computed sets: from a seed alone, or from another set."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from repro.data.base import Request, Value


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
