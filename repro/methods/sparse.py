"""Sparse directions: noise on the small weights only (Sparse MeZO, arXiv 2402.15751)."""

import copy
import math
import struct
import zlib
from collections.abc import Iterable, Sequence

import numpy as np
import torch

from repro.core.errors import UsageError
from repro.methods.lattice import Lattice
from repro.methods.noise import LatticeStep, Noise, Pass, PiecewiseNoise, default_chunk, split
from repro.methods.parameters import trainable
from repro.methods.torch_noise import TorchNoise

_BITS = torch.tensor([1 << bit for bit in range(8)], dtype=torch.uint8)
_INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers of as many bytes as a weight."""


def thresholds_of(
    parameters: Iterable[torch.Tensor] | Iterable[tuple[str, torch.Tensor]], sparsity: float
) -> list[float]:
    """Return the magnitude in each tensor below which a fraction 1 - ``sparsity`` of it lies.

    It is infinite if all of them are equally large, as in a new bias or LoRA's B, which is zero: no
    weight is then smaller than the others, and after a step none would stay within a threshold.

    Raises:
        UsageError: ``sparsity`` is not in [0, 1), or there is nothing to train.
    """
    if not 0 <= sparsity < 1:
        raise UsageError(f"sparsity = {sparsity!r}: must be at least 0 and below 1")
    found = []
    for parameter in trainable(parameters):
        magnitudes = parameter.detach().abs().view(-1).float()
        if len(magnitudes) > 1 and magnitudes.min() == magnitudes.max():
            found.append(math.inf)
            continue
        kept = max(1, round((1 - sparsity) * len(magnitudes)))
        found.append(float(magnitudes.kthvalue(kept).values))
    return found


class SparseNoise(PiecewiseNoise):
    """z where a weight's magnitude is at most the threshold of its tensor, and 0 elsewhere.

    Example::

        thresholds = thresholds_of(model.parameters(), sparsity=0.75)
        mezo = MeZO(model.parameters(), lr=1e-6, eps=1e-3, noise=SparseNoise(thresholds))

    The thresholds are fixed before training. Each step compares theta with them and keeps the
    result, one bit per weight, since it cannot be recovered from theta + eps z. Resuming and replay
    need noise with the same thresholds, from the initial weights; the log identifies them by a
    checksum.
    """

    def __init__(self, thresholds: Sequence[float], dense: Noise | None = None) -> None:
        """Take the thresholds, and the noise for the weights below them, by default PyTorch's.

        On a CPU the engine's is faster with rounded restores (``repro.ondevice.noise``).

        Raises:
            UsageError: ``dense`` draws whole matrices, or is sparse itself.
        """
        dense = TorchNoise() if dense is None else dense
        if not isinstance(dense, PiecewiseNoise) or isinstance(dense, SparseNoise):
            raise UsageError(
                f"dense = {type(dense).__name__}: must be noise that is drawn in pieces and is not "
                "sparse itself, such as TorchNoise, RademacherNoise or EngineNoise"
            )
        self.thresholds = list(thresholds)
        self.dense = dense
        checksum = zlib.crc32(struct.pack(f"<{len(self.thresholds)}d", *self.thresholds))
        self.name = f"sparse-{self.dense.name}-{checksum:08x}"
        self._chunk = dense.agreed_chunk(None)
        self._masks: dict[int, torch.Tensor] = {}  # packed, by the address of the weights

    def prepare(self, parameters: Sequence[torch.Tensor], *, exact: bool) -> None:
        """Raise ``UsageError`` unless there is a threshold for each of ``parameters``."""
        self.dense.prepare(parameters, exact=exact)
        if len(parameters) != len(self.thresholds):
            raise UsageError(
                f"{len(self.thresholds)} thresholds for {len(parameters)} parameters: sparse noise "
                "takes one for each, and a single parameter group"
            )

    def agreed_chunk(self, chunk: int | None) -> int | None:
        """Return the chunk of the noise for the small weights; see ``TorchNoise``."""
        if chunk is not None:
            self.dense = copy.copy(self.dense)  # the caller may use it with another chunk
        self._chunk = self.dense.agreed_chunk(chunk)
        return self._chunk

    @torch.no_grad()
    def add_(self, parameters: Sequence[torch.Tensor], seed: int, scale: float) -> None:
        """Add ``scale`` z(``seed``) to the small weights, in place."""
        size = self._chunk or default_chunk(parameters[0].device)
        self._decide(parameters, size)
        for weights, own in self._pieces(parameters, seed, size):
            moved = weights.clone()
            self.dense.add_([moved], own, scale)
            self._keep(weights, moved)

    def step_on_lattice_(
        self, parameters: Sequence[torch.Tensor], seed: int, step: LatticeStep, chunk: int | None
    ) -> None:
        """Do ``step`` along z(``seed``), in place."""
        self._decide(parameters, chunk)
        super().step_on_lattice_(parameters, seed, step, chunk)

    def draw_(self, vector: torch.Tensor, seed: int) -> None:
        """Draw the noise as if every weight were small."""
        self.dense.draw_(vector, seed)

    def lattice_pass(self, lattice: Lattice, step: LatticeStep) -> Pass:
        """Return ``step`` applied only to the small ones among the given weights."""
        dense = self.dense.lattice_pass(lattice, step)

        def change(weights: torch.Tensor, seed: int) -> None:
            moved = weights.clone()
            dense(moved, seed)
            self._keep(weights, moved)

        return change

    def release(self) -> None:
        """Forget which weights are small."""
        self._masks = {}
        self.dense.release()

    @torch.no_grad()
    def _decide(self, parameters: Sequence[torch.Tensor], chunk: int | None) -> None:
        """Decide in a step's first pass, when the weights are at theta, which are small."""
        if self._masks:
            return
        self._masks = {  # a new one, as a copy of this noise shares the old one
            weights.data_ptr(): _packed(weights.abs().float() <= threshold)
            for parameter, threshold in zip(parameters, self.thresholds, strict=True)
            for weights in split(parameter, chunk or default_chunk(parameter.device))
        }

    def _keep(self, weights: torch.Tensor, moved: torch.Tensor) -> None:
        """Copy ``moved`` to the small weights."""
        small = _unpacked(self._masks[weights.data_ptr()], len(weights))
        # bit by bit, as torch.where takes four times as long on a CPU
        own, other = (tensor.view(_INTEGERS[tensor.element_size()]) for tensor in (weights, moved))
        own.bitwise_xor_(torch.bitwise_xor(own, other).bitwise_and_(small.to(own.dtype).neg_()))


def _packed(small: torch.Tensor) -> torch.Tensor:
    """Return booleans as uint8, eight in each."""
    if small.device.type == "cpu":  # NumPy is more than ten times as fast
        return torch.from_numpy(np.packbits(small.numpy(), bitorder="little"))
    eights = torch.nn.functional.pad(small, (0, -len(small) % 8)).view(-1, 8)
    return (eights * _BITS.to(small.device)).sum(1, dtype=torch.uint8)


def _unpacked(packed: torch.Tensor, count: int) -> torch.Tensor:
    """Return the first ``count`` booleans of ``packed`` as uint8, 0 or 1."""
    if packed.device.type == "cpu":
        bits = np.unpackbits(packed.numpy(), count=count, bitorder="little")
        return torch.from_numpy(bits)
    return ((packed[:, None] & _BITS.to(packed.device)).view(-1)[:count] != 0).to(torch.uint8)
