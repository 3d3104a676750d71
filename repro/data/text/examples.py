"""Yes/no reading: a passage, a question about it, and the answer; kept as BoolQ's JSON lines."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from repro.data.base import Array, BadContentError
from repro.data.text.rows import encode_rows


@dataclass(frozen=True)
class Example:
    """One question in BoolQ's format: lower case, without a question mark."""

    question: str
    passage: str
    answer: bool


def encode_lines(examples: Iterable[Example]) -> npt.NDArray[np.uint8]:
    """Return ``examples`` as UTF-8 JSON lines, the canonical bytes of a split.

    Raises:
        BadContentError: a text is not valid Unicode.
    """
    return encode_rows(
        {"question": example.question, "answer": example.answer, "passage": example.passage}
        for example in examples
    )


def decode_lines(data: bytes | Array, name: str) -> list[Example]:
    """Return the examples of UTF-8 JSON lines; keys other than the three are passed over.

    Raises:
        BadContentError: a line is truncated or is not an example; the message has its number.
    """
    lines = bytes(data).split(b"\n")
    if lines.pop() != b"":
        msg = f"{name}:{len(lines) + 1}: truncated, the last line has no end"
        raise BadContentError(msg)
    return [_decode(line, f"{name}:{number}") for number, line in enumerate(lines, start=1)]


def _decode(line: bytes, where: str) -> Example:
    try:
        row = json.loads(line)
        question, passage, answer = row["question"], row["passage"], row["answer"]
    except (ValueError, KeyError, TypeError) as error:
        msg = f"{where}: not an example with question, passage and answer ({error!r})"
        raise BadContentError(msg) from error
    if not all(isinstance(text, str) and text.strip() for text in (question, passage)):
        msg = f"{where}: question or passage is empty or not a text"
        raise BadContentError(msg)
    if not isinstance(answer, bool):
        msg = f"{where}: answer is {answer!r}, must be true or false"
        raise BadContentError(msg)
    return Example(question, passage, answer)
