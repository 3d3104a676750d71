"""A perturbation of a language model's weights along each kind of direction."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from repro.core.names import Dtype
from repro.measurement.timing import Step, ratio, ratio_range
from repro.methods.lattice import Lattice
from repro.methods.low_rank import LowRankNoise
from repro.methods.noise import LatticeStep, Noise
from repro.methods.perturbed_weights import Restore
from repro.methods.sparse import SparseNoise
from repro.methods.subspace import SubspaceNoise
from repro.methods.torch_noise import TorchNoise
from repro.ondevice.low_rank import EngineLowRankNoise, EngineSubspaceNoise
from repro.ondevice.noise import EngineNoise, EngineSigns

EPS = 1e-3
DEVIATION = 0.02
"""Standard deviation of the weights."""
SMALLEST = 0.3186 * DEVIATION
"""A quarter of the weights are smaller."""
BLOCKS = 4
SHAPES = [(576, 576), (192, 576), (192, 576), (576, 576), *[(1536, 576)] * 2, (576, 1536), (576,)]
"""Of a block of SmolLM2-135M, 3.5 million weights."""
NOISES: dict[str, Callable[[], Noise]] = {
    "noise": TorchNoise,
    "low rank": lambda: LowRankNoise(rank=2),
    "subspace": lambda: SubspaceNoise(rank=4),
    "engine's noise": EngineNoise,
    "engine's signs": EngineSigns,
    "engine's low rank": lambda: EngineLowRankNoise(rank=2),
    "engine's subspace": lambda: EngineSubspaceNoise(rank=4),
}


def perturbation(noise: Noise, weights: Sequence[torch.Tensor], restore: Restore) -> Step:
    """Return a step from theta to theta + eps z and back."""
    walk = [LatticeStep(EPS, before, after, is_update=False) for before, after in ((0, 1), (1, 0))]

    def step() -> None:
        for scale, along in zip((EPS, -EPS), walk, strict=True):
            if restore == "rounded":
                noise.add_(weights, 5, scale)
            else:
                noise.step_on_lattice_(weights, 5, along, None)
        noise.release()  # as at the end of a step of MeZO

    return step


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("threads", [1, 2], ids=["1 thread", "2 threads"])
@pytest.mark.parametrize(
    ("dtype", "restore"),
    [("float32", "rounded"), ("bfloat16", "rounded"), ("bfloat16", "exact")],
)
def test_perturbation_of_a_language_model(
    benchmark: Any, timed: Any, dtype: Dtype, restore: Restore, threads: int
) -> None:
    """``ratios``: PyTorch's Gaussian noise over each other kind of direction."""
    torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(0)
    lattice = Lattice(getattr(torch, dtype), EPS)
    weights = [
        lattice.round(torch.randn(shape, generator=generator, dtype=lattice.wide) * DEVIATION)
        for _ in range(BLOCKS if benchmark.enabled else 1)
        for shape in SHAPES
    ]
    weights = [matrix.to(lattice.dtype) for matrix in weights]
    noises = {name: make() for name, make in NOISES.items()}
    smallest = [SMALLEST] * len(weights)
    noises |= {
        "sparse": SparseNoise(smallest),
        "engine's sparse": SparseNoise(smallest, EngineNoise()),
    }
    arms = {name: perturbation(noise, weights, restore) for name, noise in noises.items()}
    seconds = timed(arms, turns=9, steps=3, warm_up=1)
    pairs = {f"noise/{name}": ("noise", name) for name in noises if name != "noise"}
    benchmark.extra_info["ratios"] = {name: ratio(seconds, *pair) for name, pair in pairs.items()}
    benchmark.extra_info["ranges"] = {n: ratio_range(seconds, *pair) for n, pair in pairs.items()}
