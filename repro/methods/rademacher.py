"""Random signs as directions: each weight moves by eps up or down, with equal odds."""

import torch

from repro.methods.torch_noise import TorchNoise


class RademacherNoise(TorchNoise):
    """z of +1 and -1, drawn from PyTorch's generator chunk by chunk, like Gaussian noise.

    Example::

        mezo = MeZO(model.parameters(), lr=1e-6, eps=1e-3, noise=RademacherNoise())

    On a quadratic loss the estimator g z is unbiased with signs and with Gaussian noise. Its
    variance in coordinate i is ||gradient||^2 - gradient_i^2 with signs, and ||gradient||^2 +
    gradient_i^2 with Gaussian noise.
    """

    name = "rademacher"

    def draw_(self, vector: torch.Tensor, seed: int) -> None:
        """Draw signs slightly smaller than 1, which stay symmetric when rounded to noise levels."""
        super().draw_(vector, seed)
        vector.mul_(1 - 2.0**-24)  # else eps at the middle of two levels would break the symmetry

    @staticmethod
    def fill_(vector: torch.Tensor, generator: torch.Generator) -> None:
        """Overwrite ``vector`` with signs."""
        vector.random_(0, 2, generator=generator).mul_(2).sub_(1)
