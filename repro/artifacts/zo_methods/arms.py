"""The methods that are compared: one entry of ``ARMS`` each.

An entry names the optimizer and its parts by path, so that reports read labels without importing
any method. A new entry is trained, tuned, measured, tabulated and drawn like the others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log10
from typing import TYPE_CHECKING, Any, Literal

from repro.artifacts.base import lazy

if TYPE_CHECKING:
    import torch

    from repro.methods.noise import Noise

TaskKind = Literal["images", "text"]
"""LeNet-5 on images, or a language model on prompts."""
_SPACING = 10**0.5
"""Ratio of neighbours in a grid of learning rates."""
_MEZO = lazy("repro.methods.mezo:MeZO")
_BACKPROP = lazy("repro.methods.backprop:Backprop")
_GAUSSIAN = lazy("repro.artifacts.zo_methods.directions:gaussian")
_SIGNS = lazy("repro.artifacts.zo_methods.directions:signs")
_LOW_RANK = lazy("repro.artifacts.zo_methods.directions:low_rank")
_SUBSPACE = lazy("repro.artifacts.zo_methods.directions:subspace")
_SMALL_WEIGHTS = lazy("repro.artifacts.zo_methods.directions:small_weights")


@dataclass(frozen=True)
class ComparedMethod:
    """A method and where its search for a learning rate starts."""

    label: str
    colour: int
    """Place of its colour in the palette of ``repro.plotting.style``."""
    rates: Mapping[TaskKind, float] = field(
        default_factory=lambda: {"images": 3.2e-4, "text": 1e-5}
    )
    """The learning rate in the middle of the grid; the arm is run on these kinds of tasks only."""
    optimizer: Callable[..., Any] = _MEZO
    """Makes the optimizer from the parameters and the settings."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the optimizer besides learning rate, eps, seed and noise."""
    noise: "Callable[[Sequence[torch.Tensor], TaskKind], Noise] | None" = _GAUSSIAN
    """Makes the source of directions for the trained parameters; ``None`` without a zeroth-order
    part, and then the optimizer takes neither eps nor a seed."""
    has_tail: bool = False
    """Whether the optimizer takes the model and a partition point instead of the parameters."""
    trains_adapters: bool = False
    """Whether LoRA adapters are trained instead of the model's own weights."""
    published: str = ""
    """Row of Table 1 in the ElasticZO paper with its accuracy on MNIST, if there is one."""

    def grid(self, kind: TaskKind, count: int) -> tuple[float, ...]:
        """Return ``count`` learning rates around the middle of the grid, in ascending order.

        Neighbours differ by the square root of 10, rounded to two digits.
        """
        rates = (self.rates[kind] * _SPACING ** (place - count // 2) for place in range(count))
        return tuple(round(rate, 1 - int(log10(rate) // 1)) for rate in rates)


ARMS: dict[str, ComparedMethod] = {
    "mezo": ComparedMethod("MeZO", 0, published="full_zo"),
    "mezo_clipped": ComparedMethod(
        "MeZO, clipped", 6, {"images": 3.2e-2}, settings={"clip": 0.025}
    ),
    "mezo_signs": ComparedMethod("MeZO, random signs", 9, noise=_SIGNS),
    "mezo_sign": ComparedMethod(
        "ZO-signSGD",
        12,
        # every weight moves by the learning rate
        {"images": 1e-3, "text": 1e-4},
        settings={"rule": lazy("repro.methods.rules:sign")},
        noise=_SIGNS,
    ),
    "mezo_one_sided": ComparedMethod("MeZO, one-sided", 4, settings={"estimator": "one-sided"}),
    "mezo_sparse": ComparedMethod(
        "Sparse MeZO", 5, {"images": 3.2e-3, "text": 1e-5}, noise=_SMALL_WEIGHTS
    ),
    "lozo": ComparedMethod("LOZO, r = 2", 8, noise=_LOW_RANK),
    "subzero": ComparedMethod("SubZero, r = 4", 11, noise=_SUBSPACE),
    "meazo": ComparedMethod(
        "MEAZO",
        10,
        # its steps are MeZO's divided by the size of projected gradients, which is about 20 on text
        {"images": 1e-3, "text": 1e-4},
        optimizer=lazy("repro.methods.meazo:MEAZO"),
    ),
    "fzoo": ComparedMethod(
        "FZOO, N = 8",
        2,
        {"images": 3.2e-5, "text": 1e-6},
        optimizer=lazy("repro.methods.fzoo:FZOO"),
        settings={"perturbations": 8},
        noise=_SIGNS,
    ),
    "elasticzo": ComparedMethod(
        "ElasticZO",
        3,
        optimizer=lazy("repro.methods.elasticzo:ElasticZO"),
        has_tail=True,
        published="cls1",
    ),
    "bp": ComparedMethod(
        "BP, SGD",
        1,
        {"images": 1e-1, "text": 1e-3},
        optimizer=_BACKPROP,
        noise=None,
        published="full_bp",
    ),
    "lora": ComparedMethod(
        "LoRA, Adam",
        7,
        {"text": 1e-4},
        optimizer=_BACKPROP,
        settings={"rule": "adam"},
        noise=None,
        trains_adapters=True,
    ),
}
"""The methods by name, in the order of tables and legends."""
