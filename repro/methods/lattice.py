"""Keep weights on a lattice so coarse that a perturbed weight identifies the original.

Rounding loses bits when a perturbation lifts a weight into a coarser binade, so no arithmetic in
the weights' own format restores every weight. It does restore every weight of a lattice without the
bits that a perturbation can lose: w is the lattice point nearest to fl(w + d) - d, if rounding
moved w + d by less than half the lattice's spacing.

With p significant bits, noise within +-M, and ulp(x) the spacing of the format at x:

- the spacing at x is ulp(|x| + max(M, 2 ulp(x))), never less than ulp(w + d): small weights are
  multiples of ulp(M), and a weight loses its last bit only just below a power of two;
- noise is rounded to odd multiples of ulp(M) / 4, so that w + d is never a tie of the format;
- sums are computed in the next wider format, where they are exact.

The perturbed weight is then off by less than half a spacing, which suffices. The tests check every
bfloat16 weight with every level of noise.
"""

import math

import torch

from repro.core.errors import UsageError

_WIDER = {
    torch.bfloat16: torch.float32,
    torch.float16: torch.float32,
    torch.float32: torch.float64,
}
_EXPONENT = {
    torch.float32: (torch.int32, 0x7F80_0000),
    torch.float64: (torch.int64, 0x7FF0_0000_0000_0000),
}
_DEVIATIONS = 4
"""M covers at least this many standard deviations of noise, and the rest is clipped: of Gaussian
noise at most 6e-5 of the numbers, of LOZO's with r = 2 at most 0.4 %."""


class Lattice:
    """The weights of one number format with exact restores from perturbations of scale eps.

    All arithmetic is on tensors of the next ``wide`` format.
    """

    def __init__(self, dtype: torch.dtype, eps: float) -> None:
        """Take the weights' number format and the scale of the perturbation.

        Raises:
            UsageError: there is no wider format, or eps is too small for the format.
        """
        if dtype not in _WIDER:
            names = ", ".join(str(known).removeprefix("torch.") for known in _WIDER)
            raise UsageError(
                f"restore = 'exact' with parameters of {dtype}: must be one of {names}; or give "
                "restore='rounded'"
            )
        self.dtype = dtype
        self.wide = _WIDER[dtype]
        self.ulp = torch.finfo(dtype).eps
        """Spacing of the format at 1, 2^(1 - p)."""
        # a power of two, so that multiplying by the step between noise levels is exact
        self.bound = 2.0 ** math.ceil(math.log2(_DEVIATIONS * eps))
        """M, the largest magnitude of noise."""
        self.eps = eps
        # a spacing is one of the format, and has an inverse in the wider one
        smallest = max(torch.finfo(dtype).tiny * self.ulp, torch.finfo(self.wide).tiny)
        if self.bound * self.ulp < smallest:
            least = smallest / self.ulp / _DEVIATIONS / 2  # M is the next power of two
            msg = f"eps = {eps!r} with {dtype}: restore = 'exact' needs more than {least:.1e}"
            raise UsageError(msg)

    @property
    def digits(self) -> int:
        """Number of significant bits, p."""
        return 1 - int(math.log2(self.ulp))

    @property
    def levels(self) -> float:
        """Number of noise levels above 0, and below."""
        return 2 / self.ulp

    @property
    def step(self) -> float:
        """Distance between the levels of noise."""
        return self.bound / self.levels

    def noise(self, normal: torch.Tensor) -> torch.Tensor:
        """Return eps times ``normal``, rounded to the levels of noise; p + 1 bits hold them."""
        scaled = normal.to(self.wide).mul(self.eps / self.step).floor_()
        return scaled.clamp_(-self.levels, self.levels - 1).add_(0.5).mul_(self.step)

    def theta(self, weights: torch.Tensor, noise: torch.Tensor, before: int) -> torch.Tensor:
        """Return the lattice points that ``before`` times ``noise`` moved to ``weights``."""
        return self.round(weights.to(self.wide).add_(noise, alpha=-before))

    def round(self, x: torch.Tensor) -> torch.Tensor:
        """Return the lattice point nearest to ``x``, of two the even multiple of the spacing.

        Args:
            x: values of the ``wide`` format, of magnitude up to 1e30, for larger ones overflow.
        """
        # 3/2 2^(p - 1) spacings, p of the wide format: the last bit of a sum is a spacing
        large = self.spacing(x).mul_(1.5 / torch.finfo(self.wide).eps)
        return x.add(large).sub_(large)

    def round_up_above(self, x: torch.Tensor, fraction: torch.Tensor | float) -> torch.Tensor:
        """Return one of the lattice points around ``x``.

        Args:
            x: values of the ``wide`` format.
            fraction: if ``x`` lies further above the lower point than this fraction of the spacing,
                it is rounded up. Random numbers in [0, 1) make this stochastic rounding, whose mean
                is ``x``.
        """
        spacing = self.spacing(x)
        steps = x.div(spacing)
        below = steps.floor()
        return below.add_(steps.sub_(below).gt_(fraction)).mul_(spacing)

    def spacing(self, x: torch.Tensor) -> torch.Tensor:
        """Return the distance between the lattice points around ``x``."""
        size = x.abs()
        room = _power_of_two(size).mul_(2 * self.ulp).clamp_(min=self.bound)
        return _power_of_two(size.add_(room)).mul_(self.ulp)


def _power_of_two(x: torch.Tensor) -> torch.Tensor:
    """Return the largest power of two up to each of the numbers ``x`` >= 0, or 0."""
    integer, mask = _EXPONENT[x.dtype]
    return x.view(integer).bitwise_and(mask).view(x.dtype)
