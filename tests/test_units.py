"""Bytes as people read them."""

import pytest

from repro.core.units import format_binary_bytes


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 KiB"),
        (4680, "4.57 KiB"),
        (2**20 - 1, "1024 KiB"),
        (2**20, "1 MiB"),
        (18_922_536, "18.05 MiB"),
        (-226_328, "-221 KiB"),
        (1_064_174_912, "1015 MiB"),
    ],
)
def test_binary_bytes_have_four_digits(count: int, text: str) -> None:
    assert format_binary_bytes(count) == text
