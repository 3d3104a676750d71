"""ReLU."""

from torch import Tensor

from repro.integer.layers import Selecting


class ReLU(Selecting):
    """max(x, 0), the exponent unchanged."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the positive part."""
        return x.clamp(min=0)

    def backward(self, x: Tensor, y: Tensor, error: Tensor) -> Tensor:  # noqa: ARG002
        """Pass the error where x > 0, strictly (v2, ReLU.backward)."""
        return error * (y > 0)
