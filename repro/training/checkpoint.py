"""The state of a run in one file, replaced atomically after each evaluation.

A checkpoint begins with the SHA-256 of the rest. A damaged checkpoint is ignored and its run starts
again: resuming from it would give wrong numbers, and PyTorch does not check the bytes that it
reads.
"""

import hashlib
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import torch

from repro.core import atomic
from repro.core.errors import ReproError, UsageError, is_out_of_memory

_DIGEST = hashlib.sha256().digest_size
_BLOCK = 1 << 20
_MISFITS = (LookupError, TypeError, ValueError, AttributeError, RuntimeError)
"""Errors raised by code that meets unexpected values."""


@dataclass(frozen=True)
class Checkpoint:
    """The file that holds the state of one run."""

    path: Path

    def load(self) -> dict[str, Any] | None:
        """Return the state, or ``None`` if it is missing or cannot be read."""
        try:
            with self.path.open("rb") as file:
                state = self.decode(file)
        except FileNotFoundError:
            return None
        if state is None:
            self.path.unlink(missing_ok=True)
        return state

    def read(self) -> bytes | None:
        """Return the content of the file, or ``None`` if it does not exist."""
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    @staticmethod
    def decode(file: BinaryIO) -> dict[str, Any] | None:
        """Return the state in ``file``, or ``None`` if there is none or it is damaged."""
        expected = file.read(_DIGEST)
        digest = hashlib.sha256()  # not file_digest, which hashes all of a BytesIO, read or not
        while block := file.read(_BLOCK):
            digest.update(block)
        if digest.digest() != expected:
            return None
        file.seek(_DIGEST)
        try:
            # to the host, as a driver without a GPU reads the states of nodes that have one
            state = torch.load(file, weights_only=True, map_location="cpu")
        except (*_MISFITS, EOFError, pickle.UnpicklingError) as error:
            if is_out_of_memory(error):  # which says nothing about the file
                raise
            return None  # intact, but of another program
        return state if isinstance(state, dict) else None

    def save(self, state: dict[str, Any]) -> None:
        """Replace the state, without copying it in memory.

        Raises:
            ReproError: the file cannot be written.
        """

        def write(file: BinaryIO) -> None:
            file.write(bytes(_DIGEST))  # the digest, known at the end, replaces these zeros
            hashing: Any = _Hashing(file)
            try:
                torch.save(state, hashing)
            except RuntimeError:  # PyTorch's error for a file that is too short
                if hashing.error is not None:
                    raise hashing.error from None
                raise
            file.seek(0)
            file.write(hashing.digest.digest())

        atomic.replace_by(self.path, write)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn failures to resume from this state into one error that says what to do.

        Raises:
            ReproError: the state is intact but does not belong to this run.
        """
        try:
            yield
        except (*_MISFITS, UsageError) as error:
            if is_out_of_memory(error):
                raise
            raise ReproError(
                f"{self.path}: not a checkpoint of this run ({type(error).__name__}: {error}); "
                "remove the file to start the run again"
            ) from error

    def remove(self) -> None:
        """Remove the state."""
        self.path.unlink(missing_ok=True)


class _Hashing:
    """Hashes the bytes written to a file, and keeps the error of a full disk."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.digest = file, hashlib.sha256()
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        try:
            return self.file.write(data)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        self.file.flush()
