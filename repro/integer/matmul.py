"""Exact products of int8 matrices.

A product of two int8 numbers is at most 2^14 in magnitude (-128 does occur, since a plain cast of
+128 wraps to it), and a sum of K products at most 2^14 K. Sums that could exceed ``INT32_LIMIT``
are computed in blocks and added in int64.

``torch._int_mm`` is fastest, but it is not exact everywhere: on x86 without VNNI, oneDNN adds pairs
of products with silent 16-bit saturation. Each device is therefore tested once, and uses the first
way that multiplies the most demanding small matrices exactly.
"""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import pad

from repro.core.errors import ReproError, UsageError

LARGEST_PRODUCT = 128 * 128
INT32_LIMIT = (1 << 31) - 2
"""Largest magnitude of an int32 accumulator; rounding adds at most 1."""
BLOCK = INT32_LIMIT // LARGEST_PRODUCT
"""Longest sum (K) that stays in int32: 131,071 products."""

Path = Callable[[Tensor, Tensor, Tensor], Tensor]


def matmul(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Return the exact matrix product of int8 [M, K] and int8 [K, N].

    Args:
        a: the first factor.
        b: the second factor.
        out: where to put the product; by default a new tensor.

    Returns:
        [M, N]: int32 if K <= ``BLOCK``, else int64.

    Raises:
        UsageError: the types are not int8, or the shapes do not match.
    """
    if a.dtype != torch.int8 or b.dtype != torch.int8:
        raise UsageError(f"matmul of {a.dtype} and {b.dtype}: both must be torch.int8")
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        msg = f"matmul of {tuple(a.shape)} and {tuple(b.shape)}: must be [M, K] and [K, N]"
        raise UsageError(msg)
    multiply = fastest_exact(a.device)
    wide = a.shape[1] > BLOCK
    if out is None:
        dtype = torch.int64 if wide else torch.int32
        out = torch.empty(a.shape[0], b.shape[1], dtype=dtype, device=a.device)
    if not wide:
        return multiply(a, b, out)
    part = torch.empty(out.shape, dtype=torch.int32, device=a.device)
    out.zero_()
    for left, right in zip(torch.split(a, BLOCK, dim=1), torch.split(b, BLOCK), strict=True):
        out += multiply(left, right, part)
    return out


def by_int_mm(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    """Multiply by ``torch._int_mm``; on CUDA, sizes are padded with zeros to supported ones."""
    if a.device.type != "cuda":
        return torch._int_mm(a, b, out=out)
    (m, k), n = a.shape, b.shape[1]
    # CUDA refuses up to 16 rows, and other sizes that are no multiples of 8
    rows, inner, columns = max(-m % 8, 24 - m), -k % 8, -n % 8
    # cuBLAS refuses some sizes if the second factor lies row by row
    transposed = pad(b.t(), (0, inner, 0, columns)).contiguous()
    product = torch._int_mm(pad(a, (0, inner, 0, rows)), transposed.t())
    return out.copy_(product[:m, :n])


def by_int32(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    """Multiply in int32 by PyTorch's own loops, which exist on the host but not on CUDA."""
    return torch.mm(a.to(torch.int32), b.to(torch.int32), out=out)


def by_products(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    """Add up K outer products in int32: slow, but possible wherever int32 is supported."""
    out.zero_()
    for column, row in zip(a.to(torch.int32).unbind(1), b.to(torch.int32).unbind(0), strict=True):
        out.addcmul_(column.unsqueeze(1), row.unsqueeze(0))
    return out


PATHS: tuple[Path, ...] = (by_int_mm, by_int32, by_products)
"""The ways to multiply into a given int32 [M, N], fastest first."""


@lru_cache
def fastest_exact(device: torch.device) -> Path:
    """Return the first exact path of ``PATHS`` on ``device``.

    Raises:
        ReproError: no path is exact.
    """
    for path in PATHS:
        if is_exact(path, device):
            return path
    raise ReproError(f"no exact integer matrix product on {device}: train on the CPU or on CUDA")


def is_exact(path: Path, device: torch.device) -> bool:
    """Return whether ``path`` multiplies the extremes of the int8 range exactly on ``device``.

    The shapes occur in a convolution, its weight gradient (with a transposed operand) and a
    matrix-vector product, since a library may use another kernel for each.
    """
    # float32 sums, which are no longer exact from 2^24 on, show in the longest product
    for m, k, n in (
        (6, 25, 512),
        (25, 512, 6),
        (16, 150, 96),
        (10, 84, 1),
        (1, 100, 3),
        (2, 4096, 2),
    ):
        for left, right in ((127, 127), (-128, -128), (-128, 127), (127, -128)):
            a = torch.full((m, k), left, dtype=torch.int8, device=device)
            b = torch.full((n, k), right, dtype=torch.int8, device=device)
            a[:, ::3], b[:, ::5] = 101, -77
            expected = (a.to(torch.int32).unsqueeze(1) * b.to(torch.int32)).sum(2)
            product = torch.empty(m, n, dtype=torch.int32, device=device)
            for factor in (b.t(), b.t().contiguous()):
                try:
                    path(a, factor, product)
                except (RuntimeError, NotImplementedError):
                    return False
                if not torch.equal(product.long(), expected):
                    return False
    return True
