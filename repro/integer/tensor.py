"""NITI's number format: int8 mantissas that share one exponent (Wang et al. 2022, section III)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from repro.core.errors import UsageError


@dataclass(frozen=True)
class IntegerTensor:
    """The numbers ``values * 2 ** exponent``; there is no zero point."""

    values: Tensor
    """Mantissas, int8, of any shape."""
    exponent: int
    """The common exponent, a Python integer, so it needs no tensor."""

    def __post_init__(self) -> None:
        if self.values.dtype != torch.int8:
            raise UsageError(
                f"mantissas of {self.values.dtype}: must be torch.int8; "
                "repro.integer.quantise turns floating-point numbers into them"
            )
        if isinstance(self.exponent, bool) or not isinstance(self.exponent, int):
            raise UsageError(f"exponent = {self.exponent!r}: must be a whole number (a Python int)")

    def dequantise(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the numbers in floating point, exact unless they underflow or overflow."""
        return ldexp(self.values.to(dtype), self.exponent)


def ldexp(numbers: Tensor, exponent: int) -> Tensor:
    """Return ``numbers * 2 ** exponent`` on their device; PyTorch's own takes a tensor there."""
    return torch.ldexp(numbers, torch.tensor(exponent, device=numbers.device))


def require_integers(inputs: object) -> None:
    """Refuse inputs that are not quantised.

    Raises:
        UsageError: ``inputs`` is no ``IntegerTensor``.
    """
    if not isinstance(inputs, IntegerTensor):
        raise UsageError(
            f"inputs = {type(inputs).__name__}: give an IntegerTensor; quantise(images) of "
            "repro.integer.quantise makes one"
        )
