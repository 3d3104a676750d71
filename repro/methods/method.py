"""The interface of a method for training code: bind it to a loss, then feed it batches."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import torch

from repro.methods.step_info import StepInfo

Batch = TypeVar("Batch")


class Steps(Protocol):
    """An optimizer of this package: it computes a step from a closure and reports on it."""

    last: StepInfo | None

    def step(self, closure: Callable[[], torch.Tensor]) -> float:
        """Do one step and return the loss."""


class Method(Generic[Batch]):
    """A method bound to the loss that it minimises.

    Example::

        method = Method(MeZO(model.parameters(), lr=1e-6, eps=1e-3), loss)
        for batch in batches:
            info = method.step(batch)  # info.estimates[0].loss_plus, .projected_gradient, ...
    """

    def __init__(self, optimizer: Steps, loss: Callable[[Batch], torch.Tensor]) -> None:
        self.optimizer = optimizer
        self.loss = loss

    def step(self, batch: Batch) -> StepInfo:
        """Do one step on ``batch`` and return its report.

        Raises:
            ReproError: a loss is not finite; the parameters are unchanged.
        """
        self.optimizer.step(lambda: self.loss(batch))
        info = self.optimizer.last
        assert info is not None  # noqa: S101 - for the type checker: step has just set it
        return info
