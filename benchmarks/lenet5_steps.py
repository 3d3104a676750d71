"""Steps of LeNet-5 in float32 by PyTorch that several benchmarks time."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from repro.measurement.timing import Step
from repro.methods.mezo import MeZO
from repro.models.lenet5 import lenet5

EPS, LR = 1e-2, 1e-4


def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random images and labels."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(size, 1, 28, 28, generator=generator)
    return images, torch.randint(10, (size,), generator=generator)


def plain(size: int) -> Step:
    """Return the step as the papers' pseudocode reads: noise tensor by tensor, PyTorch's layers."""
    images, labels = batch(size)
    model = nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(784, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )
    seeds = iter(range(1 << 30))

    def perturb(seed: int, scale: float) -> None:
        torch.manual_seed(seed)
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape), alpha=scale)

    @torch.no_grad()
    def step() -> None:
        seed = next(seeds)
        perturb(seed, EPS)
        plus = cross_entropy(model(images), labels).item()
        perturb(seed, -2 * EPS)
        minus = cross_entropy(model(images), labels).item()
        perturb(seed, EPS - LR * (plus - minus) / (2 * EPS))

    return step


def mezo(size: int) -> Step:
    """Return the suite's step."""
    images, labels = batch(size)
    model = lenet5()
    optimizer = MeZO(model.parameters(), lr=LR, eps=EPS)
    return lambda: optimizer.step(lambda: cross_entropy(model(images), labels))
