"""The MeZO paper's memory formulas, equations (1)-(3).

All functions take numbers or NumPy arrays that broadcast together, and return float64 bytes. With
whole-number sizes every result below 2**53 bytes (9 PB) is exact to the byte, except under
checkpointing, where the square root of L enters.
"""

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


def weight_bytes(s: Sizes) -> Float:
    """Return the bytes of the parameters: b (12 L D^2 + 2 V D)."""
    return np.asarray(s.b * parameter_count(s))


def activation_bytes(s: Sizes) -> Float:
    """Return A, the bytes of all activations: equation (1)."""
    return np.asarray(_layer_bytes(s) * s.L)


def bp_bytes(s: Sizes, *, checkpointing: bool = False) -> Float:
    """Return the bytes of training by backpropagation and stateless SGD: equation (2).

    With ``checkpointing`` the activations of sqrt(L) layers are kept instead of L (section 2.3).
    """
    kept = np.sqrt(s.L) if checkpointing else s.L
    return np.asarray(2 * weight_bytes(s) + _layer_bytes(s) * kept)


def mezo_bytes(s: Sizes, *, live_layers: ArrayLike = 1) -> Float:
    """Return the bytes of training by MeZO: equation (3).

    Args:
        s: the sizes.
        live_layers: L', layers whose activations are alive at once; from 0 to L, any real number.

    Raises:
        UsageError: L' is negative, above L or not finite.
    """
    live = np.asarray(live_layers, dtype=np.float64)
    if not np.all(np.isfinite(live)) or np.any(live < 0) or np.any(live > s.L):
        msg = f"live layers L' = {_show(live_layers)}: must lie between 0 and L = {_show(s.L)}"
        raise UsageError(msg)
    return np.asarray(weight_bytes(s) + _layer_bytes(s) * live)


def ratio_limit(
    s: Sizes, axis: SizeAxis, *, checkpointing: bool = False, live_layers: ArrayLike = 1
) -> Float:
    """Return the limit of equation (2) over (3) as one size grows without bound.

    The other sizes are fixed. The value of the growing size in ``s`` does not matter.
    """
    # so large that float64 keeps only the terms of the highest power, and a power of four, whose
    # square root is exact
    grown = {"context": "N", "layers": "L", "hidden": "D"}[axis]
    far = replace(s, **{grown: np.asarray(2.0**200)})
    ratio = bp_bytes(far, checkpointing=checkpointing) / mezo_bytes(far, live_layers=live_layers)
    return np.where(ratio < 2.0**90, ratio, np.inf)


def effective_layers(s: Sizes, peak_bytes: ArrayLike, resident_bytes: ArrayLike) -> Float:
    """Return the L' for which (3) gives an observed peak: (M - weights) / (A / L).

    Args:
        s: the sizes.
        peak_bytes: M, an observed or simulated peak.
        resident_bytes: bytes of the weights. With weights and gradients the result is the number of
            layers of activations in (2), negative if the peak comes before all gradients exist.
    """
    above = np.asarray(peak_bytes, dtype=np.float64) - np.asarray(resident_bytes, dtype=np.float64)
    return np.asarray(above / _layer_bytes(s))


def _layer_bytes(s: Sizes) -> Float:
    """Return A / L, the bytes of a layer's activations: equation (1)."""
    return np.asarray(s.B * s.N * (s.D * (2 + 16 * s.b) + s.N * (2 * s.b + 1) * s.H))


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
