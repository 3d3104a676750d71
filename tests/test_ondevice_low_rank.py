"""Low-rank directions by the engine: products number by number, for every instruction set."""

from typing import Any

import numpy as np
import pytest
import torch

from repro.core.errors import UsageError
from repro.methods.lattice import Lattice
from repro.methods.low_rank import LowRankNoise
from repro.methods.noise import LatticeStep
from repro.methods.subspace import SubspaceNoise
from repro.ondevice.low_rank import EngineLowRankNoise, EngineSubspaceNoise
from repro.ondevice.noise import EngineNoise

SHAPES = [(300, 257), (6, 3, 5, 5), (7,), (2, 70_000), (1, 1)]
SEED, SCALE = 7 << 16, np.float32(1e-3)
KINDS = {EngineLowRankNoise: LowRankNoise, EngineSubspaceNoise: SubspaceNoise}
HALVES = [torch.bfloat16, torch.float16]

pytestmark = [
    pytest.mark.usefixtures("engine"),
    pytest.mark.parametrize("kind", KINDS),
]


def weights(dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [(torch.randn(shape, generator=generator) * 0.02).to(dtype) for shape in SHAPES]


def directions(kind: type[EngineLowRankNoise]) -> list[torch.Tensor]:
    """z of rank 3 in float32: each product is rounded, and each sum, in the order of the ranks."""
    found = []
    like = weights(torch.float32)
    for matrix, shape in zip(KINDS[kind](3).matrices(like, SEED), SHAPES, strict=True):
        if matrix.factors is None:
            z = torch.empty(shape)
            EngineNoise().draw_(z, matrix.seed)
        else:
            left, right = (factor.numpy() for factor in matrix.factors)
            terms = [np.outer(left[:, k], right[k]) for k in range(left.shape[1])]
            total = terms[0]
            for term in terms[1:]:
                total = total + term
            z = torch.from_numpy(total).view(shape)
        found.append(z)
    return found


def test_the_product_is_that_of_float64(kind: type[EngineLowRankNoise]) -> None:
    moved = [torch.zeros(shape) for shape in SHAPES]
    kind(3).add_(moved, SEED, 1.0)
    for matrix, found in zip(KINDS[kind](3).matrices(moved, SEED), moved, strict=True):
        if matrix.factors is not None:
            left, right = (factor.double() for factor in matrix.factors)
            z = found.view(len(left), -1).double()
            torch.testing.assert_close(z, left @ right, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_sums_are_rounded_once_for_any_threads_and_instructions(
    engine: Any, kind: type[EngineLowRankNoise], dtype: torch.dtype
) -> None:
    expected = [
        (before.float() + z * SCALE).to(dtype)
        for before, z in zip(weights(dtype), directions(kind), strict=True)
    ]
    for name in engine.instruction_sets():
        for threads in (1, 2):
            torch.set_num_threads(threads)
            moved = weights(dtype)
            kind(3, instructions=name).add_(moved, SEED, float(SCALE))
            assert all(map(torch.equal, moved, expected))


@pytest.mark.parametrize("dtype", HALVES)
def test_exact_passes_are_those_of_the_lattice(
    engine: Any, kind: type[EngineLowRankNoise], dtype: torch.dtype
) -> None:
    """Vectors are left out: their chunks have seeds of their own, as with ``EngineNoise``."""
    eps = 1e-2
    lattice = Lattice(dtype, eps)
    start = [lattice.round(w.to(lattice.wide)).to(dtype) for w in weights(dtype)]
    for name in engine.instruction_sets():
        moved, noise = [w.clone() for w in start], kind(3, instructions=name)
        noise.step_on_lattice_(moved, SEED, LatticeStep(eps, 0, 1, is_update=False), None)
        for w, z, found in zip(start, directions(kind), moved, strict=True):
            if w.ndim > 1:
                assert torch.equal(found, (w.to(lattice.wide) + lattice.noise(z)).to(dtype))
        noise.step_on_lattice_(moved, SEED, LatticeStep(eps, 1, 0, is_update=False), None)
        assert all(map(torch.equal, moved, start))


def test_updates_on_the_lattice_are_unbiased(kind: type[EngineLowRankNoise]) -> None:
    """Each is rounded up or down at random, so that it is right in the mean."""
    eps, lattice = 1e-2, Lattice(torch.bfloat16, 1e-2)
    start = lattice.round(torch.full((40, 30), 0.5)).bfloat16()
    moves = LatticeStep(eps, 0, 0.1, is_update=True)
    errors = []
    for seed in range(SEED, SEED + 400):
        z, moved = torch.zeros(40, 30), start.clone()
        kind(3).add_([z], seed, 1.0)
        kind(3).step_on_lattice_([moved], seed, moves, None)
        errors.append(moved.double() - start.double() - 0.1 * lattice.noise(z).double())
    found = torch.stack(errors)
    assert (found.std(0) > 0).all()
    assert (found.mean(0).abs() < 5 * found.std(0) / len(found) ** 0.5).all()


def test_weights_that_the_engine_cannot_move_are_refused(kind: type[EngineLowRankNoise]) -> None:
    with pytest.raises(UsageError, match=r"parameters of torch.float64 on cpu: they must be"):
        kind(3).prepare([torch.zeros(2, 2, dtype=torch.float64)], exact=False)
    with pytest.raises(UsageError, match="rank = 0: must be"):
        kind(0)


def test_factors_of_other_shapes_are_refused(engine: Any, kind: type[EngineLowRankNoise]) -> None:
    assert kind
    left, right = np.ones((3, 2), np.float32), np.ones((2, 5), np.float32)
    with pytest.raises(ValueError, match=r"must be \[m, r\] and \[r, n\]"):
        engine.Noise(left, right.T.copy(), "auto")
    noise = engine.Noise(left, right, "auto")
    with pytest.raises(ValueError, match="whole of a matrix of its shape"):
        noise.add(np.zeros(14, np.float32), 0, 0, 1.0, 1)
