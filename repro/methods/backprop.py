"""Backpropagation with stateless SGD, the arm that the zeroth-order methods are compared with."""

from collections.abc import Callable, Iterable

import torch

from repro.core.validation import require_positive


class Backprop:
    """SGD without momentum or weight decay; gradients live from the backward pass to the update.

    Example::

        sgd = Backprop(model.parameters(), lr=1e-4)
        for x, y in batches:
            sgd.step(lambda: cross_entropy(model(x), y))
    """

    def __init__(self, parameters: Iterable[torch.nn.Parameter], *, lr: float) -> None:
        """Take the parameters to train and the learning rate.

        Raises:
            UsageError: ``lr`` is not finite or not positive.
        """
        self._sgd = torch.optim.SGD(parameters, lr=require_positive("learning rate lr", lr))

    def step(self, closure: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Compute the loss, its gradient and the update; return the loss, detached."""
        loss = closure()
        loss.backward()  # type: ignore[no-untyped-call]
        self._sgd.step()
        self._sgd.zero_grad(set_to_none=True)
        return loss.detach()
