"""A classification task as prompts: a template for the text and an answer word per label."""

import hashlib
import json
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from repro.core.errors import ReproError, UsageError
from repro.core.validation import require_choice
from repro.data import cache
from repro.data.base import BadContentError
from repro.data.catalog import load_set
from repro.data.text.rows import Row, read_rows

SPLITS = ("train", "validation")
_SUFFIXES = (".jsonl", ".tsv")
_LEAST_ANSWERS, _MOST_ANSWERS = 2, 255  # labels are stored as uint8


class Prompt(NamedTuple):
    """A prompt, and the part of it that may be cut."""

    text: str
    start: int
    """First character of the part that may lose its beginning."""
    stop: int
    """End of that part, exclusive; equal to ``start`` if nothing may be cut."""


@dataclass(frozen=True)
class PromptTask:
    """A task: the location of its rows, and how a row becomes a prompt and an answer.

    The model sees the filled template. Each label has an answer, and the prediction is the label
    whose answer the model finds most likely as the next token.
    """

    name: str
    """Lower-case letters, digits, ``-`` and ``_``."""
    template: str
    """Text with the names of fields in braces; write ``{{`` and ``}}`` for literal braces."""
    answers: Mapping[str, str]
    """Label in the data -> answer, with the space before it. The classifier's logits have the order
    of these labels. JSON's true is the label ``true``, the number 1 is ``1``."""
    train: str | Path
    """Source of the training rows: ``SET/KEY`` for an array of the catalogue, or the path of a
    ``.jsonl`` or ``.tsv`` file."""
    validation: str | Path
    """Source of the rows for measuring accuracy."""
    tuning: str | Path | None = None
    """Source of the held-out rows for tuning; without it they are drawn from ``train``."""
    label: str = "label"
    """Name of the field that holds the label."""
    truncate: str | None = None
    """The field whose beginning is cut to shorten a long prompt; without it, long prompts are
    refused."""
    apart: tuple[str, ...] = ()
    """Fields that identify a text. Training rows that share all of them with a validation row or a
    held-out row are left out. If empty, all fields of the template."""
    edits: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    """Field -> function applied to its text before it is filled in."""
    title: str = ""
    """Name of the task in figures; if empty, ``name``."""
    version: str = "1"
    """Change it whenever a function of ``edits`` changes, since tokens are cached."""

    def __post_init__(self) -> None:
        """Refuse a definition that contradicts itself."""
        where = f"task {self.name!r}"
        if re.fullmatch(r"[a-z0-9_-]+", self.name) is None:
            raise UsageError(f"{where}: a name has lower-case letters, digits, - and _ only")
        if not _LEAST_ANSWERS <= len(self.answers) <= _MOST_ANSWERS:
            raise UsageError(
                f"{where}: has {len(self.answers)} answers, must have 2 to {_MOST_ANSWERS}"
            )
        if len(set(self.answers.values())) < len(self.answers) or not all(self.answers.values()):
            raise UsageError(f"{where}: every label needs an answer of its own that is not empty")
        fields = [name for _, name in self._pieces() if name is not None]
        if not fields:
            raise UsageError(f"{where}: the template has no field in braces")
        if self.label in fields:
            raise UsageError(f"{where}: the template shows the label, {{{self.label}}}")
        used = {"apart": self.apart, "edits": self.edits, "truncate": filter(None, [self.truncate])}
        for what, names in used.items():
            for name in names:
                require_choice(f"{where}: {what}", name, fields)
        if self.truncate is not None and fields.count(self.truncate) > 1:
            raise UsageError(
                f"{where}: the template has {{{self.truncate}}}, which may be cut, twice"
            )

    @property
    def fields(self) -> tuple[str, ...]:
        """The distinct fields of the template."""
        return tuple(dict.fromkeys(name for _, name in self._pieces() if name is not None))

    @property
    def sets(self) -> tuple[str, ...]:
        """The distinct sets of the catalogue that hold the rows."""
        places = (self.train, self.validation, self.tuning)
        return tuple(dict.fromkeys(p.partition("/")[0] for p in places if isinstance(p, str)))

    def prompt(self, row: Row) -> Prompt:
        """Return the prompt of a row.

        Raises:
            BadContentError: a field is empty after its edit.
        """
        text, start, stop = "", 0, 0
        for literal, name in self._pieces():
            text += literal
            if name is None:
                continue
            value = self.edits.get(name, str)(row.values[name])
            if not value:
                msg = f"{row.where}: field {name!r} is empty after the task's edit; correct the row"
                raise BadContentError(msg)
            if name == self.truncate:
                start, stop = len(text), len(text) + len(value)
            text += value
        return Prompt(text, start, stop)

    def class_of(self, row: Row) -> int:
        """Return the number of a row's label, from 0, in the order of ``answers``."""
        return list(self.answers).index(row.label)

    def identity(self, row: Row) -> tuple[str, ...]:
        """Return the texts that identify a row (see ``apart``)."""
        return tuple(row.values[name] for name in self.apart or self.fields)

    def rows(self, split: str) -> tuple[list[Row], int]:
        """Return the rows of ``train`` or ``validation``, and how many of them may be trained on.

        For ``train``, the rows to train on come first, then the rows of ``tuning`` if the task has
        any.

        Raises:
            UsageError: the split or file does not exist.
            ReproError: a set cannot be obtained, or a file is damaged or lacks a label.
        """
        require_choice("split", split, SPLITS)
        read = [self._read(key, place) for key, place in self._places(split).items()]
        return [row for rows in read for row in rows], len(read[0])

    def fingerprint(self, split: str) -> str:
        """Hash everything that decides the prompts and labels of a split.

        Raises:
            UsageError: a file is missing.
        """
        parts = (
            [self._content(key, place) for key, place in self._places(split).items()],
            self.template,
            list(self.answers.items()),
            self.label,
            self.truncate,
            sorted(self.edits),
            self.version,
        )
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def require_unchanged(self, split: str, fingerprint: str) -> None:
        """Raise ``ReproError`` if the rows of a split changed since it had ``fingerprint``."""
        if self.fingerprint(split) != fingerprint:
            msg = f"task {self.name!r}: its {split} rows changed while they were read; run it again"
            raise ReproError(msg)

    def _places(self, split: str) -> dict[str, str | Path]:
        """Return the sources of a split's rows by their fields, those to train on first."""
        keys = ("validation",) if split == "validation" else ("train", "tuning")
        places = {key: getattr(self, key) for key in keys}
        return {key: place for key, place in places.items() if place is not None}

    def _content(self, key: str, place: str | Path) -> list[str]:
        if isinstance(place, Path):
            # the suffix decides the format in which the bytes are read
            return [place.suffix, hashlib.sha256(self._file(key, place)).hexdigest()]
        dataset, array = self._array(key, place)
        return [load_set(dataset).fingerprint, array]

    def _read(self, key: str, place: str | Path) -> list[Row]:
        if isinstance(place, Path):
            data, name = self._file(key, place), str(place)
        else:
            dataset, array = self._array(key, place)
            data, name = bytes(cache.load(dataset)[array]), place
        rows = read_rows(data, name, self.fields, self.label)
        for row in rows:
            if row.label not in self.answers:
                labels = ", ".join(map(repr, self.answers))
                raise BadContentError(
                    f"{row.where}: label {row.label!r:.40} must be one of {labels} "
                    f"(task {self.name})"
                )
        require_every_label(rows, self.answers, name)
        return rows

    def _array(self, key: str, place: str) -> tuple[str, str]:
        """Return the set of the catalogue and the key in its content that ``place`` names.

        Raises:
            UsageError: it does not name a split of the catalogue, such as a path given as text.
        """
        where = f"task {self.name!r}: {key} = {place!r} names no split of the catalogue"
        if place.endswith(_SUFFIXES):
            raise UsageError(f"{where}; give a file as a Path")
        dataset, _, array = place.partition("/")
        if array not in (known := load_set(dataset).content):
            names = ", ".join(f"{dataset}/{name}" for name in known)
            raise UsageError(f"{where}; give one of {names}")
        return dataset, array

    def _file(self, key: str, path: Path) -> bytes:
        where = f"task {self.name!r}: {key} = {path}"
        if path.suffix not in _SUFFIXES:
            raise UsageError(f"{where}: the name must end in {' or '.join(_SUFFIXES)}")
        try:
            return path.read_bytes()
        except FileNotFoundError as error:
            raise UsageError(f"{where} does not exist") from error
        except OSError as error:
            raise ReproError(f"{where}: cannot be read ({error.strerror or error})") from error

    def _pieces(self) -> Sequence[tuple[str, str | None]]:
        """Split the template into texts, each with the field after it; the last may have none."""
        try:
            pieces = list(string.Formatter().parse(self.template))
        except ValueError as error:
            raise UsageError(f"task {self.name!r}: template {self.template!r}: {error}") from error
        for _, name, form, conversion in pieces:
            if name is not None and (not name.isidentifier() or form or conversion):
                shown = (
                    name + (f"!{conversion}" if conversion else "") + (f":{form}" if form else "")
                )
                raise UsageError(
                    f"task {self.name!r}: {{{shown}}} in the template must be a field's name, "
                    "without a format"
                )
        return [(literal, name) for literal, name, _, _ in pieces]


def require_every_label(rows: Sequence[Row], labels: Mapping[str, str], name: str) -> None:
    """Raise ``BadContentError`` unless each of ``labels`` occurs in ``rows``."""
    counts = Counter(row.label for row in rows)
    if missing := [label for label in labels if not counts[label]]:
        found = ", ".join(f"{label!r}: {count}" for label, count in sorted(counts.items()))
        msg = f"{name}: no row has the label {missing[0]!r}; rows of each label: {found}"
        raise BadContentError(msg)
