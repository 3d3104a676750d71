"""Prompts as token ids, made once for each tokenizer and kept in the cache."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from repro.core.errors import ReproError, UsageError
from repro.core.leftovers import new_directory
from repro.core.paths import cache_dir
from repro.data.arrays import BadArrayError, map_npy
from repro.data.splits import Indices
from repro.data.text.rows import Row
from repro.data.text.task import Prompt, PromptTask
from repro.data.text.tasks import get_task
from repro.measurement.environment import source_sha256

Tokens = npt.NDArray[np.int32]
_ARRAYS = ("tokens", "offsets", "prefix", "suffix", "labels", "answers")
_PROBED = 8
"""Number of a split's prompts used to check that each answer is one token."""


class Tokenizer(Protocol):
    """The part of a fast tokenizer of ``transformers`` that is used here."""

    @property
    def backend_tokenizer(self) -> Any:  # noqa: ANN401 - a tokenizers.Tokenizer
        """The underlying tokenizer, identified by its serialisation."""

    @property
    def bos_token_id(self) -> int | None:
        """The start-of-text token, even if the tokenizer does not add it to texts."""

    def __call__(
        self,
        text: Sequence[str],
        *,
        return_offsets_mapping: bool = False,
        return_special_tokens_mask: bool = False,
    ) -> Any:  # noqa: ANN401 - a BatchEncoding
        """Return the ``input_ids`` of each text, with the model's special tokens.

        On request also return ``offset_mapping``: first and last character, exclusive, of each
        token; and ``special_tokens_mask``: 1 for each token that the tokenizer adds to a text.
        """


@dataclass(frozen=True)
class TokenisedSplit:
    """The prompts of N rows, one after the other."""

    tokens: Tokens
    """[T], all prompts."""
    offsets: Indices
    """[N + 1], the start of each prompt, and T at the end."""
    prefix: Tokens
    """[N], number of uncuttable tokens at the start of each prompt, such as start-of-text."""
    suffix: Tokens
    """[N], number of uncuttable tokens at the end of each prompt, such as the question's."""
    labels: npt.NDArray[np.uint8]
    """[N], number of each row's answer, from 0."""
    answers: Tokens
    """[K], the token of each answer, as it follows a prompt."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def least_length(self) -> int:
        """The smallest ``max_length`` that cuts only the cuttable parts."""
        return int((self.prefix + self.suffix).max(initial=0))

    def lengths(self, max_length: int) -> Indices:
        """Return the length of every prompt as returned by ``prompt``, [N]."""
        return np.minimum(np.diff(self.offsets), max_length)

    def truncated(self, max_length: int) -> npt.NDArray[np.bool_]:
        """Return which prompts exceed ``max_length`` and are therefore cut, [N]."""
        return np.diff(self.offsets) > max_length

    def too_long(self, max_length: int) -> npt.NDArray[np.bool_]:
        """Return which prompts do not fit even if their whole cuttable part is cut, [N]."""
        return self.prefix + self.suffix > max_length

    def prompt(self, index: int, max_length: int) -> Tokens:
        """Return the prompt of one row, [L].

        A prompt longer than ``max_length`` loses only the start of its cuttable field.

        Raises:
            UsageError: ``max_length`` is too small for the uncuttable parts.
        """
        least = int(self.prefix[index] + self.suffix[index])
        if max_length < least:
            raise UsageError(
                f"max_length = {max_length}: must be at least {least}, the length of the part of "
                f"prompt {index} that is never cut"
            )
        whole = self.tokens[self.offsets[index] : self.offsets[index + 1]]
        if len(whole) <= max_length:
            return whole
        prefix = int(self.prefix[index])
        return np.concatenate([whole[:prefix], whole[len(whole) - max_length + prefix :]])


def load_tokenised(name: str | PromptTask, split: str, tokenizer: Tokenizer) -> TokenisedSplit:
    """Return the prompts of a split as tokens, from the cache if they were made before.

    Args:
        name: the task's name, or the task (see ``get_task``).
        split: ``train`` or ``validation``.
        tokenizer: the model's tokenizer.

    Raises:
        UsageError, ReproError: as ``PromptTask.rows`` and ``tokenise``; also if the tokens cannot
            be cached.
    """
    task = get_task(name)
    _require_fast(tokenizer)
    # everything that decides the tokens: rows, prompt, the tokenizer's own state, and this code
    source = task.fingerprint(split)
    parts = (source, source_sha256("data/text"), tokenizer.backend_tokenizer.to_str())
    identity = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    directory = cache_dir() / "tokens" / f"{task.name}-{split}-{identity}"
    if not directory.is_dir():  # else without a lock, so that a cache may be read-only
        try:
            directory.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(directory.with_suffix(".lock")):
                if not directory.is_dir():
                    made = tokenise(task, task.rows(split)[0], tokenizer)
                    task.require_unchanged(split, source)
                    with new_directory(directory) as whole:
                        for array in _ARRAYS:
                            np.save(whole / f"{array}.npy", getattr(made, array))
        except OSError as error:
            raise ReproError(
                f"cannot store the tokens of {task.name} in {directory.parent}: {error}; set "
                "REPRO_CACHE_DIR to a writable directory with free space"
            ) from error
    try:
        return TokenisedSplit(
            **{array: np.array(map_npy(directory / f"{array}.npy")) for array in _ARRAYS}
        )
    except BadArrayError as error:
        msg = f"{directory}: the stored tokens are damaged: {error}; remove the directory"
        raise ReproError(msg) from error


def tokenise(task: PromptTask, rows: Sequence[Row], tokenizer: Tokenizer) -> TokenisedSplit:
    """Return the prompts of ``rows`` as tokens.

    Raises:
        UsageError: the tokenizer is written in Python, which cannot tell the place of a token.
        ReproError: an answer is not one token of its own after a prompt, or the tokenizer adds a
            token after each text.
    """
    _require_fast(tokenizer)
    prompts = [task.prompt(row) for row in rows]
    encoding = tokenizer(
        [prompt.text for prompt in prompts],
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
    )
    encoded: list[list[int]] = encoding["input_ids"]
    added: list[int] = encoding["special_tokens_mask"][0]
    if added[-1]:
        name = tokenizer.backend_tokenizer.id_to_token(encoded[0][-1])
        raise ReproError(
            f"task {task.name}: the tokenizer adds {name!r} after each text, and the answer must "
            "follow the prompt; use a model whose tokenizer adds none, or switch this off "
            "(add_eos_token in its tokenizer_config.json)"
        )
    starts = max(
        int(encoded[0][0] == tokenizer.bos_token_id), sum(1 for _ in takewhile(bool, added))
    )
    fixed = [
        _fixed(prompt, offsets, starts)
        for prompt, offsets in zip(prompts, encoding["offset_mapping"], strict=True)
    ]
    return TokenisedSplit(
        tokens=np.fromiter((token for ids in encoded for token in ids), np.int32),
        offsets=np.cumsum([0, *map(len, encoded)], dtype=np.int64),
        prefix=np.array([prefix for prefix, _ in fixed], np.int32),
        suffix=np.array([suffix for _, suffix in fixed], np.int32),
        labels=np.array([task.class_of(row) for row in rows], dtype=np.uint8),
        answers=_answer_tokens(task, [prompt.text for prompt in prompts], tokenizer),
    )


def _require_fast(tokenizer: Tokenizer) -> None:
    if not hasattr(tokenizer, "backend_tokenizer"):
        raise UsageError(
            f"tokenizer {type(tokenizer).__name__} is written in Python and does not tell the "
            "place of a token in the text; give a model with a fast tokenizer (tokenizer.json)"
        )


def _fixed(prompt: Prompt, offsets: Sequence[tuple[int, int]], starts: int) -> tuple[int, int]:
    """Count the tokens before and after the cuttable part of a prompt.

    A token that spans the start of the cuttable part may be cut; a token that spans its end is
    kept.
    """
    if prompt.start == prompt.stop:
        return 0, len(offsets)
    suffix = sum(end > prompt.stop for _, end in offsets)
    if prompt.start == 0:
        return starts, suffix
    return sum(1 for _ in takewhile(lambda span: span[1] <= prompt.start, offsets)), suffix


def _answer_tokens(task: PromptTask, texts: Sequence[str], tokenizer: Tokenizer) -> Tokens:
    """Find the token of each answer in the place where it will be predicted.

    Raises:
        ReproError: an answer has several tokens or changes the prompt's tokens, or two answers
            share a token.
    """
    found: dict[str, int] = {}
    for text in texts[:: max(1, len(texts) // _PROBED)]:
        answers = list(task.answers.values())
        bare, *continued = tokenizer([text, *(f"{text}{answer}" for answer in answers)])[
            "input_ids"
        ]
        for answer, ids in zip(answers, continued, strict=True):
            token = _only_token(task, answer, bare, ids, tokenizer)
            if found.setdefault(answer, token) != token:
                raise ReproError(
                    f"task {task.name}: answer {answer!r} is not the same token after all prompts; "
                    "choose another word"
                )
    holder: dict[int, str] = {}
    for answer, token in found.items():
        if (other := holder.setdefault(token, answer)) != answer:
            raise ReproError(
                f"task {task.name}: answers {other!r} and {answer!r} are the same token {token} of "
                "the tokenizer; choose other words, or another model (that of the profile smoke "
                "knows few)"
            )
    return np.array(list(found.values()), dtype=np.int32)


def _only_token(
    task: PromptTask, answer: str, bare: list[int], ids: list[int], tokenizer: Tokenizer
) -> int:
    """Return the answer's one token after the prompt."""
    if ids[: len(bare)] != bare:
        raise ReproError(
            f"task {task.name}: answer {answer!r} changes the tokens of the prompt, and it must "
            "be one separate token; begin it with a space and end the template without one"
        )
    added = ids[len(bare) :]
    if len(added) != 1:
        names = [tokenizer.backend_tokenizer.id_to_token(token) for token in added]
        raise ReproError(
            f"task {task.name}: answer {answer!r} is {len(added)} tokens, {added} {names}; it must "
            "be one; choose another word"
        )
    return added[0]
