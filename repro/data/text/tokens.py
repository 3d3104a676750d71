"""Prompts as token numbers, made once for each tokenizer and kept in the cache."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from repro.core.errors import ReproError, UsageError
from repro.core.paths import cache_dir
from repro.core.validation import require_choice
from repro.data import cache
from repro.data.catalog import load_set
from repro.data.splits import Indices
from repro.data.text.examples import Example, decode_lines
from repro.data.text.prompts import ANSWERS, PROMPT_VERSION, passage_length, prompt

Tokens = npt.NDArray[np.int32]
_ARRAYS = ("tokens", "offsets", "questions", "labels", "answers", "start")


class Tokenizer(Protocol):
    """What is used of a fast tokenizer of ``transformers``."""

    @property
    def backend_tokenizer(self) -> Any:  # noqa: ANN401 - a tokenizers.Tokenizer
        """The tokenizer proper, whose serialisation is its identity."""

    @property
    def bos_token_id(self) -> int | None:
        """The start-of-text token, whether or not texts are given it."""

    def __call__(self, text: Sequence[str], *, return_offsets_mapping: bool = False) -> Any:  # noqa: ANN401 - a BatchEncoding
        """Return ``input_ids`` of each text, with the special tokens of the model.

        On demand also the ``offset_mapping``: first and last character, exclusive, of each token.
        """


@dataclass(frozen=True)
class TokenisedSplit:
    """The prompts of N examples, one after the other."""

    tokens: Tokens
    """[T], all prompts."""
    offsets: Indices
    """[N + 1], where each prompt starts, and T."""
    questions: Tokens
    """[N], how many tokens at the end of each prompt hold the question."""
    labels: npt.NDArray[np.uint8]
    """[N], 1 where the answer is yes."""
    answers: Tokens
    """[2], the token of No and of Yes, as it follows a prompt."""
    start: Tokens
    """[1] the start-of-text token that stands before every prompt, or [0] where none does."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def least_length(self) -> int:
        """The shortest ``max_length`` that leaves every question whole."""
        return len(self.start) + int(self.questions.max(initial=0))

    def lengths(self, max_length: int) -> Indices:
        """Return the length of every prompt as ``prompt`` gives it, [N]."""
        return np.minimum(np.diff(self.offsets), max_length)

    def truncated(self, max_length: int) -> npt.NDArray[np.bool_]:
        """Return which prompts lose a part of their passage, [N]."""
        return np.diff(self.offsets) > max_length

    def prompt(self, index: int, max_length: int) -> Tokens:
        """Return the prompt of one example, [L].

        A longer one loses the start of its passage, never its end, where the question is.

        Raises:
            UsageError: ``max_length`` cuts into the question.
        """
        least = len(self.start) + int(self.questions[index])
        if max_length < least:
            msg = (
                f"max_length = {max_length}: must be at least {least}, the question of example "
                f"{index} with its start-of-text token"
            )
            raise UsageError(msg)
        whole = self.tokens[self.offsets[index] : self.offsets[index + 1]]
        if len(whole) <= max_length:
            return whole
        return np.concatenate([self.start, whole[len(whole) - max_length + len(self.start) :]])


def load_examples(name: str, split: str) -> list[Example]:
    """Return the examples of a split of a yes/no set (``boolq``, ``yesno-facts``).

    Raises:
        UsageError: no such set or split, or one of another kind.
        ReproError: it is not in the cache and cannot be fetched.
    """
    require_choice("yes/no set", name.replace("_", "-"), ("boolq", "yesno-facts"))
    require_choice("split", split, tuple(load_set(name).content))
    return decode_lines(cache.load(name)[split], f"{name}/{split}")


def load_tokenised(name: str, split: str, tokenizer: Tokenizer) -> TokenisedSplit:
    """Return the prompts of a split as tokens, from the cache if they were made before.

    Raises:
        UsageError, ReproError: as ``load_examples``; also if an answer is not one token, or the
            tokens cannot be kept.
    """
    directory = cache_dir() / "tokens" / f"{name}-{split}-{_identity(name, tokenizer)[:16]}"
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(directory.with_suffix(".lock")):
            if not directory.is_dir():
                _store(tokenise(load_examples(name, split), tokenizer), directory)
    except OSError as error:
        msg = (
            f"cannot keep the tokens of {name} in {directory.parent}: {error}; set REPRO_CACHE_DIR "
            "to a directory with room that can be written"
        )
        raise ReproError(msg) from error
    return TokenisedSplit(
        **{array: np.load(directory / f"{array}.npy", allow_pickle=False) for array in _ARRAYS}
    )


def tokenise(examples: Sequence[Example], tokenizer: Tokenizer) -> TokenisedSplit:
    """Return the prompts of ``examples`` as tokens.

    Raises:
        ReproError: the words for the answers are not one token each after a prompt.
    """
    prompts = [prompt(example) for example in examples]
    encoding = tokenizer(prompts, return_offsets_mapping=True)
    encoded: list[list[int]] = encoding["input_ids"]
    starts = encoded[0][0] == tokenizer.bos_token_id
    return TokenisedSplit(
        tokens=np.fromiter((token for ids in encoded for token in ids), np.int32),
        offsets=np.cumsum([0, *map(len, encoded)], dtype=np.int64),
        questions=np.array(
            [
                sum(end > passage_length(example) for _, end in offsets)
                for example, offsets in zip(examples, encoding["offset_mapping"], strict=True)
            ],
            dtype=np.int32,
        ),
        labels=np.array([example.answer for example in examples], dtype=np.uint8),
        answers=_answer_tokens(prompts[0], tokenizer),
        start=np.array(encoded[0][:1] if starts else [], dtype=np.int32),
    )


def _answer_tokens(text: str, tokenizer: Tokenizer) -> Tokens:
    """Find the token of each answer in the place where it will be predicted."""
    words = [ANSWERS[False], ANSWERS[True]]
    bare, *continued = tokenizer([text, *(f"{text} {word}" for word in words)])["input_ids"]
    for word, ids in zip(words, continued, strict=True):
        if len(ids) != len(bare) + 1 or ids[:-1] != bare:
            msg = f"the tokenizer makes {word!r} {ids[len(bare) :]}, must be one token of its own"
            raise ReproError(msg)
    return np.array([ids[-1] for ids in continued], dtype=np.int32)


def _identity(name: str, tokenizer: Tokenizer) -> str:
    """Hash all that decides the tokens: the set, the prompt, and the tokenizer's own state."""
    state = tokenizer.backend_tokenizer.to_str()
    parts = (load_set(name).fingerprint, PROMPT_VERSION, _ARRAYS, state)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _store(split: TokenisedSplit, directory: Path) -> None:
    staging = Path(tempfile.mkdtemp(dir=directory.parent))
    try:
        for array in _ARRAYS:
            np.save(staging / f"{array}.npy", getattr(split, array))
        staging.replace(directory)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
