"""Track the logical bytes of every storage of a computation, from creation to release."""

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from repro.memory.breakdown import MemoryBreakdown

STANDING = ("parameters", "input")
"""Kinds of memory that outlive a step."""


@dataclass
class Storage:
    """A tracked storage."""

    size: int
    """Bytes."""
    part: str
    """Field of ``MemoryBreakdown`` that it counts as."""


class StorageTracker(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees the outputs of every operator inside its ``with`` block, and when they are freed.

    It does not see the backends' scratch memory and allocator rounding.
    """

    def __init__(self, part_of: Callable[[Tensor], str], parameters: Sequence[Tensor] = ()) -> None:
        """Start without any storage.

        Args:
            part_of: returns the kind of a new storage, given the first tensor on it.
            parameters: tensors whose ``grad`` is checked after every operator and counted as a
                gradient.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        self._part_of = part_of
        self._parameters = parameters
        self._live: dict[int, tuple[Storage, weakref.ref[torch.UntypedStorage]]] = {}
        self._passed_by: list[Tensor] = []
        self._total = 0
        self._peak_total = 0
        self._peak: list[Storage] = []

    def add(self, tensors: Sequence[Tensor], part: str) -> None:
        """Count the storages of existing tensors, or change their kind."""
        for tensor in tensors:
            self._see(tensor).part = part

    def pass_by(self, *tensors: Tensor) -> None:
        """Ignore the storages of ``tensors``, which belong to the caller."""
        # the tensors, since another storage may get the address of a freed one
        self._passed_by += tensors

    def next_step(self) -> None:
        """Forget the peak; live storages outside ``STANDING`` count as "other" from now on."""
        self._peak_total, self._peak = 0, []
        for storage, _ in self._live.values():
            if storage.part not in STANDING:
                storage.part = "other"

    def peak(self) -> MemoryBreakdown:
        """Return the memory at the peak, by the final kind of each storage."""
        return MemoryBreakdown.of((storage.part, storage.size) for storage in self._peak)

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401 - whatever the operator returns
        outputs = func(*args, **(kwargs or {}))
        for output in tree_iter(outputs):
            if isinstance(output, Tensor):
                self._see(output)
        self.add([p.grad for p in self._parameters if p.grad is not None], "gradients")
        if self._total > self._peak_total:
            self._peak_total = self._total
            self._peak = [storage for storage, _ in self._live.values()]
        return outputs

    def _see(self, tensor: Tensor) -> Storage:
        found = tensor.untyped_storage()
        key = found._cdata
        if key in self._live:
            storage, _ = self._live[key]
            self._total += found.nbytes() - storage.size  # the storage may have been resized
            storage.size = found.nbytes()
            return storage
        storage = Storage(found.nbytes(), self._part_of(tensor))
        if any(found._cdata == known.untyped_storage()._cdata for known in self._passed_by):
            return storage
        # PyTorch keeps one Python object per storage, until the storage is freed
        self._live[key] = storage, weakref.ref(found, lambda _: self._release(key))
        self._total += storage.size
        return storage

    def _release(self, key: int) -> None:
        storage, _ = self._live.pop(key)
        self._total -= storage.size
