"""LoRA adapters on the matrices of a language model's blocks."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

SCALE = 2.0
"""alpha / r."""


class MatrixReplacement(nn.Module):
    """A module that replaces a matrix in products only."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as in torch
        """Refuse access to the weight, since reading it would bypass the adapter or integers."""
        if name == "weight":
            raise AttributeError("its code reads a weight itself, past adapters and quantisation")
        return super().__getattr__(name)


class AdaptedMatrix(MatrixReplacement):
    """LoRA (Hu et al. 2021): W x + (alpha / r) B A x.

    A is initialised like the weights of ``nn.Linear`` and B with 0, so the initial output is W x.
    """

    def __init__(
        self, base: nn.Module, inputs: int, outputs: int, rank: int, dtype: torch.dtype
    ) -> None:
        """Wrap the module ``base``, which maps ``inputs`` to ``outputs`` features."""
        super().__init__()
        self.base = base
        self.down = nn.Linear(inputs, rank, bias=False, dtype=dtype)
        self.up = nn.Linear(rank, outputs, bias=False, dtype=dtype)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return the adapted product of x [..., inputs], in the number format of W x."""
        result: Tensor = self.base(x)
        adapted: Tensor = self.up(self.down(x.to(self.up.weight.dtype))) * SCALE
        return result + adapted.to(result.dtype)


def add_adapters(model: nn.Module, rank: int) -> None:
    """Freeze ``model`` and add adapters to every matrix but the output layer, in place.

    Their weights are drawn on the host, so a seed gives equal adapters on every device. They are
    float32 even for half-precision weights, so that small updates count.

    Args:
        model: a language model of transformers.
        rank: r of the adapters.
    """
    model.requires_grad_(False)  # noqa: FBT003 - torch's own signature

    def adapted(base: nn.Module, inputs: int, outputs: int) -> nn.Module:
        new = AdaptedMatrix(base, inputs, outputs, rank, torch.float32)
        device = next(base.parameters()).device
        # under FakeTensorMode no module can be moved, not even to its own device
        return new if device.type == "cpu" else new.to(device)

    replace_matrices(model, adapted)


@torch.no_grad()
def merge_adapters(model: nn.Module) -> None:
    """Add every adapter's product to its matrix and remove the adapter, in place."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, AdaptedMatrix):
                change = SCALE * child.up.weight @ child.down.weight  # [outputs, inputs]
                weight: Any = child.base.weight
                # Conv1D, the linear layer of GPT-2, stores the transpose
                oriented = change if isinstance(child.base, nn.Linear) else change.T
                weight.copy_(weight.float() + oriented.float())
                setattr(parent, name, child.base)
    model.requires_grad_(True)  # noqa: FBT003 - torch's own signature


def replace_matrices(model: nn.Module, make: Callable[[nn.Module, int, int], nn.Module]) -> None:
    """Replace every matrix of ``model`` but the output layer, in place.

    Args:
        model: a language model of transformers.
        make: called with the module of a matrix and its numbers of inputs and outputs; returns the
            replacement.
    """
    from transformers.pytorch_utils import Conv1D

    head = model.get_output_embeddings()  # type: ignore[operator]
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if child is head or not isinstance(child, nn.Linear | Conv1D):
                continue
            rows, columns = child.weight.shape
            inputs, outputs = (columns, rows) if isinstance(child, nn.Linear) else (rows, columns)
            setattr(parent, name, make(child, inputs, outputs))
