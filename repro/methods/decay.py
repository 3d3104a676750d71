"""Weight decay: multiply the weights by a factor below 1, and keep exact ones on their lattice."""

from collections.abc import Sequence

import torch

from repro.methods.lattice import Lattice
from repro.methods.noise import split, thresholds
from repro.methods.perturbation import default_chunk

_SEEDS = 1 << 30  # distinct from the seeds of noise and rounding in the same step


@torch.no_grad()
def shrink_(
    parameters: Sequence[torch.Tensor],
    factor: float,
    seed: int,
    eps: float | None,
    chunk: int | None,
) -> None:
    """Multiply ``parameters`` by ``factor`` in place.

    Args:
        parameters: contiguous tensors.
        factor: multiplies all weights.
        seed: seed of the random rounding of weights on a lattice.
        eps: scale of the perturbation, which decides the lattice; ``None`` without a lattice.
        chunk: elements rounded at a time.
    """
    if eps is None:
        for parameter in parameters:
            parameter.mul_(factor)
        return
    index = 0
    for parameter in parameters:
        lattice = Lattice(parameter.dtype, eps)
        for weights in split(parameter, chunk or default_chunk(parameter.device)):
            uniform = thresholds(lattice, weights, seed + _SEEDS + index)
            weights.copy_(lattice.round(weights.to(lattice.wide).mul_(factor), uniform))
            index += 1
