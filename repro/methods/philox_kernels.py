"""The Triton kernels of ``repro.methods.philox``: one for rounded, one for exact weights.

Every operation is one of IEEE 754 and rounds once; the compiler is told not to fuse others. So the
noise has the same bits on every GPU.
"""

import os
from typing import Any

import torch
import triton
import triton.language as tl

from repro.methods.lattice import Lattice
from repro.methods.philox import BLOCK

_ROWS = tl.constexpr(128)
"""Counters that a program uses at a time; each gives noise for a row of eight weights."""
_TILES = tl.constexpr(BLOCK // (8 * 128))
"""Tiles of eight weights for each counter that a program treats one after the other."""
_ROUND_0, _ROUND_1 = tl.constexpr(0xD2511F53), tl.constexpr(0xCD9E8D57)
_KEY_0, _KEY_1 = tl.constexpr(0x9E3779B9), tl.constexpr(0xBB67AE85)
_OPTIONS = {"num_warps": 4, "enable_fp_fusion": False}


def is_interpreted() -> bool:
    """Return whether Triton's interpreter runs the kernels on the host, as in the tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def add(table: Any, seed: int, scale: float, *, signs: bool) -> None:
    """Add ``scale`` z(``seed``) to the weights; each sum is rounded to their number format."""
    with torch.cuda.device_of(table.pointers):  # Triton launches on the current one
        _add[(table.programs,)](*table.arguments, _signed(seed), scale, SIGNS=signs, **_OPTIONS)


def step_on_lattice(
    table: Any,
    seed: int,
    lattice: Lattice,
    *,
    before: float,
    after: float,
    factor: float,
    is_update: bool,
    signs: bool,
) -> None:
    """Go from theta + ``before`` eps z to theta + ``after`` eps z in the lattice's arithmetic.

    An update also multiplies theta by ``factor``. It ends between lattice points and is rounded to
    one of the two at random.
    """
    with torch.cuda.device_of(table.pointers):
        _step_on_lattice[(table.programs,)](
            *table.arguments,
            _signed(seed),
            float(before),
            float(after),
            float(factor),
            lattice.eps / lattice.step,
            lattice.levels,
            lattice.step,
            lattice.ulp,
            lattice.bound,
            IS_UPDATE=is_update,
            SIGNS=signs,
            **_OPTIONS,
        )


def _signed(seed: int) -> int:
    """Return the signed number with the same 32 bits, so that Triton compiles for one type only."""
    return seed - ((seed & 0x80000000) << 1)


# else each new kind of value is compiled
_UNSPECIALISED = ["seed", "scale", "before", "after", "factor"]


@triton.jit(do_not_specialize=_UNSPECIALISED)
def _add(
    pointers,
    sizes,
    numbers,
    slots,
    blocks,
    FORMAT: tl.constexpr,
    ALIGNED: tl.constexpr,
    seed,
    scale,
    SIGNS: tl.constexpr,
):
    weights, size, number = _tensor(pointers, sizes, numbers, slots, FORMAT, ALIGNED)
    block = tl.load(blocks + tl.program_id(0))
    for tile in range(_tiles(size, block)):
        z = _noise(seed, block, tile, number, SIGNS)
        at = _places(block, tile)
        inside = at < size
        old = tl.load(weights + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(weights + at, tl.fma(z, scale, old).to(FORMAT), mask=inside)


@triton.jit(do_not_specialize=_UNSPECIALISED)
def _step_on_lattice(
    pointers,
    sizes,
    numbers,
    slots,
    blocks,
    FORMAT: tl.constexpr,
    ALIGNED: tl.constexpr,
    seed,
    before,
    after,
    factor,
    per_level,
    levels,
    level,
    ulp,
    bound,
    IS_UPDATE: tl.constexpr,
    SIGNS: tl.constexpr,
):
    weights, size, number = _tensor(pointers, sizes, numbers, slots, FORMAT, ALIGNED)
    block = tl.load(blocks + tl.program_id(0))
    for tile in range(_tiles(size, block)):
        # exact, since `level` is a power of two
        noise = tl.floor(_noise(seed, block, tile, number, SIGNS) * per_level)
        noise = (tl.minimum(tl.maximum(noise, -levels), levels - 1) + 0.5) * level
        at = _places(block, tile)
        inside = at < size
        old = tl.load(weights + at, mask=inside, other=0.0).to(tl.float32)
        theta = _nearest(tl.fma(noise, -before, old), ulp, bound)
        if IS_UPDATE:
            theta *= factor
        new = tl.fma(noise, after, theta)
        if IS_UPDATE:
            fraction = _uniform(seed, block, tile, number)
            new = _round_up_above(new, fraction, ulp, bound)
        tl.store(weights + at, new.to(FORMAT), mask=inside)


@triton.jit
def _tensor(pointers, sizes, numbers, slots, FORMAT: tl.constexpr, ALIGNED: tl.constexpr):
    """Return the first weight's address, the size and the number of the program's tensor."""
    slot = tl.load(slots + tl.program_id(0))
    weights = tl.load(pointers + slot).to(tl.pointer_type(FORMAT))
    size, number = tl.load(sizes + slot), tl.load(numbers + slot)
    if ALIGNED:  # then a row is loaded and stored at once
        weights, size = tl.multiple_of(weights, 16), tl.multiple_of(size, 16)
    return weights, size, number


@triton.jit
def _tiles(size, block):
    """Return the number of the block's tiles that hold weights."""
    left = size - block.to(tl.int64) * (8 * _ROWS * _TILES)
    return tl.minimum((left + 8 * _ROWS - 1) // (8 * _ROWS), _TILES).to(tl.int32)


@triton.jit
def _places(block, tile):
    """Return the indices of a tile's weights in their tensor, [rows, 8]."""
    first = block.to(tl.int64) * (8 * _ROWS * _TILES) + tile * (8 * _ROWS)
    return first + tl.arange(0, _ROWS)[:, None] * 8 + tl.arange(0, 8)[None, :]


@triton.jit
def _nearest(x, ulp, bound):
    """Round like ``Lattice.round``, by adding a number whose last bit is a spacing."""
    large = _spacing(x, ulp, bound) * 12582912.0  # 3/2 2^23
    return (x + large) - large


@triton.jit
def _round_up_above(x, fraction, ulp, bound):
    """Round like ``Lattice.round_up_above``."""
    spacing = _spacing(x, ulp, bound)
    inverse = (0x7F000000 - spacing.to(tl.int32, bitcast=True)).to(tl.float32, bitcast=True)
    steps = x * inverse
    below = tl.floor(steps)
    return (below + tl.where(steps - below > fraction, 1.0, 0.0)) * spacing


@triton.jit
def _spacing(x, ulp, bound):
    """Return the distance between the lattice points around ``x``, a power of two."""
    size = tl.abs(x)
    room = tl.maximum(_power_of_two(size) * (2 * ulp), bound)
    return _power_of_two(size + room) * ulp


@triton.jit
def _power_of_two(x):
    exponent = x.to(tl.int32, bitcast=True) & 0x7F800000
    return exponent.to(tl.float32, bitcast=True)


@triton.jit
def _noise(seed, block, tile, number, SIGNS: tl.constexpr):
    """Return the noise of a tile, [rows, 8]."""
    if SIGNS:
        counter = block * _ROWS + tl.arange(0, _ROWS)
        w0, w1, w2, w3 = _philox(seed, counter, number, 0)
        word = tl.where(tile < 8, tl.where(tile < 4, w0, w1), tl.where(tile < 12, w2, w3))
        bit = (word[:, None] >> (tile % 4 * 8 + tl.arange(0, 8)[None, :])) & 1
        # below 1, so that a lattice with eps between two levels rounds both signs alike
        return tl.where(bit == 1, -0.99999994, 0.99999994)
    return _gaussian(_words(seed, block, tile, number, 0))


@triton.jit
def _uniform(seed, block, tile, number):
    """Return odd multiples of 2^-17 in (0, 1), [rows, 8]; they cut the unit interval evenly."""
    bits = _words(seed, block, tile, number, 1) >> (tl.arange(0, 8)[None, :] % 2 * 16)
    return tl.fma((bits & 0xFFFF).to(tl.float32), 1.52587890625e-05, 7.62939453125e-06)


@triton.jit
def _gaussian(word):
    """Return normal numbers from 32 random bits each, which columns 2 k and 2 k + 1 share.

    By Box and Muller the two are r cos and r sin of one angle; r has 20 bits, the angle 12.
    """
    # of the angle: two signs, and x, its distance from the middle of a quadrant
    x = tl.fma(((word >> 2) & 1023).to(tl.float32), 0.0015339808, -0.7846311)
    square = x * x
    sine = tl.fma(square, -0.00019504022, 0.008332036)
    sine = tl.fma(tl.fma(square, sine, -0.1666665), square * x, x)
    cosine = tl.fma(square, -0.0013585908, 0.041655026)
    cosine = tl.fma(square, tl.fma(square, cosine, -0.49999857), 1.0)
    odd = tl.arange(0, 8)[None, :] % 2
    part = cosine + tl.where(odd == 1, sine, -sine)  # sqrt(2) cos or sin of pi / 4 + x
    sign = (word >> odd) << 31
    size = tl.sqrt_rn(_minus_log(word >> 12)) * part
    return (size.to(tl.uint32, bitcast=True) ^ sign).to(tl.float32, bitcast=True)


@triton.jit
def _minus_log(bits):
    """Return -ln((bits + 1/2) / 2^20) of numbers below 2^20, with a relative error below 3e-7."""
    odd = (2 * bits + 1).to(tl.float32).to(tl.int32, bitcast=True)
    exponent = (odd - 0x3F3504F3) >> 23  # the rest is in [sqrt(1/2), sqrt(2))
    t = (odd - (exponent << 23)).to(tl.float32, bitcast=True) - 1
    p = tl.fma(t, -0.10378194, 0.16337937)
    p = tl.fma(t, p, -0.17212506)
    p = tl.fma(t, p, 0.19884264)
    p = tl.fma(t, p, -0.24971557)
    p = tl.fma(t, p, 0.33335608)
    p = tl.fma(t, p, -0.50000346)
    p = tl.fma(t, p, 0.99999994)
    return tl.fma((21 - exponent).to(tl.float32), 0.6931472, -t * p)


@triton.jit
def _words(seed, block, tile, number, stream: tl.constexpr):
    """Return a tile's random bits, [rows, 8]; columns 2 k and 2 k + 1 share output k."""
    counter = (block * _TILES + tile) * _ROWS + tl.arange(0, _ROWS)
    w0, w1, w2, w3 = _philox(seed, counter, number, stream)
    pair = tl.arange(0, 8)[None, :] // 2
    low = tl.where(pair == 0, w0[:, None], w1[:, None])
    high = tl.where(pair == 2, w2[:, None], w3[:, None])
    return tl.where(pair < 2, low, high)


@triton.jit
def _philox(seed, counter, number, stream: tl.constexpr):
    c0 = counter.to(tl.uint32)
    c3 = c0 * 0
    c1, c2 = c3 + number.to(tl.uint32), c3 + stream
    k0, k1 = c3 + seed.to(tl.uint32), c3
    for _ in tl.static_range(10):
        high0, low0 = tl.umulhi(c0, _ROUND_0), c0 * _ROUND_0
        high1, low1 = tl.umulhi(c2, _ROUND_1), c2 * _ROUND_1
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + _KEY_0, k1 + _KEY_1
    return c0, c1, c2, c3
