"""Whether a computation is a forward pass alone, of which autograd keeps nothing.

The layers that ask overwrite their input then, where that saves memory: in a network no other layer
reads it.
"""

import torch


def forward_only(*tensors: torch.Tensor | None) -> bool:
    """Return whether nothing computed from ``tensors`` will have a gradient."""
    if not torch.is_grad_enabled():
        return True
    return not any(tensor is not None and tensor.requires_grad for tensor in tensors)
