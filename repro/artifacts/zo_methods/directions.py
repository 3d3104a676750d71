"""The sources of directions that the methods draw from, made for the trained parameters."""

from collections.abc import Sequence

import torch

from repro.artifacts.zo_methods.arms import TaskKind
from repro.methods.default_noise import default_noise
from repro.methods.low_rank import LowRankNoise
from repro.methods.noise import Noise
from repro.methods.sparse import SparseNoise, thresholds_of
from repro.methods.subspace import SubspaceNoise
from repro.ondevice.low_rank import EngineLowRankNoise, EngineSubspaceNoise
from repro.ondevice.noise import EngineNoise, EngineSigns

SPARSITY = 0.75
"""Share of the weights, the largest of each tensor, that Sparse MeZO leaves as they are."""


def gaussian(parameters: Sequence[torch.Tensor], kind: TaskKind) -> Noise:
    """Return Gaussian directions."""
    if _by_engine(parameters, kind):
        return EngineNoise()
    return default_noise(parameters, "rounded", None)


def signs(parameters: Sequence[torch.Tensor], kind: TaskKind) -> Noise:
    """Return directions of random signs."""
    if _by_engine(parameters, kind):
        return EngineSigns()
    return default_noise(parameters, "rounded", None, signs=True)


def _by_engine(parameters: Sequence[torch.Tensor], kind: TaskKind) -> bool:
    """Return whether the engine draws and adds: for a language model, PyTorch is slow."""
    return kind == "text" and parameters[0].device.type == "cpu"


def small_weights(parameters: Sequence[torch.Tensor], kind: TaskKind) -> SparseNoise:
    """Return Gaussian directions within the small weights."""
    dense = EngineNoise() if _by_engine(parameters, kind) else None
    return SparseNoise(thresholds_of(parameters, SPARSITY), dense)


def low_rank(parameters: Sequence[torch.Tensor], kind: TaskKind) -> LowRankNoise:
    """Return directions of rank 2 in each matrix, whose row space lasts 50 steps."""
    noise = EngineLowRankNoise if _by_engine(parameters, kind) else LowRankNoise
    return noise(rank=2, subspace_steps=50)


def subspace(parameters: Sequence[torch.Tensor], kind: TaskKind) -> SubspaceNoise:
    """Return directions of rank 4 in each matrix, in a subspace that lasts 50 steps."""
    noise = EngineSubspaceNoise if _by_engine(parameters, kind) else SubspaceNoise
    return noise(rank=4, subspace_steps=50)
