"""Labelled rows of text: read from JSON lines or tab-separated values, kept as JSON lines."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from repro.data.base import BadContentError


class Row(NamedTuple):
    """One labelled item of a task."""

    values: dict[str, str]
    """Text of each field, without white space at its ends."""
    label: str
    """The label as text: JSON's ``true`` and ``false``, the digits of a number, or the text."""
    file: str
    line: int
    """Number of the line in ``file``, from 1."""

    @property
    def where(self) -> str:
        """File and line, in the form of error messages."""
        return f"{self.file}:{self.line}"


def read_rows(data: bytes, file: str, fields: Collection[str], label: str) -> list[Row]:
    """Return the rows of a file.

    Args:
        data: the file's bytes, in UTF-8.
        file: its name, for messages. A name that ends in ``.tsv`` is read as tab-separated values:
            a header line, then one row a line, without quoting. Any other is read as JSON lines.
        fields: names of the fields that hold text; other columns and keys are ignored.
        label: name of the field that holds the label.

    Raises:
        BadContentError: a line is damaged, or lacks a field or its label; the message names it.
    """
    try:
        # not splitlines(), which also splits at U+2028 and others that a text may hold
        lines = data.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        # its object lacks the byte order mark, which the positions do not count
        line = error.object.count(b"\n", 0, error.start) + 1
        byte = error.object[error.start]
        msg = f"{file}:{line}: byte {byte:#04x} is not UTF-8; save the file as UTF-8"
        raise BadContentError(msg) from error
    if lines[-1] == "":
        lines.pop()
    if file.endswith(".tsv"):
        records = _tab_separated(lines, file, {*fields, label})
    else:
        records = [_json(line, f"{file}:{number}") for number, line in enumerate(lines, start=1)]
    first = len(lines) - len(records) + 1
    rows = [
        Row(
            {field: _text(record, field, f"{file}:{number}: field") for field in fields},
            _text(record, label, f"{file}:{number}: label", number=True),
            file,
            number,
        )
        for number, record in enumerate(records, start=first)
    ]
    if not rows:
        raise BadContentError(f"{file}: has no rows; add at least one")
    return rows


def encode_rows(records: Iterable[Mapping[str, str | int]]) -> npt.NDArray[np.uint8]:
    """Return ``records`` as UTF-8 JSON lines, the canonical bytes of a split.

    Raises:
        BadContentError: a text is not valid Unicode; the message has the number of its record.
    """
    lines = [
        encoded(json.dumps(record, ensure_ascii=False), f"record {number}")
        for number, record in enumerate(records, start=1)
    ]
    return np.frombuffer(b"".join(line + b"\n" for line in lines), np.uint8)


def encoded(text: str, where: str) -> bytes:
    """Return ``text`` in UTF-8.

    Raises:
        BadContentError: it is not valid Unicode; the message begins with ``where``.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise BadContentError(
            f"{where}: character {error.start + 1} is a lone surrogate (U+{code:04X}), which is "
            "not valid Unicode; replace it"
        ) from error


def _tab_separated(lines: list[str], file: str, needed: set[str]) -> list[dict[str, object]]:
    """Return the records that follow the header line."""
    header, *rest = [line.removesuffix("\r").split("\t") for line in lines] or [[""]]
    if missing := sorted(needed - set(header)):
        msg = f"{file}:1: no column {', '.join(missing)}; the header has {', '.join(header)}"
        raise BadContentError(msg)
    if twice := [name for name, count in Counter(header).items() if count > 1]:
        raise BadContentError(f"{file}:1: the column {twice[0]!r} occurs twice; keep one")
    for number, cells in enumerate(rest, start=2):
        if cells == [""]:
            raise BadContentError(f"{file}:{number}: an empty line; remove it")
        if len(cells) != len(header):
            msg = f"{file}:{number}: {len(cells)} columns, the header has {len(header)}"
            raise BadContentError(msg)
    return [dict(zip(header, cells, strict=True)) for cells in rest]


def _json(line: str, where: str) -> dict[str, object]:
    try:
        record = json.loads(line, object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        raise BadContentError(f"{where}: not JSON ({error})") from error
    if not isinstance(record, dict):
        raise BadContentError(f"{where}: must be a JSON object with the fields as keys")
    return record


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice!r} occurs twice")
    return found


def _text(record: Mapping[str, object], key: str, where: str, *, number: bool = False) -> str:
    """Return a text without white space at its ends; with ``number``, also a number or truth."""
    value = record.get(key)
    if number and isinstance(value, int):
        return str(value).lower()  # as in JSON: true
    if not isinstance(value, str) or not value.strip():
        found = f"{value!r:.40}" if key in record else "missing"
        must = "string, a whole number, true or false" if number else "non-empty string"
        raise BadContentError(f"{where} {key!r} is {found}, must be a {must}")
    encoded(value, f"{where} {key!r}")
    return value.strip()
