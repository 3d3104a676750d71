"""Perturb, restore and update weights on a GPU with one kernel per pass.

The noise exists only in registers: a pass reads and writes each weight once, whereas PyTorch's
operators also write and read the noise. The numbers come from the counter-based generator
Philox4x32-10 (Salmon et al. 2011). The key is the perturbation's seed, and the counter names the
weight, so that no pass depends on launch order. Their bits are the same on every GPU.

In tensor t, the counter (n, t, stream, 0) gives four words with the key (seed, 0):

- Gaussian noise (stream 0): word k makes the numbers of weights 8 n + 2 k and 8 n + 2 k + 1 by Box
  and Muller's transform. Its upper 20 bits u give the radius sqrt(-2 ln((u + 1/2) / 2^20)), at most
  5.4. The next 10 bits v give the angle (v + 1/2) / 1024 pi / 2, whose cosine belongs to the first
  weight and whose sine to the second. Bits 0 and 1, where set, make these two negative.
- Random signs (stream 0): counters 128 b to 128 b + 127 serve the 16,384 weights of block b. Bit
  8 (p mod 4) + k of word p div 4 of counter 128 b + j, where set, makes weight 1024 p + 8 j + k of
  the block negative.
- Rounding of updates (stream 1): of word k, the lower half h rounds weight 8 n + 2 k, the upper
  half weight 8 n + 2 k + 1: up if the update lies more than (h + 1/2) / 2^16 of a spacing above the
  lower point. So near zero, an update below 2^-17 of a spacing is lost.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from repro.core.errors import UsageError
from repro.methods.lattice import Lattice
from repro.methods.noise import LatticeStep, Noise

BLOCK = 16384
"""Weights that one program of a kernel changes."""
_ROW = 16
"""Divisor of addresses in bytes and of sizes at which a program can load eight weights at once."""
_FORMATS = (torch.float32, torch.bfloat16, torch.float16)


class PhiloxNoise(Noise):
    """Gaussian noise of the fused kernels, for weights on a GPU.

    Example::

        mezo = MeZO(model.cuda().parameters(), lr=1e-6, eps=1e-3, noise=PhiloxNoise())
    """

    name = "philox"
    signs = False
    """Whether the numbers are random signs."""

    def __init__(self) -> None:
        self._parameters: Sequence[torch.Tensor] = ()
        """The weights described by the tables."""
        self._tables: list[_Table] = []

    def prepare(self, parameters: Sequence[torch.Tensor], *, exact: bool) -> None:
        """Build the kernels' tables.

        Raises:
            UsageError: Triton is not installed; a weight is not on a GPU, is no plain tensor or has
                another format than float32, bfloat16 and float16; or float32 weights are to be
                exact.
        """
        kernels = _kernels()
        for parameter in parameters:
            if parameter.device.type != "cuda" and not kernels.is_interpreted():
                raise UsageError(
                    f"noise 'philox' with a parameter on {parameter.device}: its kernels run on a "
                    "GPU; move the model there, or use another noise"
                )
            if type(parameter) not in (torch.Tensor, torch.nn.Parameter):
                raise UsageError(
                    f"noise 'philox' with a parameter of {type(parameter).__name__}: its kernels "
                    "need the address of a plain tensor; use another noise"
                )
            if parameter.dtype not in _FORMATS:
                raise UsageError(
                    f"noise 'philox' with a parameter of {parameter.dtype}: its kernels compute in "
                    "float32; give weights in float32, bfloat16 or float16, or use another noise"
                )
        if exact and any(parameter.dtype == torch.float32 for parameter in parameters):
            raise UsageError(
                "restore = 'exact' with noise 'philox' and float32 weights: its kernels compute in "
                "float32, which is exact for bfloat16 and float16 weights only; use restore = "
                "'rounded'"
            )
        self._parameters = parameters
        alike: dict[Any, list[tuple[int, torch.Tensor]]] = {}
        for number, parameter in enumerate(parameters):
            fills_rows = parameter.numel() % _ROW == 0
            key = parameter.device, parameter.dtype, fills_rows
            alike.setdefault(key, []).append((number, parameter))
        self._tables = [_Table(tensors) for tensors in alike.values()]

    def add_(self, parameters: Sequence[torch.Tensor], seed: int, scale: float) -> None:
        """Add ``scale`` z(``seed``) to the weights, in place."""
        for table in self._following(parameters):
            _kernels().add(table, seed, scale, signs=self.signs)

    def step_on_lattice_(
        self,
        parameters: Sequence[torch.Tensor],
        seed: int,
        step: LatticeStep,
        chunk: int | None,  # noqa: ARG002 - a kernel has no pieces
    ) -> None:
        """Make ``step`` along z(``seed``), in place."""
        for table in self._following(parameters):
            lattice = Lattice(table.dtype, step.eps)
            _kernels().step_on_lattice(
                table,
                seed,
                lattice,
                before=step.before,
                after=step.after,
                factor=1,
                is_update=step.is_update,
                signs=self.signs,
            )

    def shrink_on_lattice_(
        self,
        parameters: Sequence[torch.Tensor],
        seed: int,
        factor: float,
        eps: float,
        chunk: int | None,  # noqa: ARG002 - a kernel has no pieces
    ) -> None:
        """Multiply weights on lattices of scale ``eps`` by ``factor``, in place."""
        for table in self._following(parameters):
            _kernels().step_on_lattice(
                table,
                seed,
                Lattice(table.dtype, eps),
                before=0,
                after=0,
                factor=factor,
                is_update=True,
                signs=self.signs,
            )

    def _following(self, parameters: Sequence[torch.Tensor]) -> Iterator["_Table"]:
        if parameters is not self._parameters:  # another optimizer uses the same noise
            self.prepare(parameters, exact=False)
        for table in self._tables:
            table.follow(parameters)
            yield table


def _kernels() -> Any:  # noqa: ANN401 - a module
    """Return the kernels' module, which needs Triton."""
    try:
        from repro.methods import philox_kernels
    except ModuleNotFoundError as error:
        raise UsageError(
            "noise 'philox': Triton is not installed; install PyTorch for CUDA, or use noise = "
            "'torch'"
        ) from error
    return philox_kernels


class PhiloxSigns(PhiloxNoise):
    """z of +1 and -1 by the fused kernels; it is ``PhiloxNoise`` otherwise.

    One counter serves 128 weights, so that adding them takes about as long as reading and writing
    the weights. The magnitude is 1 - 2^-24, for the reason that ``RademacherNoise`` gives.
    """

    name = "philox-signs"
    signs = True


class _Table:
    """The weights that each program of a kernel changes, for one device and number format.

    Either all sizes are multiples of ``_ROW``, or none is.
    """

    def __init__(self, tensors: Sequence[tuple[int, torch.Tensor]]) -> None:
        device = tensors[0][1].device
        self.dtype = tensors[0][1].dtype
        self._numbers = [number for number, _ in tensors]
        self._sizes = sizes = [tensor.numel() for _, tensor in tensors]
        blocks = [-(-size // BLOCK) for size in sizes]
        self.programs = sum(blocks)
        repeats = torch.tensor(blocks)
        slot = torch.repeat_interleave(torch.arange(len(blocks)), repeats)
        first = torch.repeat_interleave(repeats.cumsum(0) - repeats, repeats)
        self.slots = slot.int().to(device)
        """[programs], index of its tensor."""
        self.blocks = (torch.arange(self.programs) - first).int().to(device)
        """[programs], index of its block in the tensor."""
        self.sizes = torch.tensor(sizes, device=device)
        """[tensors], number of elements."""
        self.numbers = torch.tensor(self._numbers, dtype=torch.int32, device=device)
        """[tensors], index among all parameters, part of the counter."""
        self._at = [0] * len(sizes)
        self.pointers = torch.zeros(len(sizes), dtype=torch.int64, device=device)
        """[tensors], address of the first element."""
        self.aligned = False
        """Whether every address and every size is a multiple of ``_ROW``."""

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The first arguments of every kernel, after ``follow``."""
        import triton.language as tl

        format_ = getattr(tl, str(self.dtype).removeprefix("torch."))
        at = self.pointers, self.sizes, self.numbers, self.slots, self.blocks
        return *at, format_, self.aligned

    def follow(self, parameters: Sequence[torch.Tensor]) -> None:
        """Look up the tensors' addresses again: loading a checkpoint may replace ``.data``."""
        now = [parameters[number].data_ptr() for number in self._numbers]
        if now != self._at:
            self._at = now
            self.aligned = not any(number % _ROW for number in (*now, *self._sizes))
            self.pointers.copy_(torch.tensor(now))
