"""ReLU in place where no gradient is needed."""

from torch import Tensor, nn

from repro.models.forward_only import forward_only


class ReLU(nn.ReLU):
    """``nn.ReLU`` that overwrites its input in a forward pass alone.

    Under autograd the result is kept in any case and the input is not; to overwrite it would save
    nothing, and cost a copy of the gradient where the input is a view.
    """

    def forward(self, features: Tensor) -> Tensor:
        """Return max(0, x) of each entry."""
        if forward_only(features):
            return features.relu_()
        return super().forward(features)
