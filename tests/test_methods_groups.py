"""Parameter groups, names, weight decay, defaults and ``repr``, as optimizers of torch do."""

import inspect
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from repro.core.errors import ReproError, UsageError
from repro.methods.elasticzo import ElasticZO
from repro.methods.fzoo import FZOO
from repro.methods.lattice import Lattice
from repro.methods.log import StepLog, replay
from repro.methods.mezo import MeZO
from repro.methods.perturbed_weights import Restore
from repro.methods.torch_noise import perturb_

LR, EPS = 1e-2, 1e-3
SIZE = 1000
GROUP = 0x9E3779B9
"""Distance of the seeds of two groups, as the log's format has it."""


def vector(seed: int, dtype: torch.dtype = torch.float64) -> nn.Parameter:
    generator = torch.Generator().manual_seed(seed)
    return nn.Parameter(torch.randn(SIZE, generator=generator).to(dtype))


def quadratic(*parameters: torch.Tensor) -> Callable[[], torch.Tensor]:
    return lambda: sum((p.double().square().sum() / 2 for p in parameters), torch.zeros(()))


def noise(seed: int) -> torch.Tensor:
    z = torch.zeros(SIZE, dtype=torch.float64)
    perturb_([z], seed % (1 << 32), 1.0)
    return z


def groups(a: torch.Tensor, b: torch.Tensor) -> list[dict[str, Any]]:
    return [{"params": [a]}, {"params": b, "lr": 5e-3, "eps": 2e-3, "weight_decay": 0.5}]


def test_each_group_has_its_own_rate_scale_and_decay() -> None:
    a, b = vector(0), vector(1)
    a0, b0 = a.detach().clone(), b.detach().clone()
    mezo = MeZO(groups(a, b), lr=LR, eps=EPS, weight_decay=0.25)
    mezo.step(quadratic(a, b))
    ((seed, g, lr),) = mezo.log.entries
    za, zb = noise(seed), noise(seed + GROUP)
    # the derivative along D z, D = (1e-3, 2e-3), over 1e-3; exact for a quadratic
    assert g == pytest.approx(float(a0 @ za + 2 * b0 @ zb), rel=1e-9)
    assert lr == LR
    torch.testing.assert_close(a.detach(), a0 * (1 - LR * 0.25) - LR * g * za)
    # along zb alone the derivative is g / 2, as zb is scaled by 2
    torch.testing.assert_close(b.detach(), b0 * (1 - 5e-3 * 0.5) - 5e-3 * g / 2 * zb)


def test_a_single_group_is_the_plain_list_bit_by_bit() -> None:
    plain, grouped, named = vector(0), vector(0), vector(0)
    runs = [
        (plain, MeZO([plain], lr=LR, eps=EPS)),
        (grouped, MeZO([{"params": [grouped], "lr": LR}], lr=1.0, eps=EPS)),
        (named, MeZO([("theta", named)], lr=LR, eps=EPS)),
    ]
    for parameter, optimizer in runs:
        for _ in range(3):
            optimizer.step(quadratic(parameter))
    assert torch.equal(plain, grouped)
    assert torch.equal(plain, named)
    assert runs[0][1].log.data == runs[1][1].log.data == runs[2][1].log.data
    assert runs[2][1].param_groups[0]["param_names"] == ["theta"]


def test_named_groups_of_a_model_are_taken() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 2))
    decayed = [entry for entry in model.named_parameters() if entry[1].ndim > 1]
    others = [entry for entry in model.named_parameters() if entry[1].ndim == 1]
    mezo = MeZO([{"params": decayed, "weight_decay": 0.1}, {"params": others}], lr=LR, eps=EPS)
    assert mezo.param_groups[0]["param_names"] == ["0.weight", "2.weight"]
    assert [group["weight_decay"] for group in mezo.param_groups] == [0.1, 0.0]
    x, y = torch.randn(8, 4), torch.arange(8) % 2
    mezo.step(lambda: cross_entropy(model(x), y))
    assert mezo.log.steps == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("perturbations", [1, 3])
@pytest.mark.parametrize("restore", ["rounded", "exact"])
def test_the_log_of_groups_with_decay_and_schedules_replays(
    dtype: torch.dtype, perturbations: int, restore: Restore, tmp_path: Path
) -> None:
    a, b = vector(0, dtype), vector(1, dtype)
    start = [a.detach().clone(), b.detach().clone()]
    settings: Any = {"perturbations": perturbations, "restore": restore, "chunk": 64}
    mezo = MeZO(groups(a, b), lr=LR, eps=EPS, weight_decay=0.25, **settings)
    rates = [lambda step: 1 - step / 10, lambda step: 1 / (1 + step)]
    schedule = torch.optim.lr_scheduler.LambdaLR(mezo, rates)
    for _ in range(5):
        mezo.step(quadratic(a, b))
        schedule.step()
    mezo.log.save(tmp_path / "run.json")
    log = StepLog.load(tmp_path / "run.json")
    assert len(log.data) == 5 * perturbations * 28
    assert log.steps == 5
    replay(log, start)
    assert torch.equal(start[0], a)
    assert torch.equal(start[1], b)
    with pytest.raises(UsageError, match="1 parameters for a log of 2"):
        replay(log, start[:1])


@pytest.mark.filterwarnings("ignore::repro.methods.zeroth_order.NothingMovesWarning")
def test_decay_on_a_lattice_keeps_its_mean() -> None:
    theta = vector(0, torch.bfloat16)
    mezo = MeZO([theta], lr=1e-9, eps=EPS, weight_decay=1e5, perturbations=1)
    assert mezo.log.restore == "exact"
    start = theta.detach().double()
    spacing = Lattice(torch.bfloat16, EPS).spacing(theta.detach().float()).double()
    for _ in range(100):  # 1e-4 a step, far below the spacing
        mezo.step(lambda: 0.0)
    moved = (theta.detach().double() - start) / spacing
    expected = start * ((1 - 1e-4) ** 100 - 1) / spacing
    # each step rounds up or down with odds f : 1 - f, f of about 1e-4 |theta| / spacing below 0.03
    bound = float((0.03 * 100 / SIZE) ** 0.5)
    assert abs(float((moved - expected).mean())) < 4 * bound
    assert float((moved.sign() * start.sign()).mean()) < -0.2


def test_decay_of_rounded_weights_is_that_of_adamw() -> None:
    theta, other = vector(0), vector(0)
    mezo = MeZO([theta], lr=LR, eps=EPS, weight_decay=0.1)
    adamw = torch.optim.AdamW([other], lr=LR, weight_decay=0.1)
    for _ in range(3):
        mezo.step(lambda: 1.0)  # a flat loss: nothing but decay
        other.grad = torch.zeros_like(other)
        adamw.step()
    torch.testing.assert_close(theta.detach(), other.detach(), rtol=1e-12, atol=1e-12)


def test_both_parts_of_elasticzo_decay() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)).double()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    elastic = ElasticZO(model, 1, lr=LR, eps=EPS, weight_decay=0.5)
    elastic.step(lambda: (model(torch.zeros(1, 4, dtype=torch.float64)) * 0).sum())
    for parameter, expected in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(parameter.detach(), expected * (1 - LR * 0.5))


def test_the_tail_decays_before_its_gradient_is_subtracted() -> None:
    """As AdamW does; here the gradient is that of a plain backward pass at the old weights."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3)).double()
    x, y = torch.randn(8, 4, dtype=torch.float64), torch.arange(8) % 3
    before = [parameter.detach().clone() for parameter in model.parameters()]
    gradients = torch.autograd.grad(cross_entropy(model(x), y), list(model.parameters()))
    ElasticZO(model, 0, lr=0.1, eps=EPS, weight_decay=0.5).step(lambda: cross_entropy(model(x), y))
    for parameter, old, gradient in zip(model.parameters(), before, gradients, strict=True):
        torch.testing.assert_close(parameter.detach(), old * 0.95 - 0.1 * gradient)


def test_pieces_of_equal_weights_are_not_rounded_alike() -> None:
    piece, pieces = 1 << 12, 4
    theta = nn.Parameter(torch.ones(piece * pieces, dtype=torch.bfloat16))
    mezo = MeZO([theta], lr=1e-9, eps=EPS, weight_decay=2e6, chunk=piece)
    mezo.step(lambda: 0.0)  # a flat loss: nothing but decay, by 0.2 % of a weight
    moved = (theta.detach() != 1).double().view(pieces, piece)
    assert 0 < moved.mean() < 1
    apart = torch.corrcoef(moved) - torch.eye(pieces)
    assert apart.abs().max() < 6 / piece**0.5


def test_the_state_of_groups_survives_and_keeps_their_rates() -> None:
    whole, halves = [vector(0), vector(1)], [vector(0), vector(1)]
    one, first = (MeZO(groups(*p), lr=LR, eps=EPS) for p in (whole, halves))
    for _ in range(2):
        one.step(quadratic(*whole))
        first.step(quadratic(*halves))
    one.param_groups[1]["lr"] = first.param_groups[1]["lr"] = 1e-3
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = MeZO(groups(*halves), lr=LR, eps=EPS)
    second.load_state_dict(torch.load(file, weights_only=True))
    one.step(quadratic(*whole))
    second.step(quadratic(*halves))
    assert second.log.data == one.log.data
    assert all(torch.equal(a, b) for a, b in zip(whole, halves, strict=True))


def test_a_log_that_lacks_later_settings_is_read() -> None:
    """As in committed records; an unknown estimator is refused."""
    theta = vector(0)
    mezo = MeZO([theta], lr=LR, eps=EPS)
    mezo.step(quadratic(theta))
    later = ("estimator", "groups", "elements", "structure")
    old = {name: value for name, value in mezo.log.packed().items() if name not in later}
    assert set(old) == {"eps", "perturbations", "chunk", "restore", "noise", "entries"}
    assert StepLog.unpacked(old).data == mezo.log.data
    with pytest.raises(ReproError, match=r"damaged .*three-sided"):
        StepLog.unpacked({**old, "estimator": "three-sided"})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda a, b: [{"params": [a], "momentum": 0.9}], r"momentum = 0\.9 in parameter group 0"),
        (lambda a, b: [{"params": [a]}, {"params": [a]}], "is in parameter groups 0 and 1"),
        (lambda a, b: [{"params": [a]}, {"params": []}], "to train in parameter group 1"),
        (lambda a, b: [{"params": [a], "eps": 0.0}], r"eps = 0\.0: must be"),
        (lambda a, b: [{"params": [a], "lr": -1.0}], r"lr = -1\.0: must be"),
        (lambda a, b: [{"params": [a], "weight_decay": -1.0}], r"weight_decay = -1\.0: must be"),
        (lambda a, b: [("odd", nn.Parameter(torch.ones(3, 2).t()))], "parameter 'odd' of shape"),
    ],
)
def test_wrong_groups_are_refused(given: Callable[..., Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        MeZO(given(vector(0), vector(1)), lr=LR, eps=EPS)


def test_settings_that_the_log_holds_cannot_change_later() -> None:
    theta = vector(0)
    mezo = MeZO([theta], lr=LR, eps=EPS)
    mezo.param_groups[0]["weight_decay"] = 0.1
    with pytest.raises(UsageError, match=r"weight_decay = 0\.1 in parameter group 0"):
        mezo.step(quadratic(theta))
    decayed = MeZO([theta], lr=LR, eps=EPS, weight_decay=200.0)
    with pytest.raises(UsageError, match=r"lr x weight_decay = 2\.0: must be below 1"):
        decayed.step(quadratic(theta))


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        ([torch.float32], "rounded"),
        ([torch.float64], "rounded"),
        ([torch.bfloat16], "exact"),
        ([torch.float16], "exact"),
        ([torch.float32, torch.bfloat16], "exact"),
    ],
)
def test_half_precision_is_restored_exactly_unless_told_otherwise(
    dtypes: list[torch.dtype], expected: str
) -> None:
    parameters = [vector(i, dtype) for i, dtype in enumerate(dtypes)]
    mezo = MeZO(parameters, lr=1e-12, eps=EPS)
    before = [p.detach().clone() for p in parameters]
    assert mezo.log.restore == expected
    for _ in range(10):  # updates far too small to be seen
        mezo.step(lambda: 1.0)
    if expected == "exact":
        assert all(torch.equal(p, p0) for p, p0 in zip(parameters, before, strict=True))
    chosen = MeZO(parameters, lr=LR, eps=EPS, restore="rounded")
    assert chosen.log.restore == "rounded"


VALUES: dict[str, Any] = {
    "lr": 0.125,
    "eps": 0.0625,
    "clip": 7.5,
    "perturbations": 3,
    "weight_decay": 0.375,
    "seed": 41,
    "restore": "exact",
    "chunk": 77,
    "timed": True,
    "activations": "mean",
    "partition": "1",
}


@pytest.mark.parametrize("kind", [MeZO, ElasticZO, FZOO])
def test_repr_shows_every_setting(kind: Any) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    names = set(inspect.signature(kind).parameters) - {"model", "parameters", "trace"}
    settings = {name: VALUES[name] for name in names & VALUES.keys()}
    trained: Any = model if kind is ElasticZO else model.parameters()
    shown = repr(kind(trained, **settings))
    assert shown.startswith(f"{kind.__name__}(")
    for name in names:
        value = repr(VALUES[name]) if name in VALUES else ""
        assert f"    {name}={value}" in shown, name
    sizes = ["15 weights in 2", "8 weights in 2"] if kind is ElasticZO else ["23 weights in 4"]
    assert all(f"{size} tensors by" in shown for size in sizes)


def test_repr_shows_the_settings_of_each_group() -> None:
    shown = repr(MeZO(groups(vector(0), vector(1)), lr=LR, eps=EPS))
    assert "1,000 weights in 1 tensors by zeroth order: lr=0.01, eps=0.001, weight_decay=0" in shown
    assert "tensors by zeroth order: lr=0.005, eps=0.002, weight_decay=0.5" in shown
