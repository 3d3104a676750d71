"""The Triton kernels of ``repro.methods.philox``: one for rounded, one for exact weights."""

import os
from typing import Any

import triton
import triton.language as tl

from repro.methods.lattice import Lattice
from repro.methods.philox import GROUP, GROUPS

_COUNTERS = tl.constexpr(GROUP // 4)
"""Counters of a group; each gives four numbers."""
_GROUPS = tl.constexpr(GROUPS)
"""Groups that one program processes."""
_ROUND_0, _ROUND_1 = tl.constexpr(0xD2511F53), tl.constexpr(0xCD9E8D57)
_KEY_0, _KEY_1 = tl.constexpr(0x9E3779B9), tl.constexpr(0xBB67AE85)
_WARPS = 4


def is_interpreted() -> bool:
    """Return whether Triton's interpreter runs the kernels on the host, as in the tests."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def add(table: Any, seed: int, scale: float) -> None:
    """Add ``scale`` z(``seed``) to the weights; each sum is rounded to their number format."""
    _add[(table.programs,)](*table.arguments, _signed(seed), scale, num_warps=_WARPS)


def step_on_lattice(
    table: Any,
    seed: int,
    lattice: Lattice,
    before: float,
    after: float,
    *,
    is_update: bool,
) -> None:
    """Go from theta + ``before`` eps z to theta + ``after`` eps z in the lattice's arithmetic.

    An update ends between lattice points and is rounded to one of the two at random.
    """
    _step_on_lattice[(table.programs,)](
        *table.arguments,
        _signed(seed),
        before,
        after,
        lattice.eps / lattice.step,
        lattice.levels,
        lattice.step,
        lattice.ulp,
        lattice.bound,
        IS_UPDATE=is_update,
        num_warps=_WARPS,
    )


def _signed(seed: int) -> int:
    """Return the signed number with the same 32 bits, so that Triton compiles for one type only."""
    return seed - ((seed & 0x80000000) << 1)


_UNSPECIALISED = ["seed", "scale", "before", "after"]  # else each new kind of value is compiled


@triton.jit(do_not_specialize=_UNSPECIALISED)
def _add(
    pointers,
    sizes,
    numbers,
    slots,
    blocks,
    FORMAT: tl.constexpr,
    seed,
    scale,
):
    slot = tl.load(slots + tl.program_id(0))
    weights = tl.load(pointers + slot).to(tl.pointer_type(FORMAT))
    size, number = tl.load(sizes + slot), tl.load(numbers + slot)
    block = tl.load(blocks + tl.program_id(0))
    for part in range(_GROUPS):
        group = block * _GROUPS + part
        z0, z1, z2, z3 = _normals(seed, group, number)
        at = group.to(tl.int64) * (4 * _COUNTERS) + tl.arange(0, _COUNTERS)
        _add_quarter(weights, at, size, z0 * scale, FORMAT)
        _add_quarter(weights, at + _COUNTERS, size, z1 * scale, FORMAT)
        _add_quarter(weights, at + 2 * _COUNTERS, size, z2 * scale, FORMAT)
        _add_quarter(weights, at + 3 * _COUNTERS, size, z3 * scale, FORMAT)


@triton.jit
def _add_quarter(weights, at, size, change, FORMAT: tl.constexpr):
    inside = at < size
    old = tl.load(weights + at, mask=inside)
    tl.store(weights + at, (old.to(tl.float32) + change).to(FORMAT), mask=inside)


@triton.jit(do_not_specialize=_UNSPECIALISED)
def _step_on_lattice(
    pointers,
    sizes,
    numbers,
    slots,
    blocks,
    FORMAT: tl.constexpr,
    seed,
    before,
    after,
    per_level,
    levels,
    level,
    ulp,
    bound,
    IS_UPDATE: tl.constexpr,
):
    slot = tl.load(slots + tl.program_id(0))
    weights = tl.load(pointers + slot).to(tl.pointer_type(FORMAT))
    size, number = tl.load(sizes + slot), tl.load(numbers + slot)
    block = tl.load(blocks + tl.program_id(0))
    for part in range(_GROUPS):
        group = block * _GROUPS + part
        z0, z1, z2, z3 = _normals(seed, group, number)
        u0, u1, u2, u3 = z0, z1, z2, z3  # unused, but the loop below needs the names
        if IS_UPDATE:
            u0, u1, u2, u3 = _uniforms(seed, group, number)
        at = group.to(tl.int64) * (4 * _COUNTERS) + tl.arange(0, _COUNTERS)
        for quarter in tl.static_range(4):
            z = z0 if quarter == 0 else z1 if quarter == 1 else z2 if quarter == 2 else z3
            u = u0 if quarter == 0 else u1 if quarter == 1 else u2 if quarter == 2 else u3
            here = at + quarter * _COUNTERS
            inside = here < size
            old = tl.load(weights + here, mask=inside, other=0.0).to(tl.float32)
            # exact, since `level` is a power of two
            noise = tl.floor(z * per_level)
            noise = (tl.minimum(tl.maximum(noise, -levels), levels - 1) + 0.5) * level
            theta = _round(old - before * noise, 0.5, ulp, bound)
            new = theta + after * noise
            if IS_UPDATE:
                new = _round(new, u, ulp, bound)
            tl.store(weights + here, new.to(FORMAT), mask=inside)


@triton.jit
def _round(x, threshold, ulp, bound):
    """Round like ``Lattice.round_up_above``; one half rounds to the nearest if none is a tie.

    All divisors are powers of two.
    """
    size = tl.abs(x)
    room = tl.maximum(_power_of_two(size) * (2 * ulp), bound)
    spacing = _power_of_two(size + room) * ulp
    steps = tl.div_rn(x, spacing)
    below = tl.floor(steps)
    return (below + tl.where(steps - below > threshold, 1.0, 0.0)) * spacing


@triton.jit
def _power_of_two(x):
    exponent = x.to(tl.int32, bitcast=True) & 0x7F800000
    return exponent.to(tl.float32, bitcast=True)


@triton.jit
def _normals(seed, group, number):
    """Return the four blocks of noise of a group, [1024] each, by two Box-Muller transforms."""
    a, b, c, d = _philox(seed, group, number, 0)
    r0, t0 = _radius(a), _angle(b)
    r1, t1 = _radius(c), _angle(d)
    return r0 * tl.cos(t0), r0 * tl.sin(t0), r1 * tl.cos(t1), r1 * tl.sin(t1)


@triton.jit
def _radius(bits):
    uniform = bits.to(tl.float32) * 2.3283064365386963e-10 + 1.1641532182693481e-10  # (0, 1]
    return tl.sqrt(-2.0 * tl.log(uniform))


@triton.jit
def _angle(bits):
    return bits.to(tl.float32) * 1.4629180792671596e-09  # 2 pi / 2^32


@triton.jit
def _uniforms(seed, group, number):
    """Return four blocks of multiples of 2^-24 in [0, 1)."""
    a, b, c, d = _philox(seed, group, number, 1)
    return _fraction(a), _fraction(b), _fraction(c), _fraction(d)


@triton.jit
def _fraction(bits):
    return (bits >> 8).to(tl.float32) * 5.960464477539063e-08


@triton.jit
def _philox(seed, group, number, stream: tl.constexpr):
    c0 = (group * _COUNTERS + tl.arange(0, _COUNTERS)).to(tl.uint32)
    c3 = c0 * 0
    c1, c2 = c3 + number.to(tl.uint32), c3 + stream
    k0, k1 = c3 + seed.to(tl.uint32), c3
    for _ in tl.static_range(10):
        high0, low0 = tl.umulhi(c0, _ROUND_0), c0 * _ROUND_0
        high1, low1 = tl.umulhi(c2, _ROUND_1), c2 * _ROUND_1
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + _KEY_0, k1 + _KEY_1
    return c0, c1, c2, c3
