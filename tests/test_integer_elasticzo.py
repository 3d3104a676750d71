"""Algorithm 2 as a whole: integers only, literal steps, streams, errors, resume."""

import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from repro.core.errors import UsageError
from repro.core.names import ShiftVersion, SignRule
from repro.integer import elasticzo_int8 as elasticzo_module
from repro.integer import noise as noise_module
from repro.integer.counter import stream_key
from repro.integer.elasticzo_int8 import ElasticZOInt8, Restores
from repro.integer.layers import Weighted
from repro.integer.loss import logit_error
from repro.integer.network import IntegerNetwork, SavedTensors
from repro.integer.noise import IntegerNoise
from repro.integer.perturbation import Perturbation
from repro.integer.sign import compare, mean_loss
from repro.integer.tensor import IntegerTensor
from repro.models.lenet5 import lenet5
from repro.ondevice.integer import NativeElasticZOInt8

PARTITIONS = {"Full ZO": 12, "Cls2": "fc3", "Cls1": "fc2", "Full BP": 0}


def lenet(seed: int = 0, policy: ShiftVersion = "v2") -> IntegerNetwork:
    return IntegerNetwork.random(lenet5(bias=False), seed=seed, policy=policy)


def batch(seed: int = 0, size: int = 8) -> tuple[IntegerTensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(-14, 91, (size, 1, 28, 28), generator=generator).to(torch.int8)
    return IntegerTensor(images, -5), torch.randint(0, 10, (size,), generator=generator)


def train(method: ElasticZOInt8, steps: int = 3, first: int = 0) -> None:
    for step in range(first, first + steps):
        method.step(*batch(step))


class NoFloats(TorchDispatchMode):
    """Fails on every operation that reads or makes a floating-point tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.operations += 1
        for leaf in tree_leaves((args, kwargs, result)):
            if isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex()):
                msg = f"{func} has a tensor of {leaf.dtype}"
                raise AssertionError(msg)
        return result


@pytest.mark.parametrize("policy", ["v1", "v2"])
@pytest.mark.parametrize("sign", ["integer", "exact"])
@pytest.mark.parametrize("method", PARTITIONS)
def test_an_integer_step_has_no_floating_point_tensor(
    method: str, sign: SignRule, policy: ShiftVersion
) -> None:
    elastic = ElasticZOInt8(lenet(policy=policy), PARTITIONS[method], sign=sign)
    with NoFloats() as walk:
        train(elastic, 2)
    assert walk.operations > 50


def test_the_walk_would_notice_the_float_loss() -> None:
    elastic = ElasticZOInt8(lenet(), 12, sign="float")
    with pytest.raises(AssertionError, match=r"has a tensor of torch\.float"), NoFloats():
        train(elastic, 1)


@pytest.mark.parametrize("activations", ["plus", "minus"])
@pytest.mark.parametrize("sign", ["float", "integer", "exact"])
@pytest.mark.parametrize("restore", ["clip", "exact"])
def test_a_step_is_its_parts_in_the_order_of_algorithm_2(
    activations: Any, sign: SignRule, restore: Any
) -> None:
    elastic = ElasticZOInt8(
        lenet(), "fc2", sign=sign, activations=activations, restore=restore, seed=7
    )
    info = elastic.step(*batch())

    network = lenet()
    inputs, labels = batch()
    head = [150, 2400, 94_080]
    key = stream_key(7, 0, 0)
    walk = Perturbation(
        network.parameters[: sum(head)], head, IntegerNoise(key, 15, 0.33), exact=restore == "exact"
    )
    tapes: dict[str, list[SavedTensors]] = {"plus": [], "minus": []}
    walk.plus()
    plus = network.forward(inputs, tapes["plus"], 9)
    walk.minus()
    minus = network.forward(inputs, tapes["minus"], 9)
    found = compare(sign, plus, minus, labels)
    walk.restore_and_descend(found.sign, 1)
    logits = plus if activations == "plus" else minus
    error = logit_error(logits, labels, draws_of(7, 0, 8, 10))
    for layer, update in network.backward(tapes[activations], error, 5):
        weight = layer.weight.values
        weight.copy_((weight.int() - update).clamp(-127, 127))

    assert torch.equal(elastic.network.parameters, network.parameters)
    (estimate,) = info.estimates
    assert (estimate.seed, estimate.projected_gradient) == (key, found.sign)
    assert (estimate.loss_plus, estimate.loss_minus) == (found.loss_plus, found.loss_minus)
    assert elastic.restores == Restores(walk.clipped, sum(head))
    assert elastic.last is info


def draws_of(seed: int, step: int, samples: int, classes: int) -> torch.Tensor:
    """The top four bits of each word, by Python's integers."""
    key, mask = stream_key(seed, step, 1), 0xFFFFFFFF
    draws = []
    for i in range(samples * classes):
        x = (i + key) & mask
        x = ((x ^ (x >> 16)) * 0x7FEB352D) & mask
        x = ((x ^ (x >> 15) ^ (key >> 32)) * 0x846CA68B) & mask
        draws.append((x ^ (x >> 16)) >> 28)
    return torch.tensor(draws).view(samples, classes)


def test_full_bp_is_niti_with_one_forward_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    elastic = ElasticZOInt8(lenet(), 0)
    network = lenet()
    inputs, labels = batch()
    tape: list[SavedTensors] = []
    logits = network.forward(inputs, tape)
    records = list(tape)
    passes: list[int] = []
    forward = IntegerNetwork.forward

    def counted(self: IntegerNetwork, x: IntegerTensor, *rest: Any) -> IntegerTensor:
        passes.append(len(x.values))
        return forward(self, x, *rest)

    monkeypatch.setattr(IntegerNetwork, "forward", counted)
    info = elastic.step(inputs, labels)
    assert passes == [1, 8]  # one sample tries the shape
    assert info.estimates == ()
    assert info.loss == mean_loss("float", logits, labels)

    # NITI updates a layer as soon as its error has been passed on; the result is the same
    error = logit_error(logits, labels, draws_of(0, 0, 8, 10)).t().contiguous()
    for record in reversed(records):
        if isinstance(record.layer, Weighted):
            layer = record.layer
            before = error
            error = (
                network.policy.error(layer.input_error(error))
                if record is not records[0]
                else error
            )
            for owner, update in network.backward(
                [SavedTensors(layer, record.x, record.y)], batch_first(before), 5
            ):
                weight = owner.weight.values
                weight.copy_((weight.int() - update).clamp(-127, 127))
        else:
            error = record.layer.backward(record.x, record.y, error)
    assert torch.equal(elastic.network.parameters, network.parameters)


def batch_first(error: torch.Tensor) -> torch.Tensor:
    return error.permute(3, 1, 0, 2) if error.dim() == 4 else error.t()


def test_head_and_tail_have_the_papers_sizes() -> None:
    sizes = {name: sum(ElasticZOInt8(lenet(), c).zo_sizes) for name, c in PARTITIONS.items()}
    assert sizes == {"Full ZO": 107_550, "Cls2": 106_710, "Cls1": 96_630, "Full BP": 0}


@pytest.mark.parametrize("method", PARTITIONS)
def test_runs_are_determined_by_their_seed(method: str) -> None:
    one, same, other = lenet(), lenet(), lenet()
    train(ElasticZOInt8(one, PARTITIONS[method], seed=1))
    train(ElasticZOInt8(same, PARTITIONS[method], seed=1))
    train(ElasticZOInt8(other, PARTITIONS[method], seed=2))
    assert torch.equal(one.parameters, same.parameters)
    assert not torch.equal(one.parameters, other.parameters)


def test_threads_do_not_matter() -> None:
    results = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        network = lenet()
        train(ElasticZOInt8(network, "fc2", sign="integer"), 1)
        results.append(network.parameters)
    assert torch.equal(*results)


def test_streams_depend_on_seed_and_step_and_not_on_data_or_partition() -> None:
    def seeds(partition: str | int, first: int) -> list[int]:
        elastic = ElasticZOInt8(lenet(first), partition, seed=5)
        found = []
        for step in range(3):
            (estimate,) = elastic.step(*batch(first + step)).estimates
            found.append(estimate.seed)
        return found

    assert seeds(12, 0) == seeds("fc3", 10) == [stream_key(5, step, 0) for step in range(3)]


@pytest.mark.parametrize("method", PARTITIONS)
def test_resumed_run_is_the_uninterrupted_one(method: str) -> None:
    whole, halves = lenet(), lenet()
    one = ElasticZOInt8(whole, PARTITIONS[method], seed=3)
    one.p_zero, one.b_bp = 0.5, 4
    train(one, 4)
    first = ElasticZOInt8(halves, PARTITIONS[method], seed=3)
    first.p_zero, first.b_bp = 0.5, 4
    train(first, 2)
    resumed = lenet(seed=9)
    second = ElasticZOInt8(resumed, PARTITIONS[method], seed=99)
    resumed.load_state_dict(halves.state_dict())
    second.load_state_dict(first.state_dict())
    train(second, 2, first=2)
    assert torch.equal(whole.parameters, resumed.parameters)
    assert second.state_dict() == one.state_dict()


def test_schedule_attributes_take_effect_at_the_next_step() -> None:
    elastic = ElasticZOInt8(lenet(), "fc3")
    before = elastic.network.parameters.clone()
    elastic.p_zero, elastic.b_bp = 1 - 2**-16, 0
    elastic.step(*batch())
    moved = (elastic.network.parameters.int() - before.int()).abs()
    assert int((moved[: sum(elastic.zo_sizes)] > 0).sum()) < 50
    assert int(moved[sum(elastic.zo_sizes) :].max()) == 1


def test_phases_are_timed_only_if_asked_for() -> None:
    elastic = ElasticZOInt8(lenet(), "fc3")
    assert elastic.step(*batch()).seconds == {}
    timed = ElasticZOInt8(lenet(), "fc3", timed=True)
    assert set(timed.step(*batch()).seconds) == {"perturb", "forward", "backward", "loss", "update"}
    full = ElasticZOInt8(lenet(), 0, timed=True)
    assert set(full.step(*batch()).seconds) == {"forward", "backward", "loss", "update"}


@pytest.mark.parametrize("restore", ["clip", "exact"])
@pytest.mark.parametrize("failing", [2, 3])
def test_an_exception_in_a_pass_puts_the_weights_back(
    restore: Any, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    elastic = ElasticZOInt8(lenet(), 12, restore=restore)
    before = elastic.network.parameters.clone()
    passes: list[None] = []
    forward = IntegerNetwork.forward

    def interrupted(self: IntegerNetwork, *rest: Any) -> IntegerTensor:
        passes.append(None)
        if len(passes) == failing:
            raise KeyboardInterrupt
        return forward(self, *rest)

    monkeypatch.setattr(IntegerNetwork, "forward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        elastic.step(*batch())
    same = elastic.network.parameters == before
    inside = before.abs() <= 127 - elastic.r_max
    assert same.all() if restore == "exact" else same[inside].all()
    assert elastic.steps == 0


def ctrl_c_in_pass(number: int, patch: pytest.MonkeyPatch) -> None:
    """Press Ctrl-C in the middle of the pass over the weights of that number, from 1."""
    passes = 0
    chunks = IntegerNoise.chunks

    def interrupted(self: IntegerNoise, *args: Any) -> Iterator[tuple[int, torch.Tensor]]:
        nonlocal passes
        passes += 1
        for start, z in chunks(self, *args):
            if passes == number and start > 0:
                signal.raise_signal(signal.SIGINT)
            yield start, z

    patch.setattr(noise_module, "CHUNK", 1 << 15)
    patch.setattr(IntegerNoise, "chunks", interrupted)


@pytest.mark.parametrize("restore", ["clip", "exact"])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_ctrl_c_within_a_pass_leaves_the_step_undone_or_whole(
    restore: Any, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def method() -> ElasticZOInt8:
        made = ElasticZOInt8(lenet(), "fc2", restore=restore)
        made.network.parameters.clamp_(-64, 64)  # so that no clip keeps weights from coming back
        return made

    expected, elastic = method(), method()
    if number == 3:  # the update was under way: head and tail are both updated
        train(expected, 1)
    with monkeypatch.context() as patch:
        ctrl_c_in_pass(number, patch)
        with pytest.raises(KeyboardInterrupt):
            train(elastic, 1)
    assert torch.equal(elastic.network.parameters, expected.network.parameters)
    assert elastic.state_dict() == expected.state_dict()
    train(elastic, 1)
    train(expected, 1)
    assert torch.equal(elastic.network.parameters, expected.network.parameters)


@pytest.mark.parametrize("method", ["Cls1", "Full BP"])
def test_ctrl_c_while_the_tail_is_updated_leaves_the_step_whole(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, elastic = (ElasticZOInt8(lenet(), PARTITIONS[method]) for _ in range(2))
    train(expected, 1)
    descend = elasticzo_module.descend_

    def interrupted(weights: torch.Tensor, update: torch.Tensor) -> None:
        signal.raise_signal(signal.SIGINT)
        descend(weights, update)

    monkeypatch.setattr(elasticzo_module, "descend_", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(elastic, 1)
    assert torch.equal(elastic.network.parameters, expected.network.parameters)
    assert elastic.state_dict() == expected.state_dict()


def test_ctrl_c_while_weights_are_put_back_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    elastic = ElasticZOInt8(lenet(), 12)
    elastic.network.parameters.clamp_(-64, 64)
    before = elastic.network.parameters.clone()

    def fails(*_: Any) -> None:
        raise ValueError

    elastic.watch = fails
    ctrl_c_in_pass(3, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        train(elastic, 1)
    assert torch.equal(elastic.network.parameters, before)


def wrong(what: str) -> tuple[IntegerTensor, torch.Tensor]:
    inputs, labels = batch()
    values = inputs.values
    return {
        "label": (inputs, labels.clamp(min=0) + 10),
        "negative": (inputs, labels - 10),
        "labels": (inputs, labels[:3]),
        "dtype": (inputs, labels.int()),
        "image": (IntegerTensor(values[..., :20].contiguous(), -5), labels),
        "empty": (IntegerTensor(values[:0], -5), labels[:0]),
    }[what]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("label", r"labels from 1\d to 1\d: must be from 0 to 9"),
        ("negative", r"labels from -\d+ to -\d+"),
        ("labels", r"labels \(3,\) of torch\.int64 for inputs \(8, 1, 28, 28\)"),
        ("dtype", r"torch\.int32"),
        ("image", "layer fc1: 560 input features, must be 784"),
        ("empty", "at least one input"),
    ],
)
def test_a_batch_that_does_not_fit_touches_no_weight(what: str, message: str) -> None:
    elastic = ElasticZOInt8(lenet(), 12)
    before = elastic.network.parameters.clone()
    with pytest.raises(UsageError, match=message):
        elastic.step(*wrong(what))
    assert torch.equal(elastic.network.parameters, before)


@pytest.mark.parametrize(
    ("partition", "changes", "message"),
    [
        ("fc9", {}, "partition 'fc9' names no layer"),
        (13, {}, "= 13: must be a whole number from 0 to 12"),
        (12, {"r_max": 1}, "r_max = 1"),
        (12, {"p_zero": 1.0}, r"p_zero = 1\.0"),
        (12, {"p_zero": "0.5"}, "p_zero = '0.5': must be from 0"),
        (12, {"seed": 0.5}, r"seed = 0\.5: must be a whole number"),
        (12, {"seed": 2**64}, "must be a whole number from -2"),
        (12, {"b_zo": 7}, "b_zo = 7: must be a whole number from 0 to 6"),
        (12, {"b_bp": -1}, "b_bp = -1"),
        (12, {"b_bp": True}, "b_bp = True"),
        (12, {"sign": "sometimes"}, "sign = 'sometimes': must be one of float, integer, exact"),
        (12, {"activations": "mean"}, "activations = 'mean': must be one of plus, minus"),
        (12, {"restore": "never"}, "restore = 'never': must be one of clip, exact"),
    ],
)
def test_wrong_settings_are_refused(
    partition: str | int, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        ElasticZOInt8(lenet(), partition, **changes)


def test_a_seed_of_numpy_is_that_of_python() -> None:
    found = []
    for seed in (5, np.int64(5)):
        elastic = ElasticZOInt8(lenet(), "fc3", seed=seed)  # type: ignore[arg-type]
        elastic.step(*batch())
        found.append(elastic.network.parameters)
    assert torch.equal(*found)


def test_settings_are_checked_again_at_every_step() -> None:
    elastic = ElasticZOInt8(lenet(), "fc3")
    elastic.b_bp = 9
    with pytest.raises(UsageError, match="b_bp = 9"):
        elastic.step(*batch())


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("native", [False, True])
def test_a_network_that_never_moves_is_warned_of_once(native: bool) -> None:
    """The integer loss of PyTorch's initial weights is the same in both passes."""
    torch.manual_seed(0)
    structure = lenet5(bias=False)

    def made(network: IntegerNetwork) -> Any:
        if not native:
            return ElasticZOInt8(network, "fc2", sign="integer")
        shape = (1, 28, 28)
        return NativeElasticZOInt8(network, structure, shape, "fc2", capacity=8, sign="integer")

    still = made(IntegerNetwork.quantised(structure))
    train(still, 99)
    moved = still.state_dict() | {"has_moved": True}
    with pytest.warns(UserWarning, match="g = 0 in each of the first 100 steps: sign = 'integer'"):
        train(still, 1, first=99)
    train(still, 1, first=100)
    moving = made(lenet())
    train(moving, 101)
    assert moving.has_moved
    resumed = made(IntegerNetwork.quantised(structure))
    resumed.load_state_dict(moved)
    train(resumed, 1, first=99)  # without a warning, as it moved before


def test_a_method_shows_its_settings() -> None:
    shown = repr(ElasticZOInt8(lenet(), "fc2", sign="integer", r_max=7, seed=3))
    assert shown.startswith("ElasticZOInt8(r_max=7, p_zero=0.33, b_zo=1, b_bp=5, sign='integer'")
    assert shown.endswith("seed=3)")
