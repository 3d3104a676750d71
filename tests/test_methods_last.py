"""Every method reports on its last step: its loss, its estimates, and the time of its phases."""

from typing import Any

import pytest
import torch

from repro.methods.backprop import Backprop
from repro.methods.elasticzo import ElasticZO
from repro.methods.mezo import MeZO


@pytest.mark.parametrize("name", ["mezo", "elasticzo", "backprop"])
def test_last_reports_on_the_step(name: str) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1)).double()
    settings: dict[str, Any] = {"lr": 0.1, "timed": True}
    optimizer: Any = {
        "mezo": lambda: MeZO(model.parameters(), eps=1e-3, **settings),
        "elasticzo": lambda: ElasticZO(model, 1, eps=1e-3, **settings),
        "backprop": lambda: Backprop(model.parameters(), **settings),
    }[name]()
    for batch in torch.randn(3, 4, 3, dtype=torch.float64):
        loss = optimizer.step(lambda: model(batch).square().mean())  # noqa: B023 - used at once
        info = optimizer.last
        assert info.loss == loss
        assert set(info.seconds) >= {"forward", "update"}
        assert len(info.estimates) == (name != "backprop")
        losses = [half for e in info.estimates for half in (e.loss_plus, e.loss_minus)]
        assert not losses or loss == pytest.approx(sum(losses) / len(losses), rel=1e-12)
        for estimate in info.estimates:
            gradient = (estimate.loss_plus - estimate.loss_minus) / 2e-3
            assert estimate.projected_gradient == pytest.approx(gradient)
