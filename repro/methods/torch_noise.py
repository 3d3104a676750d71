"""In-place Gaussian perturbation of parameters, regenerated from a seed and never stored.

The noise of all parameters is one long vector, drawn in chunks into small buffers, each chunk from
its own seeded generator. The extra memory is therefore at most one chunk per thread, for any size
of model. The numbers depend only on the seed, the chunk size and the kind of device, not on the
number of threads or the parameters' number format.

The passes of a step add the same noise. On the host they may keep the noise of a small model, at
most half a MiB, since drawing takes longer than adding. For a large model it is drawn again.
"""

from collections.abc import Callable, Iterator, Sequence

import torch

from repro.core.errors import UsageError
from repro.core.validation import require_positive_int
from repro.methods.noise import SEED_SPACE, PiecewiseNoise, default_chunk
from repro.methods.parallel import parallel_for, threads_for

KEPT = 1 << 17
"""On the host, the passes of a step keep noise of at most this many elements; LeNet-5 has fewer."""
# a larger model's forward pass takes more memory than whole chunks (seen in MeZO's Fig. 3)
_LARGE = 1 << 24
# a multiple of 16, PyTorch's block of normal numbers: other parts would change the noise
_BUFFER = 1 << 13
"""Elements of a chunk drawn at a time on the host, for a model between ``KEPT`` and ``_LARGE``: a
whole chunk could exceed the memory of its forward pass.
"""

Fill = Callable[[torch.Tensor, torch.Generator], None]
"""Overwrites a vector with random numbers of mean 0 and variance 1."""

_Chunk = tuple[int, list[torch.Tensor]]  # its number, and the pieces of parameters it covers


def gaussian_(vector: torch.Tensor, generator: torch.Generator) -> None:
    """Overwrite ``vector`` with standard Gaussian noise."""
    vector.normal_(generator=generator)


class KeptNoise:
    """The last noise, if it is short enough to keep."""

    def __init__(self, elements: int = KEPT) -> None:
        self.elements = elements
        """Largest number of kept elements."""
        self.vector = torch.empty(0, dtype=torch.float32, device="cpu")
        """The kept noise, float32; may be empty."""
        self.drawn: object = None
        """The arguments that determine the kept noise; ``None`` if it is incomplete."""

    def make_room(self, device: torch.device, total: int) -> None:
        """Allocate ``total`` elements if few enough; none on a GPU, which draws fast."""
        length = total if device.type == "cpu" and total <= self.elements else 0
        if len(self.vector) != length:
            self.vector = torch.empty(length, dtype=torch.float32, device="cpu")
            self.drawn = None


@torch.no_grad()
def perturb_(
    parameters: Sequence[torch.Tensor],
    seed: int,
    scale: float,
    chunk: int | None = None,
    kept: KeptNoise | None = None,
    fill_: Fill = gaussian_,
) -> None:
    """Add ``scale`` times noise z(seed), standard Gaussian by default, to parameters in place.

    z is the same in every call with the same ``seed`` and ``chunk``, for parameters of the same
    sizes in the same order. (MeZO, Malladi et al. 2023, Algorithm 1, PerturbParameters.) On the
    host, chunks are shared among PyTorch's number of threads.

    Args:
        parameters: contiguous tensors, all on one device; a tensor given twice is perturbed twice.
        seed: seed of the whole noise vector, below 2**32. Chunk i is drawn with seed + i, so no
            two chunks of a vector share their noise.
        scale: factor of the noise, which is float32 for any number format of the parameters.
        chunk: elements drawn from one seed; by default ``default_chunk`` of the device.
        kept: noise kept by earlier calls, which this call uses or replaces; it changes no number.
        fill_: the distribution of the noise.

    Raises:
        UsageError: ``chunk`` is not a positive integer.
    """
    if chunk is not None:
        require_positive_int("chunk", chunk)
    if not parameters:
        return
    device = parameters[0].device
    total = sum(parameter.numel() for parameter in parameters)
    size = min(chunk or default_chunk(device), total)
    length = min(size, _BUFFER) if device.type == "cpu" and KEPT < total < _LARGE else size
    kept = kept or KeptNoise(0)
    kept.make_room(device, total)
    vector, identity = kept.vector, (seed, total, size)
    ready = kept.drawn == identity
    kept.drawn = None  # an interrupted call leaves its numbers incomplete
    threads = threads_for(device, 0 if ready else total // size)
    needed = 0 if len(vector) else length
    buffers = iter(torch.empty(threads, needed, dtype=torch.float32, device=device))

    def work(chunks: Iterator[_Chunk]) -> None:
        generator, buffer = torch.Generator(device), next(buffers)
        for index, chunk_pieces in chunks:
            generator.manual_seed((seed + index) % SEED_SPACE)
            cut = length < size
            parts = _chunks(chunk_pieces, length) if cut else iter([(0, chunk_pieces)])
            for part, pieces in parts:
                noise = vector[index * size + part * length :] if len(vector) else buffer
                noise = noise[: sum(piece.numel() for piece in pieces)]
                if not ready:
                    fill_(noise, generator)
                start = 0
                for piece in pieces:
                    piece.add_(noise[start : start + piece.numel()], alpha=scale)
                    start += piece.numel()

    parallel_for(_chunks(parameters, size), threads, work)
    kept.drawn = identity if len(vector) else None


class TorchNoise(PiecewiseNoise):
    """Gaussian noise from PyTorch's generator on the parameters' device; see ``perturb_``."""

    name = "torch"

    def __init__(self, chunk: int | None = None) -> None:
        """Take the number of elements drawn from one seed, which affects the noise.

        Raises:
            UsageError: ``chunk`` is not a positive integer.
        """
        self.chunk = None if chunk is None else require_positive_int("chunk", chunk)
        self._kept = KeptNoise()

    def agreed_chunk(self, chunk: int | None) -> int | None:
        """Take ``chunk`` if this noise was made without one; return the one that counts.

        Pieces of another size than the chunks would share seeds with chunks of other pieces.
        """
        if chunk is not None and self.chunk not in (None, chunk):
            raise UsageError(
                f"chunk = {chunk} with a noise of chunk = {self.chunk}: both number the same "
                "pieces of the weights; give only one of them"
            )
        self.chunk = self.chunk or chunk
        return self.chunk

    def add_(self, parameters: Sequence[torch.Tensor], seed: int, scale: float) -> None:
        """Add the noise chunk by chunk, drawing it unless an earlier pass kept it."""
        perturb_(parameters, seed, scale, self.chunk, self._kept, self.fill_)

    def draw_(self, vector: torch.Tensor, seed: int) -> None:
        """Draw into ``vector`` without keeping the noise."""
        size = self.chunk or default_chunk(vector.device)
        generator = torch.Generator(vector.device)
        for index, part in enumerate(torch.split(vector, size)):
            self.fill_(part, generator.manual_seed((seed + index) % SEED_SPACE))

    def release(self) -> None:
        """Forget the noise."""
        self._kept = KeptNoise()

    fill_ = staticmethod(gaussian_)
    """The distribution of the noise."""


def _chunks(parameters: Sequence[torch.Tensor], size: int) -> Iterator[_Chunk]:
    """Cut the concatenation of all parameters after every ``size`` elements."""
    index, room = 0, size
    pieces: list[torch.Tensor] = []
    for parameter in parameters:
        flat, start = parameter.view(-1), 0
        while start < flat.numel():
            piece = flat[start : start + room]
            pieces.append(piece)
            start, room = start + piece.numel(), room - piece.numel()
            if room == 0:
                yield index, pieces
                index, room, pieces = index + 1, size, []
    if pieces:
        yield index, pieces
