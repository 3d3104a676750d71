"""Low-rank directions against closed forms; replay, resumption and restores bit by bit."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch import nn

from repro.core.errors import UsageError
from repro.methods.log import StepLog, replay
from repro.methods.low_rank import LowRankNoise
from repro.methods.mezo import MeZO
from repro.methods.perturbed_weights import Restore
from repro.methods.subspace import SubspaceNoise
from repro.ondevice.low_rank import EngineLowRankNoise, EngineSubspaceNoise

ROWS, COLUMNS = 3, 4
GRADIENT = torch.linspace(-1, 2, ROWS * COLUMNS, dtype=torch.float64).view(ROWS, COLUMNS)
DTYPES = [torch.float32, torch.bfloat16]
Kind = type[LowRankNoise]


@pytest.fixture(params=[LowRankNoise, SubspaceNoise, EngineLowRankNoise, EngineSubspaceNoise])
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    if issubclass(found, EngineLowRankNoise):
        request.getfixturevalue("engine")
    return found


def direction(seed: int, *shape: int, rank: int = 2) -> torch.Tensor:
    z = torch.zeros(*shape)
    LowRankNoise(rank).add_([z], seed, 1.0)
    return z


def layers(dtype: torch.dtype = torch.float32) -> list[nn.Parameter]:
    """A matrix, a convolution, a bias, and rows and a vector that are longer than a block."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(30, 40), (6, 3, 5, 5), (7,), (2, 20_000), (40_000,)]
    return [nn.Parameter(torch.randn(s, generator=generator).to(dtype)) for s in shapes]


def quadratic(parameters: Sequence[torch.Tensor]) -> Callable[[], float]:
    return lambda: sum(float(p.detach().double().square().mean()) for p in parameters)


@pytest.mark.parametrize("rank", [1, 3])
def test_the_mean_and_the_variance_of_the_estimator_are_the_closed_forms(rank: int) -> None:
    """g z estimates a linear loss's gradient without bias.

    With c = E[z_a^2 z_b^2], which is 3 + 6/r for a = b, 1 + 2/r in one row or one column, and 1
    elsewhere, the variance of coordinate b is the sum of c gradient_a^2 over a less gradient_b^2.
    """
    count = 20_000
    draws = torch.stack([direction(seed << 16, ROWS, COLUMNS, rank=rank) for seed in range(count)])
    found = (draws.double() * GRADIENT).sum((1, 2), keepdim=True) * draws.double()
    squares = GRADIENT.square()
    pairs = squares.sum() + 2 / rank * (squares.sum(0) + squares.sum(1, keepdim=True) - squares)
    variance = pairs + (2 + 4 / rank) * squares - squares
    error = (found.var(0) / count).sqrt()
    assert ((found.mean(0) - GRADIENT).abs() <= 4.5 * error).all()
    fourth = ((found - found.mean(0)) ** 4).mean(0)
    spread = ((fourth - found.var(0) ** 2) / count).sqrt()
    assert ((found.var(0) - variance).abs() <= 4.5 * spread).all()


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_a_matrix_has_the_rank_and_a_vector_is_gaussian(rank: int) -> None:
    assert int(torch.linalg.matrix_rank(direction(7, 30, 40, rank=rank))) == rank
    flattened = direction(7, 8, 3, 5, 5, rank=rank).view(8, -1)
    assert int(torch.linalg.matrix_rank(flattened)) == rank
    z = direction(7, 100_000, rank=rank)
    assert float(z.mean()) == pytest.approx(0, abs=0.015)
    assert float((z**4).mean()) == pytest.approx(3, abs=0.15)


def test_the_row_space_is_kept_for_the_steps_of_a_period() -> None:
    """So the weights move within rank r a period, and two periods add up to rank 2 r."""
    theta = nn.Parameter(torch.zeros(30, 40))
    mezo = MeZO([theta], lr=1e-2, eps=1e-2, noise=LowRankNoise(2, subspace_steps=4), seed=3)
    ranks = []
    for _ in range(9):
        mezo.step(lambda: float((theta.detach() * torch.arange(40)).sum()))
        ranks.append(int(torch.linalg.matrix_rank(theta.detach().double(), rtol=1e-5)))
    assert ranks == [2, 2, 2, 2, 4, 4, 4, 4, 6]
    uppers = [entry.seed >> 16 for entry in mezo.log.entries]
    assert len(set(uppers)) == 3
    assert len({entry.seed for entry in mezo.log.entries}) == 9


@pytest.mark.parametrize("restore", ["rounded", "exact"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_log_replays_and_a_state_resumes_bit_by_bit(
    dtype: torch.dtype, restore: Restore, kind: Kind, tmp_path: Path
) -> None:
    whole, halves, again = layers(dtype), layers(dtype), layers(dtype)

    def made(parameters: list[nn.Parameter], seed: int) -> MeZO:
        noise = kind(2, subspace_steps=4)
        settings = {"lr": 0.1, "eps": 1e-2, "perturbations": 2, "seed": seed}
        return MeZO(parameters, noise=noise, restore=restore, **settings)  # type: ignore[arg-type]

    one, first = made(whole, 0), made(halves, 0)
    for _ in range(6):
        one.step(quadratic(whole))
    for _ in range(3):
        first.step(quadratic(halves))
    second = made(halves, 9)
    second.load_state_dict(first.state_dict())
    for _ in range(3):
        second.step(quadratic(halves))
    one.log.save(tmp_path / "run.json")
    replay(StepLog.load(tmp_path / "run.json"), again, kind(2))
    for expected, *others in zip(whole, halves, again, strict=True):
        assert all(torch.equal(expected, other) for other in others)
    with pytest.raises(UsageError, match=r"noise '\S+-2' cannot be replayed with '\S+-3'"):
        replay(one.log, again, kind(3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_exact_step_without_slope_restores_every_bit(dtype: torch.dtype, kind: Kind) -> None:
    parameters = layers(dtype)
    mezo = MeZO(parameters, lr=0.1, eps=1e-2, noise=kind(), restore="exact")
    before = [parameter.detach().clone() for parameter in parameters]
    for _ in range(3):
        mezo.step(lambda: 1.0)
    assert all(torch.equal(p, b) for p, b in zip(parameters, before, strict=True))


@pytest.mark.parametrize("restore", ["rounded", "exact"])
def test_the_number_of_threads_changes_no_bit(restore: Restore, kind: Kind) -> None:
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        parameters = layers()
        mezo = MeZO(parameters, lr=0.1, eps=1e-2, noise=kind(3), restore=restore)
        for _ in range(2):
            mezo.step(quadratic(parameters))
        found.append(torch.cat([parameter.detach().view(-1) for parameter in parameters]))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_the_numbers_of_a_subspace_direction_have_mean_zero_and_variance_one() -> None:
    """Over subspaces; pairs of numbers are uncorrelated, so g z has no bias."""
    count = 20_000
    draws = torch.zeros(count, ROWS, COLUMNS)
    for seed, z in enumerate(draws):
        SubspaceNoise(2).add_([z], seed << 16, 1.0)
    numbers = draws.view(count, -1).double()
    products = numbers[:, :, None] * numbers[:, None, :]
    error = products.std(0) / count**0.5
    assert ((products.mean(0) - torch.eye(ROWS * COLUMNS)).abs() <= 4.5 * error).all()
    assert (numbers.mean(0).abs() <= 4.5 * numbers.std(0) / count**0.5).all()


def test_the_directions_of_a_period_lie_in_one_subspace_of_r_squared_dimensions() -> None:
    """Another period has another subspace; a matrix of two rows has directions of rank 2."""
    noise, matrices = SubspaceNoise(3), []
    for seed in [*range(20), *((1 << 16) | step for step in range(20))]:
        z = torch.zeros(30, 40)
        noise.add_([z, torch.zeros(2, 40)], seed, 1.0)
        assert int(torch.linalg.matrix_rank(z)) == 3
        matrices.append(z.double().view(-1))
    both = torch.stack(matrices)
    assert int(torch.linalg.matrix_rank(both[:20], rtol=1e-5)) == 9
    assert int(torch.linalg.matrix_rank(both, rtol=1e-5)) == 18
    small = torch.zeros(2, 40)
    SubspaceNoise(3).add_([small], 0, 1.0)
    assert int(torch.linalg.matrix_rank(small)) == 2


def test_a_parameter_without_elements_is_left_out(kind: Kind) -> None:
    with_empty, without = [layers()[0], torch.zeros(0, 5)], [layers()[0]]
    for weights in (with_empty, without):
        kind(2).add_([weight.detach() for weight in weights], 7 << 16, 1.0)
    assert torch.equal(with_empty[0], without[0])


def test_settings_out_of_range_are_refused(kind: Kind) -> None:
    for wrong in ({"rank": 0}, {"subspace_steps": -1}):
        with pytest.raises(UsageError, match="must be"):
            kind(**wrong)
