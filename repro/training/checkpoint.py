"""The state of a run in one file, replaced atomically after each epoch."""

import io
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch

from repro.core import atomic


@dataclass(frozen=True)
class Checkpoint:
    """A place for the state of one run."""

    path: Path

    def load(self) -> dict[str, Any] | None:
        """Return the state, or ``None`` if there is none or it cannot be read."""
        try:
            with self.path.open("rb") as file:
                state = _decoded(file)
        except FileNotFoundError:
            return None
        if state is None:
            self.path.unlink(missing_ok=True)
        return state

    def read(self) -> bytes | None:
        """Return the content of the file, or ``None`` if there is none."""
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    @staticmethod
    def decode(content: bytes) -> dict[str, Any] | None:
        """Return the state that ``content`` holds, or ``None`` if it holds none."""
        return _decoded(io.BytesIO(content))

    def save(self, state: dict[str, Any]) -> None:
        """Replace the state, without a copy of it in memory.

        Raises:
            ReproError: it cannot be written there.
        """
        atomic.replace_by(self.path, lambda file: torch.save(state, file))

    def write(self, content: bytes) -> None:
        """Replace the content of the file; raises as ``save`` does."""
        atomic.replace(self.path, content)

    def remove(self) -> None:
        """Forget the state."""
        self.path.unlink(missing_ok=True)


def _decoded(file: BinaryIO) -> dict[str, Any] | None:
    try:
        state: dict[str, Any] = torch.load(file, weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError):
        return None
    return state
