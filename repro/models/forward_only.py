"""Whether a computation is a forward pass alone, of which autograd keeps nothing.

The layers of this package that ask overwrite their input then, if that saves memory: a network feeds
each layer what only that layer reads.
"""

import torch


def forward_only(*tensors: torch.Tensor | None) -> bool:
    """Return whether nothing computed from ``tensors`` will have a gradient."""
    if not torch.is_grad_enabled():
        return True
    return not any(tensor is not None and tensor.requires_grad for tensor in tensors)
