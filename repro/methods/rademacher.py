"""Random signs as directions: each weight moves by eps up or down, with equal odds."""

import torch

from repro.methods.noise import TorchNoise


class RademacherNoise(TorchNoise):
    """z of +1 and -1, drawn from PyTorch's generator chunk by chunk as Gaussian noise is.

    Example::

        mezo = MeZO(model.parameters(), lr=1e-6, eps=1e-3, noise=RademacherNoise())

    On a quadratic the estimator g z is unbiased for both. Its variance in coordinate i is
    ||gradient||^2 - gradient_i^2, where Gaussian noise has ||gradient||^2 + gradient_i^2.
    """

    name = "rademacher"

    def draw_(self, vector: torch.Tensor, seed: int) -> None:
        """Draw signs that keep their symmetry on a lattice, whose levels are rounded down."""
        super().draw_(vector, seed)
        vector.mul_(1 - 2.0**-24)  # a level that eps hits would be rounded up, and -eps down

    @staticmethod
    def fill_(vector: torch.Tensor, generator: torch.Generator) -> None:
        """Overwrite ``vector`` with signs."""
        vector.random_(0, 2, generator=generator).mul_(2).sub_(1)
