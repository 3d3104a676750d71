"""The record of a zeroth-order run: seeds and projected gradients, which are the whole training.

A step takes 20 bytes for each of its estimates. Replayed on the weights the run started from, the
log gives the weights it ended with, bit by bit: it does the same arithmetic in the same order,
without the forward passes.
"""

import io
import struct
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from repro.core import atomic
from repro.core.errors import ReproError
from repro.methods.perturbation import perturb_
from repro.methods.step_info import Estimate

_ENTRY = struct.Struct("<Idd")


class Entry(NamedTuple):
    """One estimate of one step."""

    seed: int
    gradient: float
    """Projected gradient, after clipping."""
    lr: float
    """Learning rate of the step."""


@dataclass
class StepLog:
    """All estimates of a run in order, ``perturbations`` of them to a step."""

    eps: float
    perturbations: int
    chunk: int | None
    data: bytearray = field(default_factory=bytearray)
    """The entries, packed: 20 bytes each."""

    @property
    def entries(self) -> list[Entry]:
        """The estimates, unpacked."""
        return [Entry(*values) for values in _ENTRY.iter_unpack(self.data)]

    def append(self, estimates: Sequence[Estimate], lr: float) -> list[Entry]:
        """Add one step and return its entries."""
        step = [Entry(e.seed, e.projected_gradient, lr) for e in estimates]
        for entry in step:
            self.data += _ENTRY.pack(*entry)
        return step

    def save(self, path: Path) -> None:
        """Write the log to ``path`` in one step, as NumPy's ``.npz``.

        Raises:
            ReproError: it cannot be written there.
        """
        buffer = io.BytesIO()
        np.savez(
            buffer,
            entries=np.frombuffer(bytes(self.data), np.uint8),
            eps=self.eps,
            perturbations=self.perturbations,
            chunk=self.chunk or 0,
        )
        atomic.replace(path, buffer.getvalue())

    @classmethod
    def load(cls, path: Path) -> "StepLog":
        """Read what ``save`` wrote.

        Raises:
            ReproError: ``path`` is not such a file, or is damaged.
        """
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as stored:
                log = cls(
                    eps=float(stored["eps"]),
                    perturbations=int(stored["perturbations"]),
                    chunk=int(stored["chunk"]) or None,
                    data=bytearray(stored["entries"].tobytes()),
                )
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            msg = f"{path}: not a log of zeroth-order steps, or damaged ({error})"
            raise ReproError(msg) from error
        if len(log.data) % (log.perturbations * _ENTRY.size):
            msg = f"{path}: {len(log.data)} bytes of entries are no whole number of steps"
            raise ReproError(msg)
        return log


@torch.no_grad()
def replay(log: StepLog, parameters: Sequence[torch.Tensor]) -> None:
    """Turn the weights a run started from into those it ended with, in place.

    Args:
        log: the log of the run.
        parameters: the tensors that were trained, in the same order, on the same kind of device.
    """
    parameters = list(parameters)
    estimates = log.entries
    for start in range(0, len(estimates), log.perturbations):
        entries = estimates[start : start + log.perturbations]
        for entry in entries:
            perturb_(parameters, entry.seed, log.eps, log.chunk)
            perturb_(parameters, entry.seed, -2 * log.eps, log.chunk)
            if entry is not entries[-1]:
                perturb_(parameters, entry.seed, log.eps, log.chunk)
        for seed, scale in updates(entries, log.eps):
            perturb_(parameters, seed, scale, log.chunk)


def updates(entries: Sequence[Entry], eps: float) -> list[tuple[int, float]]:
    """Return the (seed, scale) of the passes that restore the last estimate and update by all."""
    rates = [entry.lr / len(entries) * entry.gradient for entry in entries]
    merged = (entries[-1].seed, eps - rates[-1])
    earlier = zip(entries[:-1], rates[:-1], strict=True)
    return [merged, *((entry.seed, -rate) for entry, rate in earlier)]
