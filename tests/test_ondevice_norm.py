"""Batch norm on the engine: PyTorch's numbers, statistics and gradients; PointNet as a whole."""

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from repro.core.errors import UsageError
from repro.models.pointnet import MaxOverPoints, PointBatchNorm, pointnet
from repro.ondevice.floating import NativeElasticZO

pytestmark = pytest.mark.usefixtures("engine")

EPS, LR, CLIP = 1e-2, 0.05, 0.3
TOLERANCE = 2e-5
"""Of weights and running statistics of about 1 after some steps. Batch norm divides by a standard
deviation, so it enlarges what sums in another order differ by."""


def cloud_network() -> nn.Sequential:
    return nn.Sequential(
        *(nn.Linear(3, 6), PointBatchNorm(6), nn.ReLU()),
        *(nn.Linear(6, 9), PointBatchNorm(9, eps=1e-3, momentum=0.3), MaxOverPoints()),
        *(nn.Linear(9, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4)),
    )


def uneven_network() -> nn.Sequential:
    """Widths that fill no vectors, norms here and there, and a row of logits from the maximum."""
    return nn.Sequential(
        *(nn.Linear(2, 20, bias=False), PointBatchNorm(20), nn.Linear(20, 70), nn.ReLU()),
        *(nn.Linear(70, 33), PointBatchNorm(33), nn.ReLU(), nn.Linear(33, 5), MaxOverPoints()),
    )


def one_shared_layer() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 30), PointBatchNorm(30), MaxOverPoints(), nn.Linear(30, 4))


def image_network() -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(2, 5, 3, padding=1, bias=False), nn.BatchNorm2d(5), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Conv2d(5, 7, 2), nn.BatchNorm2d(7)),
        *(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(7 * 1 * 2, 4)),
    )


NETWORKS: dict[str, tuple[Any, tuple[int, ...], list[int]]] = {
    "cloud": (cloud_network, (11, 3), [10, 9, 3, 0]),
    "long cloud": (cloud_network, (150, 3), [0]),
    "uneven cloud": (uneven_network, (37, 2), [9, 7, 4, 2, 0]),
    "one shared layer": (one_shared_layer, (66, 3), [4, 3, 0]),
    "images": (image_network, (2, 6, 10), [9, 4, 0]),
    "images with a row and a column outside the windows": (image_network, (2, 7, 11), [9, 4, 0]),
    "pointnet": (lambda: pointnet(classes=10), (20, 3), [21, 20, 0]),
}
"""How to make each, the shape of its samples, and the partition points C to try."""


def initial(name: str) -> nn.Sequential:
    """A network whose norms scale, shift and remember."""
    torch.manual_seed(3)
    model: nn.Sequential = NETWORKS[name][0]()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            module.weight.data[::3] *= -1  # there the least sum gives the maximum over points
            nn.init.uniform_(module.bias, -0.5, 0.5)
            assert module.running_mean is not None
            assert module.running_var is not None
            nn.init.uniform_(module.running_mean, -0.5, 0.5)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return model


def noise(native: NativeElasticZO, key: int) -> list[torch.Tensor]:
    """z of one key, for every parameter; zero in the tail."""
    before = [parameter.data.clone() for parameter in native.model.parameters()]
    for parameter in native.model.parameters():
        parameter.data.zero_()
    native.perturb_(key, 1.0)
    z = [parameter.data.clone() for parameter in native.model.parameters()]
    for parameter, values in zip(native.model.parameters(), before, strict=True):
        parameter.data.copy_(values)
    return z


def literal_step(
    model: nn.Sequential, z: list[torch.Tensor], inputs: torch.Tensor, labels: torch.Tensor
) -> None:
    """Algorithm 1 by PyTorch, with the noise z; parameters without noise are the tail."""
    parameters = list(model.parameters())

    def loss(factor: float) -> float:
        for parameter, direction in zip(parameters, z, strict=True):
            parameter.data.add_(direction, alpha=factor)
        value = cross_entropy(model(inputs).double(), labels)  # as the engine's, which g divides
        if factor > 0:
            model.zero_grad()
            value.backward()
        return value.item()

    g = (loss(EPS) - loss(-2 * EPS)) / (2 * EPS)
    g = max(-CLIP, min(CLIP, g))
    for parameter, direction in zip(parameters, z, strict=True):
        parameter.data.add_(direction, alpha=EPS - LR * g)
        if not direction.any():
            assert parameter.grad is not None
            parameter.data.sub_(parameter.grad, alpha=LR)


def descend(model: nn.Sequential, inputs: torch.Tensor, labels: torch.Tensor) -> None:
    """One step of SGD."""
    model.zero_grad()
    cross_entropy(model(inputs), labels).backward()
    for parameter in model.parameters():
        assert parameter.grad is not None
        parameter.data.sub_(parameter.grad, alpha=LR)


def assert_equal(own: nn.Sequential, expected: nn.Sequential) -> None:
    for (name, value), other in zip(
        own.state_dict().items(), expected.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(
            value, other, rtol=TOLERANCE, atol=TOLERANCE, msg=lambda text, name=name: name + text
        )


@pytest.mark.parametrize("instructions", ["amx", "avx512vnni", "avx2", "dotprod", "baseline"])
@pytest.mark.parametrize("mode", ["training", "frozen"])
@pytest.mark.parametrize(
    ("name", "partition"), [(name, at) for name in NETWORKS for at in NETWORKS[name][2]]
)
def test_steps_and_evaluation_are_those_of_pytorch(
    engine: Any, name: str, partition: int, mode: str, instructions: str
) -> None:
    if instructions not in engine.instruction_sets():
        pytest.skip(f"this machine has no {instructions}")
    model, shape = initial(name), NETWORKS[name][1]
    model.train(mode == "training")
    reference = copy.deepcopy(model)
    native = NativeElasticZO(
        model, shape, partition, lr=LR, eps=EPS, clip=CLIP, capacity=21, instructions=instructions
    )
    generator = torch.Generator().manual_seed(0)
    for size in (21, 16, 5):
        inputs = torch.randn(size, *shape, generator=generator)
        labels = torch.randint(0, 4, (size,), generator=generator)
        info = native.step(inputs, labels)
        if partition:
            literal_step(reference, noise(native, info.estimates[0].seed), inputs, labels)
        else:
            descend(reference, inputs, labels)
        assert_equal(model, reference)
    reference.eval()
    torch.testing.assert_close(
        native.forward(inputs), reference(inputs).detach(), rtol=1e-3, atol=1e-3
    )
    assert_equal(model, reference)  # an evaluation moves no statistics


@pytest.mark.parametrize(
    ("name", "partition"), [("long cloud", 0), ("long cloud", 10), ("uneven cloud", 4)]
)
def test_no_result_depends_on_the_number_of_threads(name: str, partition: int) -> None:
    models, shape = [], NETWORKS[name][1]
    for threads in (1, 3):
        model = initial(name)
        native = NativeElasticZO(model, shape, partition, lr=LR, eps=EPS, threads=threads)
        generator = torch.Generator().manual_seed(0)
        native.step(torch.randn(20, *shape, generator=generator), torch.arange(20) % 4)
        models.append(model)
    for own, expected in zip(
        models[0].state_dict().values(), models[1].state_dict().values(), strict=True
    ):
        assert torch.equal(own, expected)


def test_statistics_of_points_far_from_the_origin() -> None:
    model = one_shared_layer()
    native = NativeElasticZO(model, (66, 3), 4, lr=0, eps=1e-30, capacity=20)
    points = torch.randn(20, 66, 3, generator=torch.Generator().manual_seed(0)) + 1000
    native.step(points, torch.zeros(20, dtype=torch.int64))
    norm = model[1]
    assert isinstance(norm, PointBatchNorm)
    exact = copy.deepcopy(model[0]).double()(points.double()).flatten(0, 1)
    variance = 0.81 + (1 - 0.81) * exact.var(dim=0)  # two passes, from 1 on
    assert norm.running_var is not None
    torch.testing.assert_close(norm.running_var.double(), variance, rtol=1e-4, atol=0)


def test_statistics_of_many_pixels_far_from_zero() -> None:
    """A float32 sum of a million numbers near 100 would be off by a hundredth of their spread."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 1, 1, bias=False), nn.BatchNorm2d(1), nn.MaxPool2d(128), nn.Flatten(),
        nn.Linear(64, 2),
    )  # fmt: skip
    nn.init.ones_(model[0].weight)
    native = NativeElasticZO(model, (1, 1024, 1024), 0, lr=0.0, eps=1e-3, capacity=16)
    images = 100 + 0.1 * torch.randn(2, 1, 1024, 1024)
    native.step(images, torch.arange(2))
    expected = nn.BatchNorm2d(1).double()
    expected(images.double())
    torch.testing.assert_close(
        model[1].running_mean.double(), expected.running_mean, rtol=1e-7, atol=0
    )
    torch.testing.assert_close(
        model[1].running_var.double(), expected.running_var, rtol=1e-6, atol=0
    )


@pytest.mark.slow
def test_gradients_and_statistics_of_1024_points_are_those_of_float64() -> None:
    model = pointnet()
    exact = copy.deepcopy(model).double()
    clouds = torch.randn(20, 1024, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(20)
    before = [parameter.detach().double() for parameter in copy.deepcopy(model).parameters()]
    native = NativeElasticZO(model, (1024, 3), 0, lr=1, eps=EPS, capacity=20)
    loss = cross_entropy(exact(clouds.double()), labels)
    loss.backward()  # type: ignore[no-untyped-call]
    assert native.step(clouds, labels).loss == pytest.approx(loss.item(), abs=1e-6)
    for old, own, expected in zip(before, model.parameters(), exact.parameters(), strict=True):
        assert expected.grad is not None
        gradient = old - own.detach().double()
        scale = max(float(expected.grad.abs().max()), 1e-4)
        torch.testing.assert_close(gradient, expected.grad, rtol=0, atol=5e-4 * scale)
    for statistics, right in zip(model.buffers(), exact.buffers(), strict=True):
        torch.testing.assert_close(statistics, right, check_dtype=False, rtol=1e-5, atol=1e-6)


def test_a_state_is_loaded_into_the_engine() -> None:
    model, other = initial("cloud"), cloud_network()
    native = NativeElasticZO(other, (11, 3), 0, lr=LR, eps=EPS)
    other.load_state_dict(model.state_dict())
    inputs = torch.randn(7, 11, 3)
    torch.testing.assert_close(native.forward(inputs), model.eval()(inputs).detach())


def test_refuses_what_has_no_variance() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    before = copy.deepcopy(model)
    native = NativeElasticZO(model, (3,), 3, lr=LR, eps=EPS)
    with pytest.raises(UsageError, match="layer 0: batch norm of one value for each channel"):
        native.step(torch.ones(1, 3), torch.tensor([0]))
    assert_equal(model, before)


def test_a_frozen_norm_needs_no_variance() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).eval()
    reference, point = copy.deepcopy(model), torch.ones(1, 3)
    NativeElasticZO(model, (3,), 0, lr=LR, eps=EPS).step(point, torch.tensor([0]))
    descend(reference, point, torch.tensor([0]))
    assert_equal(model, reference)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.BatchNorm1d(2)), "directly after a layer"),
        (nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(3)), "2 features, must be 3"),
        (nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2, affine=False)), "must have weights"),
        (nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2, momentum=None)), "momentum"),
        (nn.Sequential(nn.Linear(3, 2), nn.BatchNorm2d(2)), "samples with 1 axes"),
        (nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2, eps=0)), "eps must be finite and above"),
        (nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2)), "before any layer with weights"),
    ],
)
def test_refuses_norms_that_it_has_not(model: nn.Sequential, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        NativeElasticZO(model, (3,), 0, lr=LR, eps=EPS)


def test_a_layer_and_its_norm_are_of_one_part() -> None:
    with pytest.raises(UsageError, match="partition 1: 1 belongs to the layer before it"):
        NativeElasticZO(cloud_network(), (11, 3), 1, lr=LR, eps=EPS)
