"""Reports of training steps."""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from repro.core.errors import ReproError, UsageError


class DivergedError(ReproError):
    """A loss is not finite, or an update exceeds the number format."""


@dataclass(frozen=True)
class GradientEstimate:
    """One SPSA estimate (MeZO, Algorithm 1; ElasticZO, equation 1)."""

    seed: int
    """Seed of the perturbation z."""
    loss_plus: float
    """l+, the loss at theta + eps z."""
    loss_minus: float
    """l-, the loss at theta - eps z; in a one-sided estimate, the loss at theta."""
    projected_gradient: float
    """g = (l+ - l-) / (2 eps), or divided by eps if one-sided; after clipping."""


@dataclass(frozen=True)
class StepInfo:
    """One training step."""

    loss: float
    """Loss of the batch: the mean of all l+ and l-, or the loss at theta if a step computes it."""
    estimates: tuple[GradientEstimate, ...] = ()
    """The zeroth-order estimates; empty for backpropagation."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Time of each phase, if requested: ``perturb``, ``forward``, ``backward``, ``update``."""


def require_number(loss: object) -> None:
    """Refuse what a closure returned unless it is one real number; it is not read.

    Raises:
        UsageError: it is something else.
    """
    if isinstance(loss, torch.Tensor):
        if loss.numel() == 1 and not loss.is_complex():
            return
        what = f"a tensor of {loss.dtype} and shape {tuple(loss.shape)}"
    elif hasattr(loss, "__float__"):
        return
    else:
        what = "None" if loss is None else type(loss).__name__
    raise UsageError(
        f"the closure returned {what}: it must return one loss, such as cross_entropy(model(x), y)"
    )


def loss_value(loss: object) -> float:
    """Return the value of what a closure returned.

    Raises:
        UsageError: it is not one real number.
    """
    require_number(loss)
    try:
        return float(loss)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:  # of an array with several elements, for example
        raise UsageError(
            f"the closure returned {type(loss).__name__}, which is no number ({error}): it must "
            "return one loss, such as cross_entropy(model(x), y)"
        ) from error


def require_finite(loss: "torch.Tensor | float", which: str, before: str = "") -> float:
    """Return the value of ``loss``.

    Args:
        loss: loss of a batch.
        which: names the loss in the error.
        before: text about earlier steps, for the error.

    Raises:
        DivergedError: the loss is not finite.
    """
    value = loss_value(loss)
    if not math.isfinite(value):
        raise DivergedError(
            f"{which} = {value}{before}: lower the learning rate, eps or the gradient clip, or "
            "check the batch for such values; the trained parameters are restored as after any "
            "pass, but buffers that a forward pass changes, such as the running statistics of "
            "batch norm, stay changed"
        )
    return value


class PhaseTimer:
    """Adds up the time of each phase of a step; a disabled one costs nothing."""

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Count the block as part of ``phase``."""
        if not self.enabled:
            yield
            return
        start = _now()
        try:
            yield
        finally:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + _now() - start


def _now() -> float:
    # kernels run asynchronously; without the check, synchronize would initialise CUDA
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.synchronize()
    return time.perf_counter()
