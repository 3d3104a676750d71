"""Training on a GPU is that of the host: 200 steps in integers, bit by bit.

On the host the same comparison shows that the steps can be repeated.
"""

from dataclasses import replace

import pytest
import torch

from repro.core.names import METHODS, MethodName, Precision
from repro.measurement.device import Device
from repro.training.build import build_learner
from repro.training.run import IntegerSettings, NetworkRun

GPU = pytest.param(("cuda", 200), marks=pytest.mark.gpu)


@pytest.mark.parametrize("there", [("cpu", 3), GPU])
@pytest.mark.parametrize("precision", ["int8", "int8_star"])
@pytest.mark.parametrize("method", METHODS)
def test_integer_steps_are_the_hosts_bit_by_bit(
    method: MethodName, precision: Precision, there: tuple[Device, int]
) -> None:
    device, steps = there
    cell = NetworkRun("mnist", precision, method, IntegerSettings(batch=16), 1, 0)
    one, other = (build_learner(replace(cell, device=name)) for name in ("cpu", device))
    generator = torch.Generator().manual_seed(0)
    for learner in (one, other):
        learner.start_epoch(0)
    before = weights(one.state_dict())
    for step in range(steps):
        images = torch.randint(-14, 91, (16, 1, 28, 28), generator=generator).to(torch.int8)
        labels = torch.randint(0, 10, (16,), generator=generator)
        loss = one.step((images, labels)).loss
        same = other.step((images.to(device), labels.to(device))).loss
        if precision == "int8_star" or device == "cpu":
            assert loss == same, step
        elif method == "full_bp":
            # the last bits of a floating-point loss may differ on a GPU
            assert same == pytest.approx(loss, rel=1e-12), step
    host, elsewhere = (weights(learner.state_dict()) for learner in (one, other))
    assert not all(map(torch.equal, host, before))
    for tensor, twin in zip(host, elsewhere, strict=True):
        assert torch.equal(tensor, twin.cpu())


def weights(state: object) -> list[torch.Tensor]:
    """Every tensor of a learner's state, in order."""
    if isinstance(state, torch.Tensor):
        return [state]
    if isinstance(state, dict):
        return [tensor for value in state.values() for tensor in weights(value)]
    return []
