"""Training on a GPU is that of the host: 200 steps in integers, bit by bit."""

from dataclasses import replace

import pytest
import torch

from repro.core.names import METHODS, MethodName, Precision
from repro.training.build import build_learner
from repro.training.run import IntegerSettings, NetworkRun

STEPS = 200


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("precision", ["int8", "int8_star"])
@pytest.mark.parametrize("method", METHODS)
def test_integer_steps_are_the_hosts_bit_by_bit(method: MethodName, precision: Precision) -> None:
    cell = NetworkRun("mnist", precision, method, IntegerSettings(batch=16), 1, 0)
    learners = {device: build_learner(replace(cell, device=device)) for device in ("cpu", "cuda")}
    generator = torch.Generator().manual_seed(0)
    for learner in learners.values():
        learner.start_epoch(0)
    for step in range(STEPS):
        images = torch.randint(-14, 91, (16, 1, 28, 28), generator=generator).to(torch.int8)
        labels = torch.randint(0, 10, (16,), generator=generator)
        losses = [
            learner.step((images.to(device), labels.to(device))).loss
            for device, learner in learners.items()
        ]
        if precision == "int8_star" or method == "full_bp":
            assert losses[0] == losses[1], step
    host, device = (weights(learner.state_dict()) for learner in learners.values())
    assert len(host) >= 5
    for one, other in zip(host, device, strict=True):
        assert torch.equal(one, other.cpu())


def weights(state: object) -> list[torch.Tensor]:
    """Every tensor of a learner's state, in order."""
    if isinstance(state, torch.Tensor):
        return [state]
    if isinstance(state, dict):
        return [tensor for value in state.values() for tensor in weights(value)]
    return []
