"""The MeZO paper's memory formulas, equations (1) to (3), as printed and in other readings.

All functions take numbers or NumPy arrays that broadcast together, and return float64 bytes. With
whole-number sizes every result below 2**53 bytes (9 PB) is exact to the byte, except under
checkpointing, where the square root of L enters.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from repro.core.errors import UsageError
from repro.memory.shape import DecoderShape

Float = NDArray[np.float64]
SizeAxis = Literal["context", "layers", "hidden"]


@dataclass(frozen=True)
class Sizes:
    """Checked sizes as float64 arrays, named as in the paper's Table 1."""

    N: Float
    L: Float
    D: Float
    H: Float
    V: Float
    B: Float
    b: Float


def sizes(
    *,
    context: ArrayLike,
    layers: ArrayLike,
    hidden: ArrayLike,
    heads: ArrayLike,
    vocabulary: ArrayLike,
    batch: ArrayLike = 1,
    bytes_per_parameter: ArrayLike = 2,
) -> Sizes:
    """Check the sizes and return them as arrays.

    Args:
        context: N, tokens per sequence.
        layers: L, decoder blocks.
        hidden: D, hidden dimension; a multiple of ``heads``.
        heads: H, attention heads.
        vocabulary: V, tokens.
        batch: B, sequences.
        bytes_per_parameter: b, any positive number: 4 for fp32, 2 for fp16, 0.5 for 4-bit.

    Raises:
        UsageError: a size is not a whole number of at least 1, b is not finite and positive, or
            H does not divide D.
    """
    checked = Sizes(
        N=_whole("context length N", context),
        L=_whole("layers L", layers),
        D=_whole("hidden dimension D", hidden),
        H=_whole("attention heads H", heads),
        V=_whole("vocabulary V", vocabulary),
        B=_whole("batch size B", batch),
        b=np.asarray(bytes_per_parameter, dtype=np.float64),
    )
    if not np.all(np.isfinite(checked.b) & (checked.b > 0)):
        raise UsageError(
            f"bytes per parameter b = {_show(bytes_per_parameter)}: must be a finite number above 0"
        )
    if np.any(checked.D % checked.H):
        msg = f"heads H = {_show(heads)} do not divide D = {_show(hidden)}: take a multiple of H"
        raise UsageError(msg)
    return checked


def sizes_of(shape: DecoderShape, bytes_per_parameter: ArrayLike, **varied: ArrayLike) -> Sizes:
    """Return the sizes of ``shape``, some of them replaced, as by ``context=np.arange(1, 100)``.

    Raises:
        UsageError: as ``sizes``.
    """
    values: dict[str, ArrayLike] = {**asdict(shape), "bytes_per_parameter": bytes_per_parameter}
    return sizes(**values | varied)


def parameter_count(s: Sizes) -> Float:
    """Return the parameters of the decoder: 12 L D^2 + 2 V D (section 2.1, norms neglected)."""
    return np.asarray(12 * s.L * s.D**2 + 2 * s.V * s.D)


KEPT: dict[str, Callable[[Float], Float]] = {
    "sqrt(L)": np.sqrt,
    "ceil(sqrt(L))": lambda layers: np.ceil(np.sqrt(layers)),
    "floor(sqrt(L))": lambda layers: np.floor(np.sqrt(layers)),
    "round(sqrt(L))": lambda layers: np.rint(np.sqrt(layers)),
}
"""Number of the L layers whose activations checkpointing keeps (section 2.3: sqrt(L))."""


@dataclass(frozen=True)
class Reading:
    """One way to read equations (1) to (3) and the axes of Fig. 3; the defaults are as printed."""

    block_gradients: bool = True
    """Whether BP holds a gradient for each weight of the decoder blocks."""
    embedding_gradients: int = 2
    """Number of gradients BP holds for the two V x D matrices, embedding and output layer."""
    embeddings: int = 2
    """Number of these two matrices counted as weights, in both methods."""
    activations: tuple[bool, bool, bool, bool] = (True, True, True, True)
    """Whether each term of equation (1) is counted: 2, 16 b, 2 b N H / D, N H / D."""
    kept: str = "sqrt(L)"
    """Layers whose activations checkpointing keeps: a key of ``KEPT``."""
    live_layers: int = 1
    """L', the layers of activations that MeZO holds."""
    long_context: int = 32768
    """N at which the gains "for N = 32768" and "for long contexts" are read."""
    shallow: int = 1
    """L at which the gain "when L is small" is read."""
    narrow: int = 512
    """D at which the gains "for smaller D" are read."""

    def weight_bytes(self, s: Sizes) -> Float:
        """Return the bytes of the weights: b (12 L D^2 + 2 V D) as printed."""
        return np.asarray(s.b * (12 * s.L * s.D**2 + self.embeddings * s.V * s.D))

    def layer_bytes(self, s: Sizes) -> Float:
        """Return A / L, the bytes of one layer's activations: equation (1)."""
        two, sixteen, scores, mask = self.activations
        linear = s.D * (2 * two + 16 * s.b * sixteen)
        return np.asarray(s.B * s.N * (linear + s.N * (2 * s.b * scores + mask) * s.H))

    def bp_bytes(self, s: Sizes, *, checkpointing: bool = False) -> Float:
        """Return the bytes of training by backpropagation and stateless SGD: equation (2).

        With ``checkpointing`` the activations of sqrt(L) layers are kept instead of L (section
        2.3).
        """
        blocks = 12 * s.L * s.D**2 * self.block_gradients
        gradients = s.b * (blocks + self.embedding_gradients * s.V * s.D)
        kept = KEPT[self.kept](s.L) if checkpointing else s.L
        return np.asarray(self.weight_bytes(s) + gradients + kept * self.layer_bytes(s))

    def mezo_bytes(self, s: Sizes, live_layers: ArrayLike | None = None) -> Float:
        """Return the bytes of training by MeZO: equation (3), with at most L for L'."""
        live = np.minimum(self.live_layers if live_layers is None else live_layers, s.L)
        return np.asarray(self.weight_bytes(s) + live * self.layer_bytes(s))

    def ratio(
        self, s: Sizes, *, checkpointing: bool = False, live_layers: ArrayLike | None = None
    ) -> Float:
        """Return BP's bytes over MeZO's: equation (2) over (3)."""
        bp = self.bp_bytes(s, checkpointing=checkpointing)
        return np.asarray(bp / self.mezo_bytes(s, live_layers))

    def ratio_limit(
        self,
        s: Sizes,
        axis: SizeAxis,
        *,
        checkpointing: bool = False,
        live_layers: ArrayLike | None = None,
    ) -> Float:
        """Return the limit of ``ratio`` as one size grows without bound, the others fixed."""
        # so large that float64 keeps only the terms of the highest power, and a power of four,
        # whose square root is exact
        grown = {"context": "N", "layers": "L", "hidden": "D"}[axis]
        far = replace(s, **{grown: np.asarray(2.0**200)})
        ratio = self.ratio(far, checkpointing=checkpointing, live_layers=live_layers)
        return np.where(ratio < 2.0**90, ratio, np.inf)


AS_PRINTED = Reading()
"""The equations as the paper prints them."""


def effective_layers(s: Sizes, peak_bytes: ArrayLike, resident_bytes: ArrayLike) -> Float:
    """Return the L' for which (3) gives an observed peak: (M - weights) / (A / L).

    Args:
        s: the sizes.
        peak_bytes: M, an observed or simulated peak.
        resident_bytes: bytes of the weights. With weights and gradients the result is the number of
            layers of activations in (2), negative if the peak comes before all gradients exist.
    """
    above = np.asarray(peak_bytes, dtype=np.float64) - np.asarray(resident_bytes, dtype=np.float64)
    return np.asarray(above / AS_PRINTED.layer_bytes(s))


def _whole(name: str, value: ArrayLike) -> Float:
    array = np.asarray(value, dtype=np.float64)
    valid = np.isfinite(array) & (array >= 1) & (array == np.floor(array))
    if not np.all(valid):
        wrong = _show(array[~valid] if array.ndim else value)
        raise UsageError(f"{name} = {wrong}: must be a finite whole number of at least 1")
    return array


def _show(value: ArrayLike) -> str:
    """Return the numbers as text, of a long array the first three."""
    array = np.asarray(value)
    if array.size <= 3:
        return str(array.tolist())
    first = ", ".join(map(str, array.ravel()[:3].tolist()))
    return f"[{first}, ...] ({array.size} numbers)"
