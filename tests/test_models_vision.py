"""LeNet-5 and PointNet against the sizes the ElasticZO paper publishes."""

import pytest
import torch
from torch import nn

from repro.data.points.shapes40 import make
from repro.models.lean import LeanConv2d, MaxPool2x2
from repro.models.lenet5 import lenet5
from repro.models.pointnet import MaxOverPoints, PointBatchNorm, pointnet

IMAGES = torch.zeros(2, 1, 28, 28)
CLOUDS = torch.zeros(2, 1024, 3)


def parameters(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def outputs_per_sample(model: nn.Sequential, batch: torch.Tensor) -> dict[str, int]:
    """Output elements of every layer; flattening makes no new tensor and is not counted."""
    sizes = {}
    for name, layer in model.named_children():
        batch = layer(batch)
        if not isinstance(layer, nn.Flatten):
            sizes[name] = batch[0].numel()
    return sizes


@pytest.mark.parametrize(
    ("model", "count"), [(lenet5(), 107_786), (lenet5(bias=False), 107_550), (pointnet(), 818_088)]
)
def test_parameter_counts(model: nn.Sequential, count: int) -> None:
    assert parameters(model) == count


def test_activations_of_lenet5() -> None:
    """Sum of a_l in equations 2 to 4, and over convolutions and FC layers as in 13 to 15."""
    sizes = outputs_per_sample(lenet5(), IMAGES)
    assert sum(sizes.values()) == 18_058
    assert sum(size for name, size in sizes.items() if name[:2] in ("co", "fc")) == 8_054


def test_activations_of_pointnet() -> None:
    assert sum(outputs_per_sample(pointnet(), CLOUDS).values()) == 4_131_368


@pytest.mark.parametrize(
    ("first", "count", "share"),
    [("fc3", 850, 0.008), ("fc2", 11_014, 0.102), ("conv1", 107_786, 1)],
)
def test_partition_of_lenet5_by_layer_name(first: str, count: int, share: float) -> None:
    model = lenet5()
    index = [name for name, _ in model.named_children()].index(first)
    head, tail = model[:index], model[index:]
    assert parameters(tail) == count
    assert parameters(tail) / parameters(model) == pytest.approx(share, abs=5e-4)
    torch.testing.assert_close(tail(head(IMAGES)), model(IMAGES))


@pytest.mark.parametrize(("first", "zo_share"), [("fc8", 0.987), ("fc7", 0.827)])
def test_partition_of_pointnet_by_layer_name(first: str, zo_share: float) -> None:
    model = pointnet()
    index = [name for name, _ in model.named_children()].index(first)
    assert parameters(model[:index]) / parameters(model) == pytest.approx(zo_share, abs=5e-4)


@pytest.mark.parametrize("training", [True, False])
def test_pointnet_does_not_see_the_order_of_points(training: bool) -> None:
    torch.manual_seed(0)
    model = pointnet().train(training)
    clouds = torch.randn(4, 100, 3)
    shuffled = clouds[:, torch.randperm(100)]
    torch.testing.assert_close(model(shuffled), model(clouds), rtol=1e-4, atol=1e-5)


def test_batch_norm_of_points_is_the_norm_of_channels() -> None:
    """Against PyTorch's own layout [B, C, N]."""
    torch.manual_seed(0)
    ours = pointnet(classes=3).train()
    clouds = torch.randn(5, 20, 3)
    features = ours[0](clouds)
    reference = nn.BatchNorm1d(64).train()
    torch.testing.assert_close(ours[1](features), reference(features.mT).mT)
    torch.testing.assert_close(ours[1].running_var, reference.running_var)


def test_number_of_classes_and_points_is_free() -> None:
    assert pointnet(classes=30)(torch.randn(2, 17, 3)).shape == (2, 30)
    assert lenet5(classes=7)(IMAGES).shape == (2, 7)


@pytest.mark.slow
def test_pointnet_learns_generated_shapes_by_backpropagation() -> None:
    """Chance is 1/40; the clouds of the test split were not trained on."""
    content = make(train=1200, test=200)
    clouds, labels, test_clouds, test_labels = (
        torch.from_numpy(content[key])
        for key in ("train_points", "train_labels", "test_points", "test_labels")
    )
    torch.manual_seed(0)
    model = pointnet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(12):
        for batch in torch.randperm(1200).view(-1, 30):
            loss = nn.functional.cross_entropy(model(clouds[batch, :128]), labels[batch].long())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    predicted = model.eval()(test_clouds[:, :128]).argmax(dim=1)
    assert (predicted == test_labels).float().mean() > 0.4


@pytest.mark.parametrize("shape", [(2, 3, 8, 6), (1, 1, 7, 9), (5, 4), (2, 1, 2, 2)])
def test_pooling_without_gradients_is_pytorchs_number_for_number(shape: tuple[int, ...]) -> None:
    features = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    features.view(-1)[::5] = float("nan")
    expected = nn.MaxPool2d(2)(features.view(1, *shape) if len(shape) == 2 else features)
    with torch.no_grad():
        found = MaxPool2x2()(features)
    torch.testing.assert_close(found, expected.view(found.shape), rtol=0, atol=0, equal_nan=True)


def test_pooling_with_gradients_keeps_pytorchs_backward() -> None:
    features = torch.randn(2, 3, 6, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(MaxPool2x2(), features)
    ours, theirs = (
        torch.autograd.grad(pool(features).square().sum(), features)[0]
        for pool in (MaxPool2x2(), nn.MaxPool2d(2))
    )
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("inputs", [1, 3])
def test_convolution_without_gradients_has_channels_innermost_and_the_same_sums(
    inputs: int,
) -> None:
    torch.manual_seed(0)
    ours = LeanConv2d(inputs, 6, kernel_size=5, padding=2)
    theirs = nn.Conv2d(inputs, 6, kernel_size=5, padding=2)
    theirs.load_state_dict(ours.state_dict())
    images = torch.randn(4, inputs, 9, 7)
    before = images.clone()
    with torch.no_grad():
        found = ours(images)
        expected = theirs.double()(images.double())
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)
    if torch.backends.mkldnn.is_available():
        assert found.stride() == (6 * 9 * 7, 1, 6 * 7, 6)
    assert torch.equal(images, before)


def test_convolution_with_gradients_is_pytorchs() -> None:
    torch.manual_seed(0)
    ours, theirs = LeanConv2d(2, 3, 3), nn.Conv2d(2, 3, 3)
    theirs.load_state_dict(ours.state_dict())
    images = torch.randn(2, 2, 6, 6)
    for layer in (ours, theirs):
        layer(images).square().sum().backward()
    assert torch.equal(ours(images), theirs(images))
    assert torch.equal(ours.weight.grad, theirs.weight.grad)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_in_place_is_pytorchs_number_for_number(training: bool) -> None:
    """Its output, and the running statistics it leaves."""
    torch.manual_seed(0)
    ours, theirs = (
        PointBatchNorm(5).train(training),
        nn.BatchNorm1d(5).train(training),
    )
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.normal_()
        ours.running_mean.normal_()
    theirs.load_state_dict(ours.state_dict())
    features = torch.randn(3, 7, 5)
    with torch.no_grad():
        expected = theirs(features.flatten(0, 1)).view_as(features)
        found = ours(features)
    assert torch.equal(found, expected)
    assert found.data_ptr() == features.data_ptr()
    for name, value in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[name], value), name


@pytest.mark.parametrize("training", [False, True])
def test_batch_norm_of_a_transposed_input_is_torchs(training: bool) -> None:
    torch.manual_seed(0)
    clouds = torch.randn(2, 3, 7) * 4 + 2  # [B, C, N], as PyTorch's batch norm takes them
    expected = nn.BatchNorm1d(3).train(training)(clouds).transpose(1, 2)
    with torch.no_grad():
        found = PointBatchNorm(3).train(training)(clouds.transpose(1, 2))
    torch.testing.assert_close(found, expected)


def test_batch_norm_in_place_leaves_its_input_to_a_backward_pass() -> None:
    torch.manual_seed(0)
    layer = PointBatchNorm(3).double()
    features = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, features)


def test_batch_norm_in_place_refuses_to_train_on_one_point() -> None:
    with pytest.raises(ValueError, match="more than 1 value per channel"), torch.no_grad():
        PointBatchNorm(3)(torch.zeros(1, 1, 3))


def test_maximum_over_points_gives_its_gradient_to_one_of_equal_values() -> None:
    features = torch.tensor([[[1.0], [2.0], [2.0]]], requires_grad=True)
    MaxOverPoints()(features).backward(torch.ones(1, 1))
    assert sorted(features.grad.flatten().tolist()) == [0, 0, 1]
    with torch.no_grad():
        assert MaxOverPoints()(features).tolist() == [[2.0]]
