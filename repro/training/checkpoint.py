"""The state of a run in one file, replaced atomically after each epoch."""

import io
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from repro.core import atomic


@dataclass(frozen=True)
class Checkpoint:
    """A place for the state of one run."""

    path: Path

    def load(self) -> dict[str, Any] | None:
        """Return the state, or ``None`` if there is none or it cannot be read."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            state: dict[str, Any] = torch.load(io.BytesIO(content), weights_only=True)
        except (RuntimeError, EOFError, pickle.UnpicklingError):
            self.path.unlink(missing_ok=True)
            return None
        return state

    def save(self, state: dict[str, Any]) -> None:
        """Replace the state.

        Raises:
            ReproError: it cannot be written there.
        """
        buffer = io.BytesIO()
        torch.save(state, buffer)
        atomic.replace(self.path, buffer.getvalue())

    def remove(self) -> None:
        """Forget the state."""
        self.path.unlink(missing_ok=True)
