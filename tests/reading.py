"""Read the numbers of a sentence, and count the values that a step reads on the host."""

import re
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


def numbers(text: str) -> list[float]:
    """Return the numbers of a text in their order; digits within a name, as in INT8, do not count.

    Raises:
        ValueError: a number is joined to a unit or has separators, and is not read.
    """
    found = re.findall(r"(?<![\w.,-])[+-]?\d[\w.,]*(?<![.,])", text)
    return [float(one) for one in found]


class HostReads(TorchDispatchMode):
    """Counts the values read on the host; each makes the host wait for a GPU."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))
