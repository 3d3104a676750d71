"""Records: one JSON line for each computed or measured result.

A file of records is one run of one artifact. It is written completely or not at all, is never
overwritten, and is validated line by line when it is read: a truncated or foreign line, or one of a
newer schema, is refused with its file and line number.
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from repro.core import atomic
from repro.core.errors import ReproError
from repro.measurement.environment import Environment
from repro.measurement.lengths import course_of, is_course
from repro.measurement.renamed import with_present_names

SCHEMA_VERSION = 1
Profile = Literal["smoke", "quick", "fewshot", "hours", "boolq", "day", "gpu-long", "gpu", "paper"]
PROFILES: tuple[Profile, ...] = get_args(Profile)
"""The profiles from the cheapest to the published setting; in tables a later one outranks an
earlier one. Every artifact defines ``smoke``, ``quick`` and ``paper``."""
CUSTOM = "custom"
"""The profile of a record whose configuration belongs to no profile."""

DIRTY = "-dirty"
"""End of the name of a run file whose code had uncommitted changes."""

RUN_FILE = re.compile(
    r"(?P<profile>[a-z]+(-[a-z]+)?)-(?P<utc>\d{8}T\d{6}Z)-(?P<commit>[0-9a-f]{7}|nocommit)"
    r"(?P<dirty>-dirty)?\.jsonl"
)
"""Names of run files."""


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One result with everything needed to reproduce it."""

    schema_version: int
    artifact: str
    """Slug of the artifact."""
    profile: str
    """One of ``PROFILES`` or ``CUSTOM``."""
    config: dict[str, Any]
    """The whole configuration of the run."""
    seed: int | None
    """Seed of this result, or null where nothing is random."""
    kind: str
    """The kind of result; each artifact documents its kinds."""
    point: dict[str, Any]
    """Coordinates that identify this result within its run."""
    metrics: dict[str, Any]
    """Raw values: bytes, seconds, fractions; never rounded, never in other units."""
    utc: str
    """When it was computed, ISO 8601 in UTC."""
    environment: Environment
    line: int = 1
    """Number of this record's line in its file, from 1."""
    lines: int = 1
    """Number of lines of its file; a file with fewer has lost some."""

    @property
    def engine(self) -> str:
        """The engine that trained it, or the network that it evaluates: ``native`` or ``torch``.

        It is ``torch`` without training.
        """
        settings = self.metrics.get("settings")
        of_settings = settings.get("engine", "torch") if isinstance(settings, dict) else "torch"
        return str(self.metrics.get("trained", {}).get("engine", of_settings))

    @property
    def processor(self) -> str:
        """The GPU or processor of an accuracy without training; empty for other results.

        Processors round differently, and a trained accuracy is compared with the one before
        training on the same processor.
        """
        return (self.environment.gpu or self.environment.cpu) if self.kind == "zero_shot" else ""

    @property
    def device(self) -> str:
        """The device that trained it, by its settings; ``cpu`` without training."""
        settings = self.metrics.get("settings")
        return str(settings.get("device", "cpu")) if isinstance(settings, dict) else "cpu"

    @property
    def code(self) -> tuple[str | None, bool | None]:
        """Commit of the code that computed it, and whether its working tree was dirty.

        A training run reused from an earlier run keeps its own.
        """
        made, here = self.metrics.get("trained") or {}, self.environment
        return made.get("commit", here.commit), made.get("dirty", here.dirty)

    @property
    def dataset(self) -> str:
        """The data set used for training; ``point`` may name one that exists in several forms."""
        settings = self.metrics.get("settings", {})
        named = settings.get("problem") if isinstance(settings, dict) else None
        return str(named or self.point.get("dataset", ""))


class _Version(msgspec.Struct):
    schema_version: int


def write_run(directory: Path, records: Sequence[Record]) -> Path:
    """Write the records of one run as a new file in ``directory`` and return its path.

    Raises:
        ReproError: there are no records, one of them is invalid, or the file cannot be written.
    """
    if not records:
        raise ReproError("a run without records is not written: nothing was computed")
    numbered = [
        msgspec.structs.replace(record, line=line, lines=len(records))
        for line, record in enumerate(records, start=1)
    ]
    for record in numbered:
        validate(record, directory)
    last = records[-1]
    stamp = last.utc.replace("-", "").replace(":", "")
    commit = last.environment.commit[:7] if last.environment.commit else "nocommit"
    dirty = DIRTY if last.environment.dirty else ""
    path = directory / f"{last.profile}-{stamp}-{commit}{dirty}.jsonl"
    atomic.write_new(path, b"".join(msgspec.json.encode(record) + b"\n" for record in numbered))
    return path


def read_run(path: Path) -> list[Record]:
    """Return the records of one run file, with old configuration names replaced by present ones.

    Raises:
        ReproError: a line is truncated, missing, not a record, or of another schema version, which
            the message names with the file; or a record lacks settings or metrics of its kind.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        msg = f"{path}: cannot be read ({error.strerror}); restore the file or move it away"
        raise ReproError(msg) from error
    if not content.endswith(b"\n"):
        number = content.count(b"\n") + 1
        raise ReproError(
            f"{path}:{number}: truncated line, empty file, or no file of records; if a run was to "
            "write it, move it away and run again"
        )
    records = [
        _decode(line, f"{path}:{number}")
        for number, line in enumerate(content.splitlines(), start=1)
    ]
    for number, record in enumerate(records, start=1):
        if (record.line, record.lines) != (number, len(records)):
            raise ReproError(
                f"{path}:{number}: says it is line {record.line} of {record.lines}, is line "
                f"{number} of {len(records)}; restore the file or remove it and run again"
            )
    _require_own(path, records)
    try:
        return with_present_names(records)
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        msg = f"{path}: a record lacks what others of its kind have ({error!r}); move the file away"
        raise ReproError(msg) from error


def _require_own(path: Path, records: Sequence[Record]) -> None:
    """Check that a file holds records of one artifact and of the profile in its name.

    Raises:
        ReproError: a record has another profile or another artifact.
    """
    named = RUN_FILE.fullmatch(path.name)
    first = records[0]
    for record in records:
        if record.artifact != first.artifact or (named and record.profile != named["profile"]):
            raise ReproError(
                f"{path}:{record.line}: a record of {record.artifact} with the profile "
                f"{record.profile}; a file holds one artifact and the profile in its name; "
                "move it away"
            )


def read_runs(paths: Iterable[Path]) -> list[Record]:
    """Return the records of several run files of one artifact, combined by ``together``.

    Raises:
        ReproError: as ``read_run`` does.
    """
    return together(read_run(path) for path in paths)


def together(runs: Iterable[Sequence[Record]]) -> list[Record]:
    """Combine the records of several runs of one artifact, keeping the current ones.

    A result is identified by its kind, point, engine, device, data set and processor. For each
    result the records of the highest profile are kept, and for each seed those of the newest run;
    on clouds a longer run of the same course stays, as the newest is its beginning. A single run is
    returned unchanged.
    """
    by_age = sorted(runs, key=lambda run: run[-1].utc)
    if len(by_age) == 1:
        return list(by_age[0])
    highest: dict[bytes, int] = {}
    made: dict[tuple[bytes, int, int | None], list[tuple[int, int, Record]]] = {}
    place = 0
    for age, run in enumerate(by_age):
        for record in run:
            of = (
                record.kind,
                record.point,
                record.engine,
                record.device,
                record.dataset,
                record.processor,
            )
            # sorted, so that the order of the coordinates in a point does not matter
            result, height = msgspec.json.encode(of, order="deterministic"), rank(record.profile)
            highest[result] = max(height, highest.get(result, height))
            made.setdefault((result, height, record.seed), []).append((place, age, record))
            place += 1
    kept = [
        one
        for (result, height, _), records in made.items()
        if height == highest[result]
        for one in _of_newest_run(records)
    ]
    return [record for _, record in sorted(kept, key=lambda one: one[0])]


def _of_newest_run(made: Sequence[tuple[int, int, Record]]) -> list[tuple[int, Record]]:
    """Return the records of the newest run, or on clouds the longest of the same course.

    Args:
        made: place, age and record of each record of one result and seed, oldest first.
    """
    newest = made[-1][1]
    latest = [(place, record) for place, age, record in made if age == newest]
    settings = latest[-1][1].metrics.get("settings", {})
    if not is_course(settings):
        return latest
    alike = [
        (place, record)
        for place, _, record in reversed(made)  # of equal lengths the newest
        if course_of(record.metrics.get("settings", {})) == course_of(settings)
    ]
    return [max(alike, key=lambda one: len(one[1].metrics["seconds"]))]  # of the epochs done


def run_files(directory: Path) -> list[Path]:
    """Return the run files of one artifact, oldest first; other names are refused.

    Raises:
        ReproError: a ``.jsonl`` file does not have the name of a run file.
    """
    by_time = []
    for path in sorted(directory.glob("*.jsonl")) if directory.is_dir() else []:
        named = RUN_FILE.fullmatch(path.name)
        if named is None or named["profile"] not in (CUSTOM, *PROFILES):
            raise ReproError(
                f"{path}: not the name of a run file (PROFILE-UTC-COMMIT.jsonl, with a profile of "
                f"{', '.join(PROFILES)} or {CUSTOM}); move it away"
            )
        by_time.append((named["utc"], path))
    return [path for _, path in sorted(by_time)]


def rank(profile: str) -> int:
    """Return the rank of a profile; a higher rank wins, and a custom run has the lowest."""
    return (CUSTOM, *PROFILES).index(profile)


def single(records: Iterable[Record], kind: str) -> Record:
    """Return the one record of ``kind``.

    Raises:
        ReproError: there is none, or more than one.
    """
    found = list(of_kind(records, kind))
    if len(found) != 1:
        raise ReproError(f"expected one record of kind {kind!r}, found {len(found)}; run again")
    return found[0]


def of_kind(records: Iterable[Record], kind: str) -> Iterator[Record]:
    """Yield the records of one kind."""
    return (record for record in records if record.kind == kind)


def profile_of(path: Path) -> str:
    """Return the profile of a run file."""
    named = RUN_FILE.fullmatch(path.name)
    assert named is not None  # noqa: S101 - the callers pass what `run_files` returns
    return named["profile"]


def _decode(line: bytes, where: str) -> Record:
    try:
        # the version alone first: a new field of a newer schema would only be called unknown
        version = msgspec.json.decode(line, type=_Version).schema_version
        if version > SCHEMA_VERSION:
            raise ReproError(
                f"{where}: record schema {version} is newer than the {SCHEMA_VERSION} this version "
                "of the suite reads; update the suite"
            )
        record = msgspec.json.decode(line, type=Record)
    except (
        msgspec.DecodeError,  # wrong types are DecodeErrors, too
        UnicodeDecodeError,
        RecursionError,
    ) as error:
        msg = f"{where}: not a record: {error}; restore the file or remove it and run again"
        raise ReproError(msg) from error
    validate(record, where)
    return record


def validate(record: Record, where: object) -> None:
    """Raise ``ReproError``, naming ``where``, unless the record is valid."""
    if record.schema_version != SCHEMA_VERSION:
        msg = f"{where}: record schema {record.schema_version}, expected {SCHEMA_VERSION}"
        raise ReproError(msg)
    if record.profile not in (*PROFILES, CUSTOM):
        msg = f"{where}: profile {record.profile!r} is none of {', '.join(PROFILES)}, {CUSTOM}"
        raise ReproError(msg)
    for name, value in record.metrics.items():
        if not _all_finite(value):
            msg = f"{where}: metric {name!r} of {record.kind} {record.point} is not a finite number"
            raise ReproError(msg)


def _all_finite(value: object) -> bool:
    if isinstance(value, dict):
        return _all_finite([*value.values()])
    if isinstance(value, list):
        if {*map(type, value)} <= {int, float, str, bool}:  # most values, and far faster
            return all(math.isfinite(one) for one in value if isinstance(one, float))
        return all(map(_all_finite, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int | str)
