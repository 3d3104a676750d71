"""Integer matrix products are exact on every path, or the path is not taken."""

import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from repro.core.errors import ReproError, UsageError
from repro.integer import matmul as module
from repro.integer.matmul import (
    BLOCK,
    INT32_LIMIT,
    PATHS,
    Path,
    by_int_mm,
    by_products,
    fastest_exact,
    is_exact,
    matmul,
)

CPU = torch.device("cpu")
sizes = st.integers(1, 40)


def int8(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-128, 128, shape, generator=generator).to(torch.int8)


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.long() @ b.long()


EXACT = [path for path in PATHS if is_exact(path, CPU)]


@given(sizes, sizes, sizes, st.integers(0, 9))
@settings(max_examples=15)
def test_all_exact_paths_agree_with_int64(m: int, k: int, n: int, seed: int) -> None:
    a, b = int8(m, k, seed=seed), int8(n, k, seed=seed + 1).t()
    for path in EXACT:
        product = path(a, b, torch.full((m, n), 7, dtype=torch.int32))
        assert torch.equal(product.long(), reference(a, b))


@pytest.mark.parametrize("path", PATHS[1:])
def test_fallbacks_are_exact_on_the_host(path: Path) -> None:
    assert path in EXACT


@pytest.mark.parametrize("shape", [(6, 0, 4), (0, 5, 4), (3, 5, 0)])
def test_empty_products(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    assert torch.equal(matmul(int8(m, k), int8(k, n)), torch.zeros(m, n, dtype=torch.int32))


def test_longest_sum_of_the_largest_products_stays_in_int32() -> None:
    ends = torch.full((1, BLOCK), -128, dtype=torch.int8)
    product = matmul(ends, ends.t())
    assert product.dtype == torch.int32
    assert int(product) == BLOCK * 128 * 128 <= INT32_LIMIT


def test_longer_sums_are_widened() -> None:
    k = 2 * BLOCK + 3
    ends = torch.full((2, k), -128, dtype=torch.int8)
    product = matmul(ends, ends.t())
    assert product.dtype == torch.int64
    assert product.tolist() == [[k * 128 * 128] * 2] * 2
    assert k * 128 * 128 > 2**31
    a, b = int8(3, k), int8(k, 2)
    assert torch.equal(matmul(a, b), reference(a, b))


@pytest.mark.parametrize("k", [40, BLOCK + 1])
def test_a_product_goes_where_it_is_asked_to(k: int) -> None:
    a, b = int8(3, k), int8(k, 2)
    out = torch.full((3, 2), 7, dtype=torch.int32 if k <= BLOCK else torch.int64)
    assert matmul(a, b, out=out) is out
    assert torch.equal(out.long(), reference(a, b))


def saturating(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """oneDNN without VNNI: pairs of products are added in 16 bits."""
    products = a.int().unsqueeze(1) * b.int().t()
    pairs = torch.nn.functional.pad(products, (0, products.shape[2] % 2)).unflatten(2, (-1, 2))
    return out.copy_(pairs.sum(3).clamp(-(2**15), 2**15 - 1).sum(2))


def in_float32(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """NITI's own way, exact up to sums of 2^24."""
    return out.copy_(a.float() @ b.float())


@pytest.mark.parametrize("inexact", [saturating, in_float32])
def test_an_inexact_product_is_noticed(inexact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATHS", (inexact, by_products))
    fastest_exact.cache_clear()
    assert fastest_exact(CPU) is by_products
    monkeypatch.setattr(module, "PATHS", (inexact,))
    fastest_exact.cache_clear()
    with pytest.raises(ReproError, match="no exact integer matrix product on cpu"):
        fastest_exact(CPU)
    fastest_exact.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["SSE41", "AVX2", "AVX512_CORE", "AVX512_CORE_VNNI", "DEFAULT"])
def test_products_are_exact_whatever_the_instruction_set(isa: str) -> None:
    code = (
        "import torch; from repro.integer.matmul import matmul\n"
        "g = torch.Generator().manual_seed(0)\n"
        "a, b = (torch.randint(-128, 128, s, generator=g).to(torch.int8)"
        " for s in ((16, 150), (150, 777)))\n"
        "assert torch.equal(matmul(a, b).long(), a.long() @ b.long())"
    )
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": isa}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(6, 25, 512), (1, 1, 1), (16, 150, 777), (25, 4096, 6)])
def test_cuda_products_are_exact(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b = int8(m, k), int8(k, n)
    assert torch.equal(matmul(a.cuda(), b.cuda()).cpu().long(), reference(a, b))
    assert fastest_exact(torch.device("cuda")) is by_int_mm


def test_wrong_operands_are_refused() -> None:
    with pytest.raises(UsageError, match=r"torch\.float32"):
        matmul(torch.zeros(2, 2), int8(2, 2))
    with pytest.raises(UsageError, match=r"\(2, 3\) and \(2, 3\): must be \[M, K\] and \[K, N\]"):
        matmul(int8(2, 3), int8(2, 3))
