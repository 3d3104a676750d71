"""Read the numbers of a sentence, not its wording; and count what a step reads on the host."""

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
    """Counts the values that are read on the host, for each of which a GPU is waited for."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))
