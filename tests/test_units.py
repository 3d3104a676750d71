"""Bytes and durations with their units."""

import re

import pytest

from repro.core.errors import UsageError
from repro.core.units import (
    format_binary_bytes,
    format_numbers,
    format_seconds,
    parse_bytes,
    parse_count,
)


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


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([3], "3"),
        ([1, 0], "0, 1"),
        ([0, 1, 2], "0 to 2"),
        ([9, 0, 2, 3, 4, 7, 8], "0, 2 to 4, 7 to 9"),
    ],
)
def test_numbers_in_a_row_are_a_range(numbers: list[int], text: str) -> None:
    assert format_numbers(numbers) == text


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("16GB", 16e9),
        ("16gb", 16e9),
        ("16 GiB", 2**34),
        ("1.5G", 1.5e9),
        ("8Gi", 2**33),
        ("512MiB", 2**29),
        (".5kB", 500),
        ("2TB", 2e12),
        ("17000000000", 17e9),
        ("1B", 1),
        ("1e9", 1e9),
        ("1.5e3 MB", 1.5e9),
    ],
)
def test_sizes_are_read_in_decimal_and_binary_units(text: str, count: float) -> None:
    assert parse_bytes("budget", text) == count


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1e", "16XB", "1 2GB", "nan", "0", "0.1B"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=rf"budget = {re.escape(repr(text))}: must be"):
        parse_bytes("budget", text)


@pytest.mark.parametrize(
    ("text", "count"), [("7B", 7e9), ("350m", 350e6), ("1.5b", 1.5e9), ("2T", 2e12), ("12", 12)]
)
def test_counts_are_read(text: str, count: float) -> None:
    assert parse_count("params", text) == count


@pytest.mark.parametrize("text", ["", "7G", "B", "-7B", "7 billion"])
def test_what_is_no_count_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="params = "):
        parse_count("params", text)


@pytest.mark.parametrize(
    ("seconds", "said"), [(4.23, "4.2 s"), (90, "2 min"), (3599, "60 min"), (9000, "2.5 h")]
)
def test_durations_as_people_read_them(seconds: float, said: str) -> None:
    assert format_seconds(seconds) == said
