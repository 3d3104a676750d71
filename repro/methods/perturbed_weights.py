"""Perturb, restore and update weights, for every zeroth-order method on PyTorch tensors."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, get_args

import torch

from repro.core.errors import ReproError, UsageError
from repro.core.validation import require_choice
from repro.methods.lattice import Lattice
from repro.methods.noise import LatticeStep, Noise, default_chunk, split

Restore = Literal["rounded", "exact"]
"""How weights are restored: up to the rounding errors of the sums, or bit by bit."""

TORN = (
    "An error in the middle of a pass over the weights has left some of them perturbed and others "
    "not. Load the model's weights again and make a new optimizer."
)
_GROUP = 0x9E3779B9
"""Distance between the seeds of two parameter groups; its multiples are far apart modulo 2^32."""
_DECAY = 1 << 30  # distinct from the seeds of noise and rounding in the same step


def default_restore(parameters: Sequence[torch.Tensor]) -> Restore:
    """Return ``"exact"`` in half precision, where rounding errors would ruin the weights."""
    half = {torch.bfloat16, torch.float16}
    return "exact" if half & {parameter.dtype for parameter in parameters} else "rounded"


class PerturbedWeights:
    """The weights of a run, at theta or at theta + offset eps z(seed).

    ``rounded`` adds noise in the weights' own format, as in the papers, and rounds each sum.
    ``exact`` keeps the weights on a ``Lattice``, restores them bit by bit and rounds updates to it
    at random, without changing their mean. Its noise is drawn for one tensor at a time, in pieces
    of ``chunk`` elements; a pass needs extra memory of a few such pieces for each thread.
    """

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        restore: Restore,
        eps: float,
        chunk: int | None,
        noise: Noise,
        number: int = 0,
    ) -> None:
        """Take the weights of parameter group ``number``, which are at theta.

        Raises:
            UsageError: ``restore`` is not a valid name.
        """
        self.parameters = parameters
        self.exact = require_choice("restore", restore, get_args(Restore)) == "exact"
        self.eps = eps
        self.chunk = chunk
        self.noise = noise
        self.number = number
        self._shift = number * _GROUP
        self._seed, self._offset = 0, 0
        self._dtypes = [parameter.dtype for parameter in parameters]
        self._shapes = [parameter.shape for parameter in parameters]
        self._devices = [parameter.device for parameter in parameters]
        self._versions: list[tuple[int, int]] = []
        self.torn = False
        """Whether a pass failed, so that some weights have moved and others have not."""

    def require_ready(self) -> None:
        """Refuse weights that a pass could not treat, before any of them moves.

        Exact weights that others have changed are rounded to their lattice again: a pass from theta
        takes them for points of it. Changes of values through ``.data`` or NumPy are not seen; such
        weights come back to a lattice point at most one spacing from their value.

        Raises:
            UsageError: a weight has another number format or shape than at construction, is no
                longer contiguous or trained, or has moved where the noise does not support it.
            ReproError: a pass failed earlier.
        """
        if self.torn:
            raise ReproError(TORN)
        made = zip(self.parameters, self._dtypes, self._shapes, strict=True)
        for parameter, dtype, shape in made:
            if parameter.shape != shape:
                raise UsageError(
                    f"a parameter of shape {tuple(shape)} has the shape {tuple(parameter.shape)} "
                    "since the optimizer was made: resize the model first, then make the optimizer"
                )
            if not parameter.requires_grad:
                raise UsageError(
                    f"a parameter of shape {tuple(parameter.shape)} was frozen after the optimizer "
                    "was made: make a new optimizer, which leaves it out"
                )
            if parameter.dtype != dtype or not parameter.is_contiguous():
                how = parameter.dtype if parameter.dtype != dtype else "no longer contiguous"
                raise UsageError(
                    f"a parameter of shape {tuple(parameter.shape)} was {dtype} and contiguous "
                    f"when the optimizer was made, and is {how}: convert the model first, then "
                    "make the optimizer"
                )
        devices = [parameter.device for parameter in self.parameters]
        if devices != self._devices:
            self.noise.prepare(self.parameters, exact=self.exact)
            self._devices = devices
        if self.exact and self._versions != self._present_versions():
            self.prepare()

    @torch.no_grad()
    def prepare(self) -> None:
        """Check the weights; if exact, round them to the nearest point of their lattice.

        Raises:
            UsageError: the noise does not support these weights; or they are exact, and their
                number format has no wider one or eps is too small for it.
        """
        self.noise.prepare(self.parameters, exact=self.exact)
        if not self.exact:
            return
        lattices = {dtype: Lattice(dtype, self.eps) for dtype in {p.dtype for p in self.parameters}}
        for parameter in self.parameters:
            lattice = lattices[parameter.dtype]
            for weights in split(parameter, self.chunk or default_chunk(parameter.device)):
                # ties go down, as they did in the runs whose logs are replayed
                weights.copy_(lattice.round_up_above(weights.to(lattice.wide), 0.5))
        self._versions = self._present_versions()

    def _present_versions(self) -> list[tuple[int, int]]:
        """Return how often each weight has been changed, and the identity of its memory."""
        return [(p._version, p.untyped_storage()._cdata) for p in self.parameters]

    def perturb(self, seed: int, offset: int) -> None:
        """Move to theta + ``offset`` eps z(``seed``), via theta if another z was added."""
        if self._offset and seed != self._seed:
            self.restore()
        with self._whole():
            if self.exact:
                self._step_on_lattice(seed, offset, is_update=False)
            else:
                self._add(seed, (offset - self._offset) * self.eps)
        self._seed, self._offset = seed, offset

    def restore(self) -> None:
        """Move back to theta, unless a failed pass has made this impossible."""
        if self._offset and not self.torn:
            self.perturb(self._seed, 0)

    def update(self, rates: Sequence[tuple[int, float]], decay: float = 0.0) -> None:
        """Move to (1 - ``decay``) theta minus the sum of ``rate`` z(``seed``) over all pairs.

        The first pass also restores, so it must have the seed of the last perturbation. The decay
        comes last, so the rates are divided by 1 - ``decay`` first.
        """
        factor = 1 - decay
        with self._whole():
            for seed, rate in rates:
                if self.exact:
                    self._step_on_lattice(seed, -rate / factor / self.eps, is_update=True)
                else:
                    self._add(seed, -self._offset * self.eps - rate / factor)
                self._seed, self._offset = seed, 0
            # only now: before the loop the weights may still be perturbed
            if decay:
                self._shrink(factor, self._own(rates[0][0]) + _DECAY)

    def largest_rate(self, decay: float) -> float:
        """Return the largest rate of an ``update``: its factors of z must be float32 numbers.

        Rounded weights must also hold them; exact ones compute in a wider format and are cut.
        """
        formats = {torch.float32, *(() if self.exact else self._dtypes)}
        largest: float = min(torch.finfo(dtype).max for dtype in formats) * (1 - decay)
        return largest * min(1.0, self.eps) if self.exact else largest

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Mark the weights as torn unless the block ends without an error."""
        self.torn = True
        yield
        self.torn = False

    @torch.no_grad()
    def _shrink(self, factor: float, seed: int) -> None:
        """Multiply the weights by ``factor``; exact ones are rounded to their lattice at random."""
        if self.exact:
            self.noise.shrink_on_lattice_(self.parameters, seed, factor, self.eps, self.chunk)
            return
        for parameter in self.parameters:
            parameter.mul_(factor)

    def release(self) -> None:
        """End a step, whose changes are known: free the noise that its passes share."""
        self.noise.release()
        if self.exact:
            self._versions = self._present_versions()

    def _step_on_lattice(self, seed: int, after: float, *, is_update: bool) -> None:
        step = LatticeStep(self.eps, self._offset, after, is_update)
        self.noise.step_on_lattice_(self.parameters, self._own(seed), step, self.chunk)

    def _add(self, seed: int, scale: float) -> None:
        self.noise.add_(self.parameters, self._own(seed), scale)

    def _own(self, seed: int) -> int:
        """Return the seed of this group's part of z."""
        moved = (seed + self._shift) % (1 << 32)
        if not self.noise.subspace_steps:
            return moved
        # the upper 16 bits name the subspace, which a carry from the lower ones would change
        return ((seed >> 16) + (self._shift >> 16) & 0xFFFF) << 16 | moved & 0xFFFF
