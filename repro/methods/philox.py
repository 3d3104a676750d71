"""Perturb, restore and update the weights on a GPU in one kernel a pass.

The Gaussian noise is drawn in registers, added and forgotten: a pass reads and writes each weight
once, where PyTorch's operators also write and read the noise. The numbers come from the
counter-based generator Philox4x32-10 (Salmon et al. 2011) and the Box-Muller transform. The key is
the perturbation's seed, and the counter names the weight, so that no pass depends on launch order.

Of tensor t, the weight q * 1024 + j of the group of 4,096 weights number g takes output q of the
counter (1024 g + j, t, stream, 0); stream 0 is the noise, stream 1 rounds updates stochastically.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from repro.core.errors import UsageError
from repro.methods.lattice import Lattice

if TYPE_CHECKING:
    from repro.methods.walk import Restore

GROUP = 4096
"""Weights that share the counters of a group."""
_GROUPS = 4
"""Groups that one program of a kernel changes, one after the other."""


class PhiloxNoise:
    """Noise of the fused kernels. ``MeZO(..., noise=PhiloxNoise())`` needs weights on a GPU.

    Example::

        mezo = MeZO(model.cuda().parameters(), lr=1e-6, eps=1e-3, noise=PhiloxNoise())
    """

    name = "philox"

    def walk(self, restore: "Restore", eps: float) -> "FusedWalk":
        """Return the passes that perturb, restore and update by this noise."""
        return FusedWalk(eps, exact=restore == "exact")


class FusedWalk:
    """Perturb, restore and update all weights by one kernel launch for each number format."""

    def __init__(self, eps: float, *, exact: bool) -> None:
        """Take the scale of the perturbation.

        Args:
            eps: scale of the perturbation.
            exact: whether weights are kept on a ``Lattice``, from which they are restored bit by
                bit, instead of with the rounding errors of the sums.
        """
        self.eps = eps
        self.reversible = exact
        self._tables: list[tuple[_Table, Lattice | None]] = []
        self._kernels: Any = None

    def settle(self, parameters: Sequence[torch.Tensor]) -> None:
        """Build the kernels' tables; round exact weights to the lattice.

        Raises:
            UsageError: Triton is not installed, a weight is not on a GPU, or, if exact, eps is too
                small for a number format.
        """
        self._kernels = _kernels_for(parameters)
        formats = list(dict.fromkeys(parameter.dtype for parameter in parameters))
        if self.reversible and torch.float32 in formats:
            msg = (
                "restore = 'exact' with noise 'philox' and float32 weights: its kernels compute in "
                "float32, which is exact for bfloat16 and float16 weights only; take 'rounded'"
            )
            raise UsageError(msg)
        self._tables = [
            (
                _Table([(t, p) for t, p in enumerate(parameters) if p.dtype == dtype]),
                Lattice(dtype, self.eps) if self.reversible else None,
            )
            for dtype in formats
        ]
        for parameter in parameters if self.reversible else ():
            lattice = Lattice(parameter.dtype, self.eps)
            for part in torch.split(parameter.detach().view(-1), 1 << 24):
                part.copy_(lattice.round(part.to(lattice.wide)))

    def move(self, parameters: Sequence[torch.Tensor], seed: int, before: int, after: int) -> None:
        """Go from theta + ``before`` eps z to theta + ``after`` eps z, z being that of ``seed``."""
        for table, lattice in self._following(parameters):
            if lattice is None:
                self._kernels.add(table, seed, (after - before) * self.eps)
            else:
                self._kernels.step_on_lattice(table, seed, lattice, before, after, is_update=False)

    def descend(
        self, parameters: Sequence[torch.Tensor], seed: int, before: int, rate: float
    ) -> None:
        """Go from theta + ``before`` eps z to theta - ``rate`` z."""
        for table, lattice in self._following(parameters):
            if lattice is None:
                self._kernels.add(table, seed, -before * self.eps - rate)
            else:
                after = -rate / self.eps
                self._kernels.step_on_lattice(table, seed, lattice, before, after, is_update=True)

    def rest(self) -> None:
        """Do nothing: no pass leaves anything behind."""

    def _following(
        self, parameters: Sequence[torch.Tensor]
    ) -> Iterator[tuple["_Table", Lattice | None]]:
        for table, lattice in self._tables:
            table.follow(parameters)
            yield table, lattice


class _Table:
    """Which weights each program of a kernel changes, for tensors of one number format."""

    def __init__(self, tensors: Sequence[tuple[int, torch.Tensor]]) -> None:
        device = tensors[0][1].device
        self.dtype = tensors[0][1].dtype
        self._numbers = [number for number, _ in tensors]
        sizes = [tensor.numel() for _, tensor in tensors]
        blocks = [-(-size // (GROUP * _GROUPS)) for size in sizes]
        self.programs = sum(blocks)
        repeats = torch.tensor(blocks)
        slot = torch.repeat_interleave(torch.arange(len(blocks)), repeats)
        first = torch.repeat_interleave(repeats.cumsum(0) - repeats, repeats)
        self.slots = slot.int().to(device)
        """[programs], which of the tensors."""
        self.blocks = (torch.arange(self.programs) - first).int().to(device)
        """[programs], which block of it."""
        self.sizes = torch.tensor(sizes, device=device)
        """[tensors], elements of each."""
        self.numbers = torch.tensor(self._numbers, dtype=torch.int32, device=device)
        """[tensors], number of each among all parameters: part of the counter."""
        self._at = [0] * len(sizes)
        self.pointers = torch.zeros(len(sizes), dtype=torch.int64, device=device)
        """[tensors], where each begins."""

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What every kernel takes first."""
        import triton.language as tl

        format_ = getattr(tl, str(self.dtype).removeprefix("torch."))
        return self.pointers, self.sizes, self.numbers, self.slots, self.blocks, format_

    def follow(self, parameters: Sequence[torch.Tensor]) -> None:
        """Look up the tensors' addresses again: loading a checkpoint may replace ``.data``."""
        now = [parameters[number].data_ptr() for number in self._numbers]
        if now != self._at:
            self._at = now
            self.pointers.copy_(torch.tensor(now))


def _kernels_for(parameters: Sequence[torch.Tensor]) -> Any:  # noqa: ANN401 - a module
    try:
        from repro.methods import philox_kernels
    except ModuleNotFoundError as error:
        msg = "noise 'philox': Triton is not installed; install PyTorch for CUDA, or take 'torch'"
        raise UsageError(msg) from error
    for parameter in parameters:
        if parameter.device.type != "cuda" and not philox_kernels.is_interpreted():
            msg = (
                f"noise 'philox' with a parameter on {parameter.device}: its kernels run on a GPU; "
                "move the model there, or take another noise"
            )
            raise UsageError(msg)
    return philox_kernels
