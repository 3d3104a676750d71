"""A method bound to its loss tells what each batch's step did."""

import pytest
import torch

from repro.methods.backprop import Backprop
from repro.methods.elasticzo import ElasticZO
from repro.methods.method import Method, Steps
from repro.methods.mezo import MeZO


def model() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1)).double()


@pytest.mark.parametrize("name", ["mezo", "elasticzo", "backprop"])
def test_step_on_a_batch_is_the_optimizers_step_on_its_loss(name: str) -> None:
    def made(net: torch.nn.Module) -> Steps:
        optimizers = {
            "mezo": lambda: MeZO(net.parameters(), lr=0.1, eps=1e-3, timed=True),
            "elasticzo": lambda: ElasticZO(net, 1, lr=0.1, eps=1e-3, timed=True),
            "backprop": lambda: Backprop(net.parameters(), lr=0.1, timed=True),
        }
        return optimizers[name]()  # type: ignore[no-any-return, no-untyped-call]

    batches = [torch.randn(4, 3, dtype=torch.float64) for _ in range(3)]
    bound, direct = model(), model()
    method: Method[torch.Tensor] = Method(made(bound), lambda batch: bound(batch).square().mean())
    optimizer = made(direct)
    for batch in batches:
        info = method.step(batch)
        loss = optimizer.step(lambda: direct(batch).square().mean())  # noqa: B023 - used at once
        assert info.loss == loss
        assert set(info.seconds) >= {"forward", "update"}
        assert len(info.estimates) == (name != "backprop")
        for estimate in info.estimates:
            gradient = (estimate.loss_plus - estimate.loss_minus) / 2e-3
            assert estimate.projected_gradient == pytest.approx(gradient)
    for one, other in zip(bound.parameters(), direct.parameters(), strict=True):
        assert torch.equal(one, other)
