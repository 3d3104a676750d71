"""The methods in Lightning: its loop and a plain one give the same bits."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from repro.methods.elasticzo import ElasticZO
from repro.methods.fzoo import FZOO
from repro.methods.mezo import MeZO
from repro.methods.zeroth_order import ZerothOrder

lightning = pytest.importorskip("lightning", reason="lightning is not installed: extra `test`")

# Lightning 2.6 asks PyTorch for the class of a tree's leaves, which PyTorch 2.15 deprecates.
pytestmark = pytest.mark.filterwarnings(r"ignore:`isinstance\(treespec, LeafSpec\)`:FutureWarning")

GUIDE = Path(__file__).parents[1] / "docs/lightning.md"
EPOCHS, BATCH = 3, 8
Make = Callable[[nn.Module], ZerothOrder]


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def items() -> TensorDataset:
    generator = torch.Generator().manual_seed(0)
    return TensorDataset(
        torch.randn(32, 4, generator=generator), torch.randint(0, 2, (32,), generator=generator)
    )


class Classifier(lightning.LightningModule):
    def __init__(self, make: Make) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.network = network()
        self.make = make
        self.with_gradients: set[bool] = set()

    def configure_optimizers(self) -> Any:
        method = self.make(self.network)
        return [method], [torch.optim.lr_scheduler.StepLR(method, 1, gamma=0.5)]

    def training_step(self, batch: Any, _: int) -> None:
        x, y = batch

        def loss() -> torch.Tensor:
            self.with_gradients.add(torch.is_grad_enabled())
            return cross_entropy(self.network(x), y)

        self.log("loss", self.optimizers().step(loss))

    def on_train_epoch_end(self) -> None:
        self.lr_schedulers().step()


def mezo(model: nn.Module) -> ZerothOrder:
    return MeZO(model.parameters(), lr=0.05, eps=1e-3, clip=3, seed=5)


def fzoo(model: nn.Module) -> ZerothOrder:
    return FZOO(model.parameters(), lr=2e-5, eps=1e-3, perturbations=4, seed=5)


def elasticzo(model: nn.Module) -> ZerothOrder:
    return ElasticZO(model, "2", lr=0.1, eps=1e-3, clip=0.3, seed=5)


def make_trainer(epochs: int = EPOCHS, **settings: Any) -> Any:
    return lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **settings,
    )


def assert_same_weights(one: nn.Module, other: nn.Module) -> None:
    for (name, a), b in zip(one.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b), name


def test_the_guide_runs_as_it_stands() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(example, str(GUIDE), "exec"), names)  # noqa: S102 - our own documentation
    x, y = names["x"], names["y"]
    assert (names["model"].network(x).argmax(1) == y).float().mean() > 0.9
    assert names["trainer"].global_step == 40 * 8


@pytest.mark.parametrize("make", [mezo, fzoo, elasticzo])
def test_a_run_equals_a_plain_loop_bit_by_bit(make: Make) -> None:
    inside, outside = Classifier(make), network()
    trainer = make_trainer()
    trainer.fit(inside, DataLoader(items(), BATCH))

    method = make(outside)
    schedule = torch.optim.lr_scheduler.StepLR(method, 1, gamma=0.5)
    for _ in range(EPOCHS):
        for x, y in DataLoader(items(), BATCH):
            loss = method.step(lambda x=x, y=y: cross_entropy(outside(x), y))
        schedule.step()
    trained = inside.optimizers(use_pl_optimizer=False)
    assert trained.log.data == method.log.data
    assert_same_weights(inside.network, outside)
    assert trainer.global_step == EPOCHS * 4
    assert trainer.callback_metrics["loss"] == pytest.approx(loss)
    assert not torch.equal(outside[0].weight, network()[0].weight)


@pytest.mark.parametrize(
    ("make", "expected"), [(mezo, {False}), (fzoo, {False}), (elasticzo, {False, True})]
)
def test_forward_passes_alone_build_no_graph(make: Make, expected: set[bool]) -> None:
    model = Classifier(make)
    make_trainer(1).fit(model, DataLoader(items(), BATCH))
    assert model.with_gradients == expected


@pytest.mark.parametrize("make", [mezo, fzoo, elasticzo])
def test_a_resumed_run_equals_the_uninterrupted_one(make: Make, tmp_path: Path) -> None:
    whole, first, resumed = Classifier(make), Classifier(make), Classifier(make)
    make_trainer().fit(whole, DataLoader(items(), BATCH))
    before = make_trainer(1)
    before.fit(first, DataLoader(items(), BATCH))
    before.save_checkpoint(tmp_path / "first.ckpt")
    nn.init.zeros_(resumed.network[0].weight)
    make_trainer().fit(
        resumed, DataLoader(items(), BATCH), ckpt_path=tmp_path / "first.ckpt", weights_only=True
    )
    assert_same_weights(whole, resumed)
    logs = [model.optimizers(use_pl_optimizer=False).log.data for model in (whole, resumed)]
    assert logs[0] == logs[1]


@pytest.mark.parametrize("setting", [{"accumulate_grad_batches": 2}, {"gradient_clip_val": 1.0}])
def test_lightning_refuses_what_manual_optimisation_ignores(setting: dict[str, Any]) -> None:
    misconfigured = lightning.pytorch.utilities.exceptions.MisconfigurationException
    with pytest.raises(misconfigured, match=f"for manual optimization.*{next(iter(setting))}"):
        make_trainer(1, **setting).fit(Classifier(mezo), DataLoader(items(), BATCH))


def test_micro_batches_go_to_the_method_itself() -> None:
    class Accumulating(Classifier):
        def training_step(self, batch: Any, _: int) -> None:
            x, y = batch
            halves = zip(x.split(BATCH // 2), y.split(BATCH // 2), strict=True)
            losses = [lambda a=a, b=b: cross_entropy(self.network(a), b) for a, b in halves]
            self.optimizers(use_pl_optimizer=False).step(losses)

    inside, outside = Accumulating(mezo), network()
    trainer = make_trainer(1)
    trainer.fit(inside, DataLoader(items(), BATCH))
    method = mezo(outside)
    for x, y in DataLoader(items(), BATCH):
        halves = zip(x.split(BATCH // 2), y.split(BATCH // 2), strict=True)
        method.step([lambda a=a, b=b: cross_entropy(outside(a), b) for a, b in halves])
    assert_same_weights(inside.network, outside)
    assert trainer.global_step == 0
