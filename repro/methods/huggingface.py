"""Training by the zeroth-order methods in the Hugging Face ``Trainer``."""

import copy
from typing import Any, cast

import torch
from accelerate.optimizer import AcceleratedOptimizer
from transformers import Trainer
from transformers.training_args import ParallelMode, TrainingArguments

from repro.core.errors import UsageError
from repro.methods.zeroth_order import ZerothOrder


class ZerothOrderTrainer(Trainer):
    """``Trainer`` whose steps are those of a method of this package.

    Example::

        mezo = MeZO(model.parameters(), lr=1e-6, eps=1e-3)
        trainer = ZerothOrderTrainer(
            model=model, args=args, train_dataset=dataset, optimizers=(mezo, None)
        )
        trainer.train()

    The method brings learning rate, clip and seed; ``args`` brings the schedule, batches, logging,
    evaluation and checkpoints, which hold the method's state beside the weights. The model is in
    evaluation mode in training too, as in the authors' code: l+ and l- must differ by the
    perturbation alone, not by dropout. ``bf16=True`` works as usual; there is no gradient that
    needs the loss scaling of ``fp16=True``, so give a model in float16 instead.
    """

    def __init__(
        self,
        *,
        args: TrainingArguments,
        optimizers: tuple[torch.optim.Optimizer | None, torch.optim.lr_scheduler.LambdaLR | None],
        **settings: Any,  # noqa: ANN401 - those of Trainer
    ) -> None:
        """Take what ``Trainer`` takes, and the method as its optimizer.

        Raises:
            UsageError: another optimizer, or an argument that needs gradients or several devices.
        """
        method = optimizers[0]
        if not isinstance(method, ZerothOrder):
            msg = f"optimizers = {optimizers!r}: give a MeZO or ElasticZO, as in (mezo, None)"
            raise UsageError(msg)
        _check(args)
        super().__init__(args=args, optimizers=optimizers, **settings)
        self.method = method

    def create_optimizer(
        self,
        model: torch.nn.Module | None = None,  # noqa: ARG002 - the method knows its parameters
    ) -> torch.optim.Optimizer:
        """Return the method as the training loop may see it."""
        if self.optimizer is self.method:
            self.optimizer = _Stepped(self.method, device_placement=False)
        return cast("torch.optim.Optimizer", self.optimizer)

    def training_step(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """Do a whole step of the method on a batch and return its loss.

        Raises:
            ReproError: a loss is not finite; the parameters are as they were before.
        """
        model.eval()
        inputs = self._prepare_inputs(inputs)

        def loss() -> torch.Tensor:
            with self.compute_loss_context_manager():
                batch = copy.copy(inputs)  # compute_loss takes the labels out
                computed = self.compute_loss(model, batch, num_items_in_batch=num_items_in_batch)
                return cast("torch.Tensor", computed)

        return torch.tensor(self.method.step(loss), device=self.args.device)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log the projected gradient where ``Trainer`` has the norm of a gradient."""
        if logs.pop("grad_norm", None) is not None and self.method.last is not None:
            gradients = [e.projected_gradient for e in self.method.last.estimates]
            logs["projected_gradient"] = sum(gradients) / max(1, len(gradients))
        super().log(logs, start_time)


class _Stepped(AcceleratedOptimizer):  # type: ignore[misc]  # accelerate has no types
    """The method as the loop sees it, which calls ``step`` when ``training_step`` has done it."""

    def step(self, closure: object = None) -> None:
        """Do nothing."""


def _check(args: TrainingArguments) -> None:
    if args.gradient_accumulation_steps != 1:
        msg = (
            f"gradient_accumulation_steps = {args.gradient_accumulation_steps}: there is no "
            "gradient to accumulate; give a larger per_device_train_batch_size, which takes the "
            "memory of a forward pass only"
        )
        raise UsageError(msg)
    if args.fp16:
        msg = (
            "fp16 = True scales the loss for a backward pass; load the model in float16 "
            "(dtype=torch.float16) with restore='exact', or give bf16=True"
        )
        raise UsageError(msg)
    if args.parallel_mode is not ParallelMode.NOT_PARALLEL:
        msg = f"parallel_mode = {args.parallel_mode}: these methods train on one device"
        raise UsageError(msg)
