"""In-place Gaussian perturbation of parameters, regenerated from a seed and never stored.

The noise is drawn in chunks into one small buffer, each chunk from a generator seeded for it. So
the extra memory is one chunk, whatever the model's size, and the numbers depend on nothing but
the seed, the chunk size and the device.
"""

from collections.abc import Sequence

import torch

CPU_CHUNK = 1 << 15
"""Elements per chunk on the host: the buffer stays in the second-level cache."""
CUDA_CHUNK = 1 << 22
"""Elements per chunk on a GPU: kernel launches do not dominate, and a forward pass takes more."""

_SEED_SPACE = 1 << 32  # torch's host generator uses the low 32 bits of a seed


def default_chunk(device: torch.device) -> int:
    """Return the chunk size for parameters on ``device``."""
    return CUDA_CHUNK if device.type == "cuda" else CPU_CHUNK


@torch.no_grad()
def perturb_(
    parameters: Sequence[torch.Tensor], seed: int, scale: float, chunk: int | None = None
) -> None:
    """Add ``scale`` times standard Gaussian noise z(seed) to every parameter, in place.

    z has the shapes of the parameters and is the same at every call with the same ``seed`` and
    ``chunk``. (MeZO, Malladi et al. 2023, Algorithm 1, PerturbParameters.)

    Args:
        parameters: contiguous tensors, all on one device; a tensor given twice is perturbed twice.
        seed: seed of the whole noise vector, below 2**32. Chunk i is drawn with seed + i, so no
            two chunks of a vector share their noise.
        scale: factor of the noise.
        chunk: elements drawn at a time; by default ``default_chunk`` of the device.
    """
    if not parameters:
        return
    device = parameters[0].device
    size = chunk or default_chunk(device)
    generator = torch.Generator(device)
    largest = min(size, max(parameter.numel() for parameter in parameters))
    buffers = {
        dtype: torch.empty(largest, dtype=dtype, device=device)
        for dtype in {parameter.dtype for parameter in parameters}
    }
    index = 0
    for parameter in parameters:
        flat = parameter.view(-1)
        for start in range(0, flat.numel(), size):
            part = flat[start : start + size]
            noise = buffers[parameter.dtype][: part.numel()]
            generator.manual_seed((seed + index) % _SEED_SPACE)
            part.add_(noise.normal_(generator=generator), alpha=scale)
            index += 1
