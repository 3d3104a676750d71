"""The engine in float32: PyTorch's numbers to a stated tolerance, and noise of its own."""

import copy
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import prune

from repro.core.errors import UsageError
from repro.integer.network import IntegerNetwork
from repro.integer.tensor import IntegerTensor
from repro.methods.step_info import DivergedError
from repro.models.lenet5 import lenet5
from repro.models.pointnet import MaxOverPoints
from repro.ondevice.floating import NativeElasticZO
from repro.ondevice.integer import NativeElasticZOInt8

pytestmark = pytest.mark.usefixtures("engine")

IMAGE = (1, 28, 28)
PARTITIONS: dict[str, str | int] = {"Full ZO": 12, "Cls2": "fc3", "Cls1": "fc2", "Full BP": 0}
INSTRUCTIONS = ["amx", "avx512vnni", "avx2", "dotprod", "baseline"]
EPS, LR, CLIP = 1e-2, 0.05, 0.3
TOLERANCE = 2e-6
"""Of weights of about 0.1 after some steps: sums of 784 float32 products in another order."""


def network(seed: int = 1) -> nn.Sequential:
    torch.manual_seed(seed)
    return lenet5()


def batch(seed: int = 0, size: int = 24) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(size, *IMAGE, generator=generator)
    return images, torch.randint(0, 10, (size,), generator=generator)


def noise(key: int, partition: str | int) -> list[torch.Tensor]:
    """z of one key, for every parameter; zero in the tail."""
    model = network()
    for parameter in model.parameters():
        parameter.data.zero_()
    native = NativeElasticZO(model, IMAGE, partition, lr=LR, eps=EPS, capacity=16)
    native.perturb_(key, 1.0)
    return [parameter.data.clone() for parameter in model.parameters()]


def literal_step(
    model: nn.Sequential, z: list[torch.Tensor], data: Any, activations: str
) -> tuple[float, float, float]:
    """Algorithm 1 by PyTorch, with the noise z; parameters without noise are the tail."""
    parameters = list(model.parameters())

    def move(factor: float) -> None:
        for parameter, direction in zip(parameters, z, strict=True):
            parameter.data.add_(direction, alpha=factor)

    losses, gradients = [], []
    for factor in (EPS, -2 * EPS):
        move(factor)
        loss = cross_entropy(model(data[0]), data[1])
        model.zero_grad()
        loss.backward()
        losses.append(loss.item())
        gradients.append([parameter.grad.clone() for parameter in parameters])  # type: ignore[union-attr]
    g = max(-CLIP, min(CLIP, (losses[0] - losses[1]) / (2 * EPS)))
    move(EPS - LR * g)
    shares = {"plus": (1, 0), "minus": (0, 1), "mean": (0.5, 0.5)}[activations]
    for n, (parameter, direction) in enumerate(zip(parameters, z, strict=True)):
        if not direction.any():
            step = shares[0] * gradients[0][n] + shares[1] * gradients[1][n]
            parameter.data.sub_(step, alpha=LR)
    return losses[0], losses[1], g


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
@pytest.mark.parametrize("method", ["Full ZO", "Cls2", "Cls1"])
def test_a_step_is_that_of_algorithm_1(engine: Any, method: str, instructions: str) -> None:
    if instructions not in engine.instruction_sets():
        pytest.skip(f"this machine has no {instructions}")
    model, partition = network(), PARTITIONS[method]
    reference = copy.deepcopy(model)
    native = NativeElasticZO(
        model, IMAGE, partition, lr=LR, eps=EPS, clip=CLIP, instructions=instructions
    )
    for number in range(3):
        info = native.step(*batch(number))
        (estimate,) = info.estimates
        plus, minus, g = literal_step(
            reference, noise(estimate.seed, partition), batch(number), "plus"
        )
        assert estimate.loss_plus == pytest.approx(plus, abs=1e-6)
        assert estimate.loss_minus == pytest.approx(minus, abs=1e-6)
        assert estimate.projected_gradient == pytest.approx(g, abs=1e-4)
        for own, expected in zip(model.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(own.data, expected.data, rtol=0, atol=10 * TOLERANCE)


@pytest.mark.parametrize("activations", ["plus", "minus", "mean"])
def test_activations_of_the_tail(activations: Any) -> None:
    model = network()
    reference = copy.deepcopy(model)
    native = NativeElasticZO(
        model, IMAGE, "fc2", lr=LR, eps=EPS, clip=CLIP, activations=activations
    )
    (estimate,) = native.step(*batch()).estimates
    literal_step(reference, noise(estimate.seed, "fc2"), batch(), activations)
    for own, expected in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(own.data, expected.data, rtol=0, atol=10 * TOLERANCE)


@pytest.mark.parametrize("instructions", INSTRUCTIONS)
def test_full_bp_is_sgd(engine: Any, instructions: str) -> None:
    if instructions not in engine.instruction_sets():
        pytest.skip(f"this machine has no {instructions}")
    model = network()
    reference = copy.deepcopy(model)
    descent = torch.optim.SGD(reference.parameters(), lr=LR)
    native = NativeElasticZO(model, IMAGE, 0, lr=LR, eps=EPS, instructions=instructions)
    for number in range(5):
        images, labels = batch(number, size=24 - number)
        loss = cross_entropy(reference(images), labels)
        descent.zero_grad()
        loss.backward()
        descent.step()
        assert native.step(images, labels).loss == pytest.approx(loss.item(), abs=1e-6)
    for own, expected in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(own.data, expected.data, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("partition", [0, 2, 7])
@pytest.mark.parametrize("rows", [9, 8])
def test_gradients_of_other_networks_by_autograd(partition: int, rows: int) -> None:
    torch.manual_seed(0)
    cloud = rows == 8
    images = nn.Sequential(
        nn.Conv2d(3, 5, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(5, 7, 2, bias=False),
        nn.MaxPool2d(3),
        nn.Flatten(),
        nn.Linear(7, 4),
    )
    points = nn.Sequential(
        nn.Linear(3, 6),
        nn.ReLU(),
        nn.Linear(6, 9),
        nn.ReLU(),
        MaxOverPoints(),
        nn.ReLU(),
        nn.Linear(9, 4),
    )
    model, shape = (points, (11, 3)) if cloud else (images, (3, rows, 8))
    if partition == 7:
        inputs = torch.randn(19, *shape)
        native = NativeElasticZO(model, shape, 7, lr=LR, eps=EPS)
        torch.testing.assert_close(native.forward(inputs), model(inputs).detach())
        return
    if partition == 2 and not cloud:
        partition = 3
    reference = copy.deepcopy(model)
    native = NativeElasticZO(model, shape, partition, lr=LR, eps=1e-30, clip=1e-30)
    inputs, labels = torch.randn(19, *shape), torch.randint(0, 4, (19,))
    native.step(inputs, labels)
    cross_entropy(reference(inputs), labels).backward()
    tail = {id(p) for child in list(reference)[partition:] for p in child.parameters()}
    for own, parameter in zip(model.parameters(), reference.parameters(), strict=True):
        assert parameter.grad is not None
        expected = parameter.data - LR * parameter.grad if id(parameter) in tail else parameter.data
        torch.testing.assert_close(own.data, expected, rtol=0, atol=TOLERANCE)


def test_noise_is_standard_normal() -> None:
    z = torch.cat([part.flatten() for part in noise(12345, 12)]).double()
    assert len(z) == 107_786
    assert stats.kstest(z.numpy(), "norm").pvalue > 1e-3
    assert abs(stats.kurtosis(z.numpy())) < 0.1
    shifted = torch.corrcoef(torch.stack([z[:-16], z[16:]]))[0, 1]
    assert abs(float(shifted)) < 5 / len(z) ** 0.5
    assert not torch.equal(z, torch.cat([part.flatten() for part in noise(12346, 12)]).double())


def test_noise_has_the_same_bits_everywhere(engine: Any) -> None:
    walks = []
    for instructions in engine.instruction_sets():
        for threads in (1, 2):
            model = network()
            native = NativeElasticZO(
                model, IMAGE, 12, lr=LR, eps=EPS, instructions=instructions, threads=threads
            )
            native.perturb_(7, 0.3)
            walks.append(torch.cat([p.data.flatten() for p in model.parameters()]))
    assert all(torch.equal(walk, walks[0]) for walk in walks)


def test_a_loss_that_is_not_finite_ends_the_step() -> None:
    model = network()
    native = NativeElasticZO(model, IMAGE, "fc2", lr=LR, eps=EPS)
    images, labels = batch()
    native.perturb_(1, 1e30)
    with pytest.raises(DivergedError, match=r"step 1: losses (nan|inf)"):
        native.step(images, labels)
    native.perturb_(1, -1e30)
    images[3, 0, 4, 4] = float("nan")
    with pytest.raises(UsageError, match="all must be finite"):
        native.step(images, labels)
    assert native.steps == 0


@pytest.mark.parametrize("partition", [0, "fc2"])
def test_an_update_beyond_float32_moves_nothing(partition: Any) -> None:
    model = network()
    before = [parameter.data.clone() for parameter in model.parameters()]
    native = NativeElasticZO(model, IMAGE, partition, lr=1e39, eps=EPS)
    with pytest.raises(DivergedError, match=r"step 1: losses .*, learning rate times g = "):
        native.step(*batch())
    for own, expected in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(own.data, expected)
    assert native.steps == 0


def test_the_error_does_not_promise_running_statistics_back() -> None:
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 4))
    native = NativeElasticZO(model, (3,), 2, lr=LR, eps=EPS)
    native.perturb_(1, 1e38)
    with pytest.raises(DivergedError, match="running statistics are not"):
        native.step(torch.full((4, 3), 1e3), torch.arange(4))
    assert not all(buffer.isfinite().all() for buffer in model.buffers())


def test_a_refused_batch_moves_nothing() -> None:
    model = network()
    before = [parameter.data.clone() for parameter in model.parameters()]
    native = NativeElasticZO(model, IMAGE, "fc2", lr=LR, eps=EPS)
    images, labels = batch()
    with pytest.raises(UsageError, match=r"label 1[0-2]"):
        native.step(images, labels + 3)
    for own, expected in zip(model.parameters(), before, strict=True):
        assert torch.equal(own.data, expected)


def test_refuses_what_it_cannot_train() -> None:
    model = nn.Sequential()
    model.add_module("conv", nn.Conv2d(1, 2, 3))
    model.add_module("mean", nn.AvgPool2d(2))
    with pytest.raises(UsageError, match=r"layer mean \(AvgPool2d\): not supported by the engine"):
        NativeElasticZO(model, IMAGE, 0, lr=LR, eps=EPS)
    with pytest.raises(UsageError, match="partition 'fc9'"):
        NativeElasticZO(network(), IMAGE, "fc9", lr=LR, eps=EPS)
    with pytest.raises(UsageError, match="eps = 0"):
        NativeElasticZO(network(), IMAGE, 12, lr=LR, eps=0)
    native = NativeElasticZO(network(), IMAGE, 12, lr=LR, eps=EPS)
    with pytest.raises(UsageError, match="was made for"):
        native.step(torch.zeros(2, 1, 27, 28), torch.zeros(2, dtype=torch.int64))


class OwnForward(nn.Sequential):
    """Its layers do not tell what it computes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * 0 + 1


def test_what_would_not_run_in_the_engine_is_refused() -> None:
    layers = [nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2)]
    for wrong in (OwnForward(*layers), nn.ModuleList(layers)):
        with pytest.raises(UsageError, match=r"is no plain nn\.Sequential"):
            NativeElasticZO(wrong, (8,), 2, lr=LR, eps=EPS)  # type: ignore[arg-type]
    hooked = nn.Sequential(*layers)
    hooked[1].register_forward_hook(lambda _module, _inputs, output: output * 2)
    with pytest.raises(UsageError, match="layer 1 has forward hooks or a replaced"):
        NativeElasticZO(hooked, (8,), 2, lr=LR, eps=EPS)


def test_parameters_that_pytorch_would_train_otherwise_are_refused() -> None:
    frozen = network()
    frozen[0].requires_grad_(requires_grad=False)
    before = [parameter.clone() for parameter in frozen.parameters()]
    with pytest.raises(UsageError, match=r"parameter conv1\.weight has requires_grad = False"):
        NativeElasticZO(frozen, IMAGE, "fc2", lr=LR, eps=EPS)
    assert all(torch.equal(a, b) for a, b in zip(frozen.parameters(), before, strict=True))
    double = network().double()
    with pytest.raises(UsageError, match=r"conv1\.weight is torch\.float64 on cpu"):
        NativeElasticZO(double, IMAGE, "fc2", lr=LR, eps=EPS)
    assert {parameter.dtype for parameter in double.parameters()} == {torch.float64}


def test_batches_of_another_layout_are_refused() -> None:
    """Each has as many numbers a sample as the network reads."""
    native = NativeElasticZO(network(), IMAGE, 12, lr=LR, eps=EPS)
    inputs, labels = batch()
    for wrong in (inputs[:, 0], inputs.permute(0, 2, 3, 1), inputs.flatten(1), inputs.double()):
        with pytest.raises(UsageError, match=r"the network was made for \[B, 1, 28, 28\]"):
            native.forward(wrong)
    with pytest.raises(UsageError, match=r"on meta: the network was made for .* on cpu"):
        native.forward(torch.empty(inputs.shape, device="meta"))
    with pytest.raises(UsageError, match=r"labels \[.*, 1\] .*: must be \[B\] of torch.int64"):
        native.step(inputs, labels.view(-1, 1))
    inputs[0, 0, 3, 3] = torch.nan
    with pytest.raises(UsageError, match="all must be finite"):
        native.forward(inputs)


class _Doubled(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(x)


def test_layers_whose_weight_is_not_their_own_are_refused() -> None:
    def made() -> nn.Sequential:
        return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Linear(4, 3))

    tied, pruned, normed = made(), made(), made()
    tied[2].bias = tied[0].bias
    prune.l1_unstructured(pruned[0], "weight", 0.5)
    nn.utils.parametrizations.spectral_norm(normed[0])
    doubled = nn.Sequential(_Doubled(4, 4), nn.Linear(4, 3))
    for model, message in (
        (tied, "layer 2 has a weight or bias of layer 0"),
        (pruned, "layer 0 computes its weight from weight_orig"),
        (normed, "layer 0 computes its weight from parametrizations"),
        (doubled, r"layer 0 \(_Doubled\) has its own forward\(\)"),
    ):
        with pytest.raises(UsageError, match=message):
            NativeElasticZO(model, (4,), 0, lr=LR, eps=EPS)


def test_pooling_windows_whose_places_need_more_than_16_bits_are_refused() -> None:
    model = nn.Sequential(nn.Conv2d(1, 1, 1), nn.MaxPool2d(257), nn.Flatten(), nn.Linear(1, 2))
    with pytest.raises(UsageError, match="pooling windows of 66049 values"):
        NativeElasticZO(model, (1, 257, 257), 0, lr=LR, eps=EPS, capacity=16)


def test_a_resumed_engine_draws_the_noise_of_the_run() -> None:
    settings = {"lr": LR, "eps": EPS, "clip": CLIP, "capacity": 32}
    whole, part = network(), network(2)
    one = NativeElasticZO(whole, IMAGE, "fc3", seed=3, **settings)  # type: ignore[arg-type]
    other = NativeElasticZO(part, IMAGE, "fc3", seed=5, **settings)  # type: ignore[arg-type]
    one.step(*batch(0))
    part.load_state_dict(whole.state_dict())
    other.load_state_dict(one.state_dict())
    for method in (one, other):
        method.step(*batch(1))
    assert all(map(torch.equal, whole.parameters(), part.parameters()))


@pytest.mark.parametrize(
    "replace",
    [
        lambda model: model.double().float(),
        lambda model: model.load_state_dict(network(2).state_dict(), assign=True),
        lambda model: nn.utils.vector_to_parameters(
            nn.utils.parameters_to_vector(model.parameters()).detach().clone(), model.parameters()
        ),
    ],
    ids=["another format", "assigned", "vector"],
)
def test_a_model_that_no_longer_has_the_trained_memory_is_refused(replace: Any) -> None:
    model = network()
    elastic = NativeElasticZO(model, IMAGE, "fc2", lr=0.1, eps=1e-3)
    inputs, labels = batch()
    elastic.step(inputs, labels)
    model.load_state_dict(network(2).state_dict())  # copies into the shared memory
    elastic.step(inputs, labels)
    replace(model)
    for use in (lambda: elastic.step(inputs, labels), lambda: elastic.forward(inputs)):
        with pytest.raises(UsageError, match="replaced after the engine took them"):
            use()


class Signalled:
    """The engine's training, with Ctrl-C at the end of each step, before Python goes on."""

    def __init__(self, training: Any) -> None:
        self._training = training

    def __getattr__(self, name: str) -> Any:
        return getattr(self._training, name)

    def step(self, *arguments: Any) -> Any:
        done = self._training.step(*arguments)
        signal.raise_signal(signal.SIGINT)
        return done


@pytest.mark.parametrize("integers", [False, True])
def test_an_interrupted_step_is_counted(integers: bool) -> None:
    images, labels = batch()
    native: Any = NativeElasticZO(network(), IMAGE, "fc3", lr=LR, eps=EPS)
    if integers:
        structure = lenet5(bias=False)
        own = IntegerNetwork.random(structure, seed=0)
        native = NativeElasticZOInt8(own, structure, IMAGE, "fc3")
        images = IntegerTensor((10 * images).to(torch.int8), -7)  # type: ignore[assignment]
    native.training = Signalled(native.training)
    for steps in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            native.step(images, labels)
        assert native.steps == steps


def test_every_step_of_several_threads_has_noise_of_its_own() -> None:
    native = NativeElasticZO(network(), IMAGE, "fc3", lr=1e-3, eps=EPS, clip=CLIP)
    data = batch()
    with ThreadPoolExecutor(4) as pool:
        infos = [*pool.map(lambda _: native.step(*data), range(60))]
    assert len({info.estimates[0].seed for info in infos}) == native.steps == 60


def test_autograd_notices_a_step() -> None:
    model = network()
    native = NativeElasticZO(model, IMAGE, "fc3", lr=LR, eps=EPS)
    images, labels = batch()
    for move in (lambda: native.step(images, labels), lambda: native.perturb_(1, 0.1)):
        loss = cross_entropy(model(images), labels)
        move()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


@pytest.mark.parametrize("factor", [float("nan"), float("inf"), 1e300])
def test_a_perturbation_is_finite(factor: float) -> None:
    native = NativeElasticZO(network(), IMAGE, "fc3", lr=LR, eps=EPS)
    with pytest.raises(UsageError, match="must be finite in float32"):
        native.perturb_(1, factor)
    native.perturb_(-1, 0.1)  # keys count modulo 2^64, as seeds do


def test_a_model_made_under_inference_mode_is_refused() -> None:
    with torch.inference_mode():
        model = network()
    with pytest.raises(UsageError, match=r"torch\.inference_mode"):
        NativeElasticZO(model, IMAGE, "fc3", lr=LR, eps=EPS)
