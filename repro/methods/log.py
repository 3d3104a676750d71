"""The record of a zeroth-order run: seeds and projected gradients, which are the whole training.

A step takes 20 bytes for each of its estimates. Replayed on the weights the run started from, the
log gives the weights it ended with, bit by bit: it does the same arithmetic in the same order,
without the forward passes.
"""

import io
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

import numpy as np
import torch

from repro.core import atomic
from repro.core.errors import ReproError
from repro.data.arrays import read_npz
from repro.methods.noise import Noise, noise_of_log
from repro.methods.step_info import Estimate
from repro.methods.walk import OFFSETS, Restore, Walk

_ENTRY = struct.Struct("<Idd")
_SETTINGS = ("eps", "perturbations", "chunk", "restore", "noise")
MOST_BYTES = 2**28
"""Of the entries of a log whose steps are not known: 13 million steps."""


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
    restore: Restore = "rounded"
    """See ``repro.methods.walk``."""
    noise: str = "torch"
    """See ``repro.methods.noise``."""
    data: bytearray = field(default_factory=bytearray)
    """The entries, packed: 20 bytes each."""

    @property
    def entries(self) -> list[Entry]:
        """The estimates, unpacked."""
        return [Entry(*values) for values in _ENTRY.iter_unpack(self.data)]

    @property
    def steps(self) -> int:
        """Steps done."""
        return len(self.data) // self.bytes_of(1)

    @property
    def last(self) -> Entry | None:
        """The last estimate, or ``None`` before the first step."""
        return Entry(*_ENTRY.unpack(self.data[-_ENTRY.size :])) if self.data else None

    @property
    def settings(self) -> dict[str, Any]:
        """What all steps of the run have in common."""
        return {
            "eps": self.eps,
            "perturbations": self.perturbations,
            "chunk": self.chunk,
            "restore": self.restore,
            "noise": self.noise,
        }

    def bytes_of(self, steps: int) -> int:
        """Return the bytes that the entries of so many steps take."""
        return steps * self.perturbations * _ENTRY.size

    def append(self, estimates: Sequence[Estimate], lr: float) -> None:
        """Add one step."""
        for entry in step_entries(estimates, lr):
            self.data += _ENTRY.pack(*entry)

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
            restore=self.restore,
            noise=self.noise,
        )
        atomic.replace(path, buffer.getvalue())

    @classmethod
    def load(cls, path: Path) -> "StepLog":
        """Read what ``save`` wrote.

        Raises:
            ReproError: ``path`` is not such a file, or is damaged.
        """
        try:
            content = path.read_bytes()
            # nothing in it is compressed, so that no part is longer than the file
            stored = read_npz(content, ("entries", *_SETTINGS), len(content))
            restore = str(stored["restore"])
            if restore not in get_args(Restore):
                raise ValueError(restore)
            log = cls(
                eps=float(stored["eps"]),
                perturbations=int(stored["perturbations"]),
                chunk=int(stored["chunk"]) or None,
                restore=cast("Restore", restore),
                noise=str(stored.get("noise", "torch")),  # older files name none
                data=bytearray(stored["entries"].tobytes()),
            )
            log.require_whole()
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            msg = (
                f"{path}: not a log of zeroth-order steps, or damaged ({error}); log the run again"
            )
            raise ReproError(msg) from error
        return log

    def require_whole(self) -> None:
        """Raise ``ValueError`` unless the settings can be and the entries are whole steps."""
        if not (math.isfinite(self.eps) and self.eps > 0 and (self.chunk or 1) > 0):
            msg = f"eps = {self.eps}, chunk = {self.chunk}: must be above 0"
            raise ValueError(msg)
        if self.perturbations < 1 or len(self.data) % self.bytes_of(1):
            msg = (
                f"{len(self.data)} bytes of entries are no whole number of steps of "
                f"{self.perturbations} estimates"
            )
            raise ValueError(msg)


def replay(log: StepLog, parameters: Sequence[torch.Tensor], noise: Noise | None = None) -> None:
    """Turn the weights a run started from into those it ended with, in place.

    With ``restore="exact"`` only the updates are made, a third of the passes.

    Args:
        log: the log of the run.
        parameters: the tensors that were perturbed, in the same order, on the same kind of device.
        noise: that of the run; none stands for PyTorch's.

    Raises:
        UsageError: the run had other noise, or it does not go with the parameters.
    """
    same = noise_of_log(log.noise, log.chunk, noise)
    walk = Walk(list(parameters), log.restore, log.eps, log.chunk, same)
    walk.prepare()
    estimates = log.entries
    for start in range(0, len(estimates), log.perturbations):
        entries = estimates[start : start + log.perturbations]
        if not walk.exact:  # the rounding errors of these passes are part of the weights
            for entry in entries:
                for offset in OFFSETS:
                    walk.perturb(entry.seed, offset)
        walk.update(update_rates(entries))


def step_entries(estimates: Sequence[Estimate], lr: float) -> list[Entry]:
    """Return the entries of one step."""
    return [Entry(estimate.seed, estimate.projected_gradient, lr) for estimate in estimates]


def update_rates(entries: Sequence[Entry]) -> list[tuple[int, float]]:
    """Return each seed of a step with the factor by which its z is subtracted from theta.

    The last estimate comes first: the weights are still perturbed by it.
    """
    return [
        (entry.seed, entry.lr / len(entries) * entry.gradient)
        for entry in (entries[-1], *entries[:-1])
    ]
