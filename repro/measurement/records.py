"""Records: one JSON line for each thing that was computed or measured.

A file of records is one run of one artifact. It appears whole or not at all, is never overwritten,
and is validated line by line when it is read: a truncated, foreign or future line is refused with
its file and line number.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from repro.core import atomic
from repro.core.errors import ReproError
from repro.measurement.environment import Environment

SCHEMA_VERSION = 1
PROFILES = ("smoke", "quick", "paper")
"""From the cheapest to the published setting; a later one outranks an earlier one in tables."""

_NAME = re.compile(
    r"(?P<profile>[a-z]+)-(?P<utc>\d{8}T\d{6}Z)-(?P<commit>[0-9a-f]{7}|nocommit)"
    r"(?P<dirty>-dirty)?\.jsonl"
)


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One result with everything needed to make it again."""

    schema_version: int
    artifact: str
    """Slug of the artifact."""
    profile: str
    config: dict[str, Any]
    """The whole configuration of the run."""
    seed: int | None
    """Seed of this result, or null where nothing is random."""
    kind: str
    """What sort of result this is; each artifact documents its kinds."""
    point: dict[str, Any]
    """What this result is of: the coordinates within the run."""
    metrics: dict[str, Any]
    """Raw values: bytes, seconds, fractions; never rounded, never in other units."""
    utc: str
    """When it was computed, ISO 8601 in UTC."""
    environment: Environment


class _Version(msgspec.Struct):
    schema_version: int


def write_run(directory: Path, records: Sequence[Record]) -> Path:
    """Write the records of one run as a new file in ``directory`` and return its path.

    Raises:
        ReproError: there are no records, one of them is invalid, or the file cannot be written.
    """
    if not records:
        msg = "a run without records is not written: nothing was computed"
        raise ReproError(msg)
    for record in records:
        _validate(record, directory)
    path = directory / _file_name(records[-1])
    lines = b"".join(msgspec.json.encode(record) + b"\n" for record in records)
    atomic.write_new(path, lines)
    return path


def read_run(path: Path) -> list[Record]:
    """Return the records of one run file.

    Raises:
        ReproError: a line is truncated, not a record, or of another schema version; the message
            names the file and the line.
    """
    content = path.read_bytes()
    if not content.endswith(b"\n"):
        number = content.count(b"\n") + 1
        msg = f"{path}:{number}: truncated line or empty file; remove the file and run again"
        raise ReproError(msg)
    return [
        _decode(line, f"{path}:{number}")
        for number, line in enumerate(content.splitlines(), start=1)
    ]


def run_files(directory: Path) -> list[Path]:
    """Return the run files of one artifact, oldest first; other names are refused.

    Raises:
        ReproError: a ``.jsonl`` file has a name that no run gives.
    """
    paths = sorted(directory.glob("*.jsonl")) if directory.is_dir() else []
    for path in paths:
        if _NAME.fullmatch(path.name) is None:
            msg = f"{path}: not the name of a run file (PROFILE-UTC-COMMIT.jsonl); move it away"
            raise ReproError(msg)
    return sorted(paths, key=lambda path: path.name.split("-")[1])


def latest_run(directory: Path, profiles: Sequence[str] = PROFILES) -> Path | None:
    """Return the newest run file of the highest of ``profiles`` that has one, or ``None``."""
    for profile in reversed(profiles):
        newest = [path for path in run_files(directory) if path.name.split("-")[0] == profile]
        if newest:
            return newest[-1]
    return None


def of_kind(records: Iterable[Record], kind: str) -> Iterator[Record]:
    """Yield the records of one kind."""
    return (record for record in records if record.kind == kind)


def _file_name(record: Record) -> str:
    stamp = record.utc.replace("-", "").replace(":", "")
    commit = record.environment.commit
    dirty = "-dirty" if record.environment.dirty else ""
    return f"{record.profile}-{stamp}-{commit[:7] if commit else 'nocommit'}{dirty}.jsonl"


def _decode(line: bytes, where: str) -> Record:
    try:
        version = msgspec.json.decode(line, type=_Version).schema_version
        if version > SCHEMA_VERSION:
            msg = (
                f"{where}: record schema {version} is newer than the {SCHEMA_VERSION} this version "
                "of the suite reads; update the suite"
            )
            raise ReproError(msg)
        record = msgspec.json.decode(line, type=Record)
    except msgspec.DecodeError as error:  # also wrong types: ValidationError derives from it
        msg = f"{where}: not a record: {error}; restore the file or remove it and run again"
        raise ReproError(msg) from error
    _validate(record, where)
    return record


def _validate(record: Record, where: object) -> None:
    if record.schema_version != SCHEMA_VERSION:
        msg = f"{where}: record schema {record.schema_version}, expected {SCHEMA_VERSION}"
        raise ReproError(msg)
    if record.profile not in PROFILES:
        msg = f"{where}: profile {record.profile!r} is none of {', '.join(PROFILES)}"
        raise ReproError(msg)
    if not _all_finite(record.metrics):
        msg = f"{where}: a metric is missing or not a finite number: {record.metrics}"
        raise ReproError(msg)


def _all_finite(value: object) -> bool:
    if isinstance(value, dict):
        return all(_all_finite(item) for item in value.values())
    if isinstance(value, list):
        return all(_all_finite(item) for item in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int | str)
