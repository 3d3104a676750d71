"""The methods in transformers' Trainer: its loop and ours give the same bits."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from torch import nn
from torch.nn.functional import cross_entropy
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    get_linear_schedule_with_warmup,
)
from transformers.modeling_outputs import SequenceClassifierOutput

from repro.core.errors import ReproError, UsageError
from repro.methods.elasticzo import ElasticZO
from repro.methods.huggingface import ZerothOrderTrainer
from repro.methods.log import replay
from repro.methods.meazo import MEAZO
from repro.methods.mezo import MeZO
from repro.methods.watch import CoarseLossWarning
from repro.methods.zeroth_order import ZerothOrder
from repro.models.training_mode import without_dropout

GUIDE = Path(__file__).parents[1] / "docs/huggingface.md"
BATCH, STEPS, WARMUP = 8, 8, 2
pytestmark = pytest.mark.usefixtures("one_thread")
Make = Callable[[nn.Module], ZerothOrder]


def bert(seed: int = 0) -> BertForSequenceClassification:
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=16,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        initializer_range=0.2,
    )
    return BertForSequenceClassification(config)


def sentences() -> Dataset:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 2, (48,), generator=generator)
    tokens = torch.randint(0, 8, (48, 6), generator=generator) + 8 * labels[:, None]
    return Dataset.from_dict({"input_ids": tokens.tolist(), "labels": labels.tolist()})


def mezo(model: nn.Module, seed: int = 5) -> MeZO:
    return MeZO(model.parameters(), lr=1e-2, eps=1e-3, clip=2, perturbations=2, seed=seed)


def meazo(model: nn.Module, seed: int = 5) -> MEAZO:
    return MEAZO(model.parameters(), lr=1e-2, eps=1e-3, seed=seed)


def elasticzo(model: nn.Module, seed: int = 5) -> ElasticZO:
    return ElasticZO(model, "bert.encoder.layer.1", lr=1e-2, eps=1e-3, clip=2, seed=seed)


def arguments(directory: Path, **changes: Any) -> TrainingArguments:
    settings = {
        "per_device_train_batch_size": BATCH,
        "max_steps": STEPS,
        "warmup_steps": WARMUP,
        "logging_steps": 2,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
    }
    return TrainingArguments(str(directory), **{**settings, **changes})


def make_trainer(
    model: nn.Module,
    method: torch.optim.Optimizer,
    args: TrainingArguments,
    **settings: Any,
) -> ZerothOrderTrainer:
    return ZerothOrderTrainer(
        model=model, args=args, train_dataset=sentences(), optimizers=(method, None), **settings
    )


def assert_same_weights(one: nn.Module, other: nn.Module) -> None:
    for (name, a), b in zip(one.named_parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b), name


def test_the_guide_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    example = re.search(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    names: dict[str, Any] = {}
    exec(compile(example[1], str(GUIDE), "exec"), names)  # noqa: S102 - our own documentation
    trainer = names["trainer"]
    assert trainer.evaluate()["eval_accuracy"] == 1.0
    assert len(trainer.method.log.entries) == 120
    assert (tmp_path / "runs/checkpoint-60/optimizer.pt").is_file()


@pytest.mark.parametrize("make", [mezo, meazo, elasticzo])
def test_a_run_equals_a_plain_loop_bit_by_bit(make: Make, tmp_path: Path) -> None:
    inside, outside = bert(), bert()
    args = arguments(tmp_path, train_sampling_strategy="sequential")
    trainer = make_trainer(inside, make(inside), args)
    trainer.train()

    method = make(outside)
    schedule = get_linear_schedule_with_warmup(method, WARMUP, STEPS)
    data = sentences().with_format("torch")
    outside.eval()
    for step in range(STEPS):
        start = step * BATCH % len(data)
        batch = data[start : start + BATCH]

        def loss(batch: Any = batch) -> torch.Tensor:
            return cross_entropy(outside(input_ids=batch["input_ids"]).logits, batch["labels"])

        method.step(loss)
        schedule.step()
    assert trainer.method.log.data == method.log.data
    assert_same_weights(inside, outside)
    rates = [entry.lr for entry in method.log.entries]
    assert rates[0] == 0
    assert max(rates) == 1e-2
    assert not any(p.grad is not None for p in inside.parameters())


@pytest.mark.parametrize("make", [mezo, elasticzo])
def test_a_resumed_run_equals_the_uninterrupted_one(make: Any, tmp_path: Path) -> None:
    whole, resumed = bert(), bert(seed=9)
    args = arguments(tmp_path, save_strategy="steps", save_steps=3)
    one = make_trainer(whole, make(whole), args)
    one.train()
    two = make_trainer(resumed, make(resumed, seed=77), args)
    two.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert_same_weights(whole, resumed)
    assert one.method.log.data == two.method.log.data
    assert one.state.log_history[-2] == two.state.log_history[-2]


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    model = bert()
    args = arguments(tmp_path, save_strategy="steps", save_steps=4)
    make_trainer(model, mezo(model), args).train()
    trainer = make_trainer(model, MeZO(model.parameters(), lr=1e-2, eps=1e-2), args)
    with pytest.raises(UsageError, match=r"eps = 0.001 instead of 0.01"):
        trainer.train(resume_from_checkpoint=True)


def test_a_bfloat16_model_is_trained_and_replayed(tmp_path: Path) -> None:
    model, start = bert().bfloat16(), bert().bfloat16()
    method = MeZO(model.parameters(), lr=1e-2, eps=1e-2, clip=2, restore="exact")
    with pytest.warns(CoarseLossWarning, match="bfloat16"):
        make_trainer(model, method, arguments(tmp_path)).train()
    replay(method.log, list(start.parameters()))
    assert_same_weights(model, start)


def test_a_loss_from_float32_logits_has_finer_gradients(tmp_path: Path) -> None:
    model = bert().bfloat16()
    method = MeZO(model.parameters(), lr=1e-2, eps=1e-2, clip=2, restore="exact")

    def from_float32(outputs: Any, labels: torch.Tensor, **_items: object) -> torch.Tensor:
        return cross_entropy(outputs["logits"].float(), labels)

    settings = {"compute_loss_func": from_float32}
    make_trainer(model, method, arguments(tmp_path), **settings).train()
    gradients = {entry.gradient for entry in method.log.entries}
    assert len(gradients) > 0.9 * method.log.steps


def test_mixed_precision_keeps_float32_weights(tmp_path: Path) -> None:
    model = bert()
    start = [p.detach().clone() for p in model.parameters()]
    trainer = make_trainer(model, mezo(model), arguments(tmp_path, bf16=True))
    trainer.train()
    assert all(p.dtype is torch.float32 for p in model.parameters())
    assert not any(torch.equal(p, p0) for p, p0 in zip(model.parameters(), start, strict=True))
    assert all(entry.gradient != 0 for entry in trainer.method.log.entries)


def test_the_error_rate_is_an_objective(tmp_path: Path) -> None:
    model = bert()

    def error_rate(outputs: Any, labels: torch.Tensor, **_: Any) -> torch.Tensor:
        return (outputs.logits.argmax(-1) != labels).float().mean()

    method = MeZO(model.parameters(), lr=1e-3, eps=0.1)
    trainer = make_trainer(model, method, arguments(tmp_path), compute_loss_func=error_rate)
    trainer.train()
    assert any(entry.gradient != 0 for entry in method.log.entries)
    losses = [row["loss"] * 16 for row in trainer.state.log_history if "loss" in row]
    assert all(0 < loss < 16 for loss in losses)


def test_the_projected_gradient_is_logged_where_there_is_no_norm(tmp_path: Path) -> None:
    model = bert()
    trainer = make_trainer(model, mezo(model), arguments(tmp_path))
    trainer.train()
    rows = [row for row in trainer.state.log_history if "loss" in row]
    assert [row["step"] for row in rows] == [2, 4, 6, 8]
    entries = trainer.method.log.entries
    for row in rows:
        pair = entries[2 * row["step"] - 2 : 2 * row["step"]]
        assert row["projected_gradient"] == sum(entry.gradient for entry in pair) / 2
        assert "grad_norm" not in row


def test_a_loss_that_is_not_finite_ends_the_run_with_the_weights_restored(tmp_path: Path) -> None:
    model, start = bert(), bert()
    method = MeZO(model.parameters(), lr=1e-2, eps=1e-3, restore="exact")

    def broken(outputs: Any, *_: Any, **__: Any) -> torch.Tensor:
        return outputs.logits.sum() * torch.nan

    trainer = make_trainer(model, method, arguments(tmp_path), compute_loss_func=broken)
    with pytest.raises(ReproError, match=r"l\+ with perturbation seed \d+ = nan"):
        trainer.train()
    MeZO(start.parameters(), lr=1e-2, eps=1e-3, restore="exact")  # rounds as the other did
    assert_same_weights(model, start)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fp16": True}, "fp16 = True scales the loss .* load the model in float16"),
        ({"learning_rate": 1e-4}, r"learning_rate = 0\.0001: the method was made with lr = 0\.01"),
        ({"weight_decay": 0.1}, r"weight_decay = 0\.1: .* with weight_decay = 0\.0, which is used"),
        ({"max_grad_norm": 0.5}, r"max_grad_norm = 0\.5: the method was made with clip = 2"),
        ({"optim": "sgd"}, "optim = 'sgd': the optimizer is the MeZO"),
        ({"neftune_noise_alpha": 5.0}, r"neftune_noise_alpha = 5\.0: has no effect"),
        ({"gradient_checkpointing": True}, "checkpointing = True: has no effect"),
    ],
)
def test_what_would_not_be_used_is_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    model, args = bert(), arguments(tmp_path)
    for name, value in changes.items():
        setattr(args, name, value)
    with pytest.raises(UsageError, match=message):
        make_trainer(model, mezo(model), args)


def test_arguments_that_say_what_the_method_does_are_taken(tmp_path: Path) -> None:
    model = bert()
    method = MeZO(model.parameters(), lr=1e-2, eps=1e-3, clip=2, weight_decay=0.1)
    args = arguments(tmp_path, learning_rate=1e-2, weight_decay=0.1, max_grad_norm=2)
    before = model.classifier.weight.detach().norm()
    make_trainer(model, method, args).train()
    decays = [1 - entry.lr * 0.1 for entry in method.log.entries]
    start = bert()
    replay(method.log, list(start.parameters()))
    assert_same_weights(model, start)
    assert 0.99 < torch.tensor(decays).prod() < 1
    assert model.classifier.weight.norm() != before


@pytest.mark.parametrize("make", [mezo, elasticzo])
def test_accumulated_batches_are_one_step_bit_by_bit(make: Any, tmp_path: Path) -> None:
    inside, outside = bert(), bert()
    settings = {"train_sampling_strategy": "sequential", "lr_scheduler_type": "constant"}
    args = arguments(tmp_path, gradient_accumulation_steps=3, max_steps=4, **settings)
    trainer = make_trainer(inside, make(inside), args)
    trainer.train()

    method, data = make(outside), sentences().with_format("torch")
    outside.eval()
    for step in range(4):
        losses = []
        for part in range(3):
            start = (3 * step + part) * BATCH % len(data)
            batch = data[start : start + BATCH]

            def loss(batch: Any = batch) -> torch.Tensor:
                return cross_entropy(outside(input_ids=batch["input_ids"]).logits, batch["labels"])

            losses.append(loss)
        method.step(losses)
    assert trainer.method.log.data == method.log.data
    assert_same_weights(inside, outside)
    rows = [row for row in trainer.state.log_history if "loss" in row]
    assert trainer.method.last is not None
    assert len(rows) == 2
    assert 0.3 < rows[-1]["loss"] < 1.2  # the mean, not a third of it and not the sum


def total_over_items(outputs: Any, labels: torch.Tensor, num_items_in_batch: Any) -> torch.Tensor:
    return cross_entropy(outputs.logits, labels, reduction="sum") / num_items_in_batch


def mean_of_batch(outputs: Any, labels: torch.Tensor, **_: Any) -> torch.Tensor:
    return cross_entropy(outputs.logits, labels)


class Plain(nn.Module):
    """Takes no keyword arguments, so ``Trainer`` does not count the items of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.bert = bert()

    def forward(self, input_ids: Any, labels: Any = None) -> Any:
        logits = self.bert(input_ids=input_ids).logits
        return SequenceClassifierOutput(
            loss=None if labels is None else cross_entropy(logits, labels), logits=logits
        )


@pytest.mark.parametrize(
    ("make", "loss"),
    [(bert, None), (bert, total_over_items), (bert, mean_of_batch), (Plain, None)],
)
def test_batches_of_any_size_and_loss_add_up_to_the_large_one(
    make: Any, loss: Any, tmp_path: Path
) -> None:
    model = make()
    method = MeZO(model.parameters(), lr=1e-9, eps=1e-3)
    args = arguments(
        tmp_path, gradient_accumulation_steps=3, max_steps=1, logging_steps=1, warmup_steps=0,
        train_sampling_strategy="sequential",
    )  # fmt: skip
    uneven = 2 * BATCH + 3
    trainer = ZerothOrderTrainer(
        model=model,
        args=args,
        train_dataset=sentences().select(range(uneven)),
        optimizers=(method, None),
        compute_loss_func=loss,
    )
    trainer.train()
    data = sentences().with_format("torch")[:uneven]
    whole = cross_entropy(model(input_ids=data["input_ids"]).logits, data["labels"]).item()
    assert method.last is not None
    assert method.last.loss == pytest.approx(whole, rel=1e-3)
    assert trainer.state.log_history[0]["loss"] == pytest.approx(whole, rel=1e-3)


def half_labelled() -> Dataset:
    """48 rows; of every four, the last two are without a label."""
    return sentences().map(lambda row, n: row if n % 4 < 2 else {"labels": -100}, with_indices=True)


@pytest.mark.parametrize("make", [mezo, elasticzo])
def test_a_batch_without_labels_is_left_out(make: Make, tmp_path: Path) -> None:
    """The losses at the first weights are the plain Trainer's."""
    found = []
    for ours in (True, False):
        model = bert()
        without_dropout(model)
        method = make(model)
        method.param_groups[0]["lr"] = 0.0
        plain = torch.optim.SGD(model.parameters(), lr=0.0)
        trainer = (ZerothOrderTrainer if ours else Trainer)(
            model=model,
            args=arguments(
                tmp_path, per_device_train_batch_size=2, gradient_accumulation_steps=2, max_steps=2,
                logging_steps=1, train_sampling_strategy="sequential",
            ),
            train_dataset=half_labelled(),
            optimizers=(method if ours else plain, None),
            compute_loss_func=total_over_items,
        )  # fmt: skip
        trainer.train()
        found.append([row["loss"] for row in trainer.state.log_history if "loss" in row])
    assert found[0] == pytest.approx(found[1], rel=1e-3)


@pytest.mark.parametrize("accumulated", [1, 2])
def test_a_step_without_labels_changes_nothing(accumulated: int, tmp_path: Path) -> None:
    model, start = bert(), bert()
    args = arguments(tmp_path, gradient_accumulation_steps=accumulated, max_steps=1)
    trainer = ZerothOrderTrainer(
        model=model,
        args=args,
        train_dataset=sentences().map(lambda _: {"labels": -100}),
        optimizers=(mezo(model), None),
        compute_loss_func=total_over_items,
    )
    trainer.train()
    assert trainer.state.global_step == 1
    assert_same_weights(model, start)


class Interrupting(TrainerCallback):
    """Interrupts the first step of the first run after its first batch."""

    interrupted = False

    def on_substep_end(self, *_: Any, **__: Any) -> None:
        if not self.interrupted:
            self.interrupted = True
            raise KeyboardInterrupt


def test_a_run_after_an_interrupted_one_starts_anew(tmp_path: Path) -> None:
    args = arguments(
        tmp_path, gradient_accumulation_steps=2, max_steps=2, train_sampling_strategy="sequential"
    )
    again, whole = bert(), bert()
    trainer = make_trainer(again, mezo(again), args, callbacks=[Interrupting()])
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    trainer.train()
    other = make_trainer(whole, mezo(whole), args)
    other.train()
    assert trainer.method.log.data == other.method.log.data
    assert_same_weights(again, whole)


def test_several_devices_are_refused(tmp_path: Path) -> None:
    model, args = bert(), arguments(tmp_path)
    args._n_gpu = 2
    with pytest.raises(UsageError, match=r"parallel_mode = .*: these methods train on one device"):
        make_trainer(model, mezo(model), args)


def test_an_optimizer_of_another_kind_is_refused(tmp_path: Path) -> None:
    model = bert()
    with pytest.raises(UsageError, match="give a MeZO, ElasticZO, FZOO"):
        make_trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), arguments(tmp_path))
