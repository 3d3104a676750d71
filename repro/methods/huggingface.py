"""Train with the zeroth-order methods in the Hugging Face ``Trainer``."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, cast

import torch
from accelerate.optimizer import AcceleratedOptimizer
from transformers import Trainer
from transformers.training_args import ParallelMode, TrainingArguments

from repro.core.errors import UsageError
from repro.methods.zeroth_order import Closure, ZerothOrder


class ZerothOrderTrainer(Trainer):
    """A ``transformers.Trainer`` that trains with a method of this package.

    Example::

        mezo = MeZO(model.parameters(), lr=1e-6, eps=1e-3)
        trainer = ZerothOrderTrainer(
            model=model, args=args, train_dataset=dataset, optimizers=(mezo, None)
        )
        trainer.train()

    The method sets learning rate, weight decay, clip and seed. ``args`` sets the schedule, batches,
    logging, evaluation and checkpoints, which hold the method's state and the weights. With
    ``gradient_accumulation_steps`` above 1 a step averages the losses of as many batches. The model
    is in evaluation mode in training too, as in the authors' code, so there is no dropout.
    ``bf16=True`` works as usual; there is no gradient that needs the loss scaling of ``fp16=True``,
    so give a model in float16 instead.
    """

    def __init__(
        self,
        model: torch.nn.Module | None = None,
        args: TrainingArguments | None = None,
        *,
        optimizers: tuple[
            torch.optim.Optimizer | None, torch.optim.lr_scheduler.LambdaLR | None
        ] = (None, None),
        **settings: Any,  # noqa: ANN401 - as for Trainer
    ) -> None:
        """Take the arguments of ``Trainer``, with the method as the optimizer.

        Raises:
            UsageError: the optimizer is not such a method, or an argument contradicts its settings
                or needs gradients or several devices.
        """
        method = optimizers[0]
        if not isinstance(method, ZerothOrder):
            raise UsageError(
                f"optimizers = ({type(method).__name__}, ...): give a MeZO, ElasticZO, FZOO or "
                "MEAZO of the model's parameters, as in optimizers=(mezo, None)"
            )
        args = TrainingArguments() if args is None else args
        _check(args, method)
        super().__init__(model, args, optimizers=optimizers, **settings)
        self.method = method
        self._losses: list[Closure] = []
        self._counts: list[int] = []

    def create_optimizer(
        self,
        model: torch.nn.Module | None = None,  # noqa: ARG002 - the method knows its parameters
    ) -> torch.optim.Optimizer:
        """Return a wrapper of the method for the training loop."""
        if self.optimizer is self.method:
            self.optimizer = _Stepped(self.method, device_placement=False)
        return cast("torch.optim.Optimizer", self.optimizer)

    def get_batch_samples(
        self, epoch_iterator: Iterator[Any], num_batches: int, device: torch.device
    ) -> tuple[list[Any], torch.Tensor | int | None]:
        """Return the micro-batches of the next step, as ``Trainer`` does."""
        self._losses, self._counts = [], []  # an interrupted step leaves some
        samples: tuple[list[Any], torch.Tensor | int | None] = super().get_batch_samples(
            epoch_iterator, num_batches, device
        )
        return samples

    def training_step(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """Do a whole step of the method on its last micro-batch, and return the loss.

        Earlier micro-batches are stored and return a loss of 0, since ``Trainer`` adds the losses
        up. A micro-batch in which every label is ignored (-100) is left out; if all of them are,
        the step changes nothing.

        Raises:
            ReproError: a loss is not finite; the parameters are restored, as after any exception in
                the method's step.
        """
        model.eval()
        inputs = self._prepare_inputs(inputs)
        items, losses, counts = num_items_in_batch, self._losses, self._counts
        if self.current_gradient_accumulation_steps > 1 and items is not None:
            # Trainer expects a loss divided by the items of all batches. Many losses are not; the
            # mean over the items of one batch is the same for both kinds.
            items = self._get_num_items_in_batch([inputs], self.args.device)
        # for some models Trainer counts no items; their losses are means over the rows
        own = _rows(inputs) if items is None else int(items)

        def loss() -> torch.Tensor:
            with self.compute_loss_context_manager():
                batch = copy.copy(inputs)  # compute_loss removes the labels
                computed = self.compute_loss(model, batch, num_items_in_batch=items)
                return cast("torch.Tensor", computed) * (own * len(counts) / sum(counts))

        if own > 0:  # else the loss is 0 / 0
            losses.append(loss)
            counts.append(own)
        if not self.accelerator.sync_gradients or not losses:
            return torch.zeros((), device=self.args.device)
        self._losses, self._counts = [], []
        return torch.tensor(self.method.step(losses), device=self.args.device)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log the projected gradient in place of ``Trainer``'s gradient norm."""
        if logs.pop("grad_norm", None) is not None and self.method.last is not None:
            gradients = [e.projected_gradient for e in self.method.last.estimates]
            logs["projected_gradient"] = sum(gradients) / max(1, len(gradients))
        super().log(logs, start_time)


def _rows(inputs: Mapping[str, Any]) -> int:
    """Return the number of rows of a batch; 1 if it holds no tensor with rows."""
    sizes = (len(t) for t in inputs.values() if isinstance(t, torch.Tensor) and t.dim() > 0)
    return next(sizes, 1)


class _Stepped(AcceleratedOptimizer):  # type: ignore[misc]  # accelerate has no types
    """The method as seen by the training loop; ``training_step`` has already done its step."""

    def step(self, closure: object = None) -> None:
        """Do nothing."""


def _check(args: TrainingArguments, method: ZerothOrder) -> None:
    own = method.settings
    used = {"learning_rate": "lr", "weight_decay": "weight_decay", "max_grad_norm": "clip"}
    for name, setting in used.items():
        value, usual = getattr(args, name), TrainingArguments.__dataclass_fields__[name].default
        if value not in (usual, own[setting]):
            raise UsageError(
                f"{name} = {value!r}: the method was made with {setting} = {own[setting]!r}, which "
                f"is used; leave {name} out, or give the method the same value"
            )
    for name in ("optim", "optim_args", "adam_beta1", "adam_beta2", "adam_epsilon"):
        value = getattr(args, name)
        if value != TrainingArguments.__dataclass_fields__[name].default:
            msg = f"{name} = {value!r}: the optimizer is the {type(method).__name__}; leave it out"
            raise UsageError(msg)
    for name in ("neftune_noise_alpha", "gradient_checkpointing", "activation_checkpointing"):
        if value := getattr(args, name, None):  # the names differ between versions
            raise UsageError(
                f"{name} = {value!r}: has no effect, as no layer is in training mode and only "
                "ElasticZO's tail has a backward pass; leave it out"
            )
    if args.fp16:
        raise UsageError(
            "fp16 = True scales the loss for a backward pass; load the model in float16 "
            "(dtype=torch.float16) with restore='exact', or give bf16=True"
        )
    if args.parallel_mode is not ParallelMode.NOT_PARALLEL:
        raise UsageError(
            f"parallel_mode = {args.parallel_mode}: these methods train on one device; show the "
            "process one GPU"
        )
