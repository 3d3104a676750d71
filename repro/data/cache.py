"""Fetch data sets into the cache, verify them before moving them into place, and load them.

A set is a directory that exists completely or not at all: ``NAME-FINGERPRINT`` under the data
directory, with one file for each array and ``content.json``, which names the source.
"""

import errno
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from repro.core.errors import ReproError, UsageError
from repro.core.leftovers import new_directory
from repro.core.paths import data_dir
from repro.core.units import format_bytes
from repro.data.base import (
    FULL_DISK,
    BadContentError,
    DataSet,
    Request,
    SourceUnavailableError,
    Value,
)
from repro.data.catalog import load_set

MANIFEST = "content.json"
_CONNECT = (
    "\nConnect to one of them, or copy the set into a mirror directory (docs/data.md has the "
    "layout) and name it by --mirror DIR or REPRO_DATA_MIRROR."
)
_STORAGE_ERRORS = FULL_DISK | {
    errno.EACCES,
    errno.EPERM,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EEXIST,
}


def fetch(name: str, mirror: Path | None = None, *, accept_terms: bool = False) -> Path:
    """Return the directory of the set ``name``, fetching it if it is missing or damaged.

    Args:
        name: the set's name in the catalogue.
        mirror: local mirror directory, the last source tried; ``REPRO_DATA_MIRROR`` if not given.
        accept_terms: whether the user accepts the set's terms, if any.

    Raises:
        UsageError: no such set or mirror, or the terms were not accepted.
        ReproError: every source failed (the message lists each), or the cache cannot be written.
    """
    dataset = load_set(name)
    mirror = _mirror(mirror)
    target = location(dataset)
    if _is_sound(dataset):
        return target
    if dataset.terms is not None and not accept_terms:
        raise UsageError(
            f"{dataset.name} has terms of use ({dataset.terms}): read them, then run: "
            f"{fetch_command(dataset)}"
        )
    try:
        locks = data_dir() / ".locks"
        locks.mkdir(parents=True, exist_ok=True)
        lock = FileLock(locks / f"{dataset.name}.lock")
        try:
            held = lock.acquire(timeout=0)
        except Timeout:
            _say(f"{dataset.name}: waiting for another process that fetches it")
            held = lock.acquire()
        with held:
            if not _is_sound(dataset):  # another process may have fetched it while this one waited
                _fetch_from_any(dataset, mirror)
    except OSError as error:
        if error.errno not in _STORAGE_ERRORS:
            raise
        raise _cannot_keep(dataset, error) from error
    return target


def load(name: str, mirror: Path | None = None) -> Mapping[str, Any]:
    """Return the content of the set ``name``, fetching it first if it is not in the cache.

    Arrays are memory-mapped and read-only; files are given by their path. Hashes are compared when
    the set is fetched and by ``verify``, not here.

    Raises:
        UsageError, ReproError: as ``fetch``; a damaged array is a ``BadContentError``.
    """
    dataset = load_set(name)
    if not is_cached(dataset):
        fetch(name, mirror)
    try:
        content = {key: spec.read(_file(dataset, key)) for key, spec in dataset.content.items()}
    except BadContentError as error:
        raise _damaged(dataset, error) from error
    lengths: dict[str, set[int]] = {}
    for key, value in content.items():
        if not isinstance(value, Path):
            lengths.setdefault(key.partition("_")[0], set()).add(len(value))
    for split, found in lengths.items():
        if len(found) > 1:
            numbers = ", ".join(map(str, sorted(found)))
            raise _damaged(
                dataset, f"its {split} arrays have different numbers of items ({numbers})"
            )
    return content


def verify(name: str) -> None:
    """Read the whole set ``name`` in the cache again and compare its hashes.

    Raises:
        UsageError: no such set.
        BadContentError: it is not in the cache, or something in it has changed.
    """
    dataset = load_set(name)
    if not is_cached(dataset):
        raise BadContentError(f"{name} is not in the cache; run: {fetch_command(dataset)}")
    try:
        recorded = json.loads((location(dataset) / MANIFEST).read_bytes())["sha256"]
        content = {key: spec.read(_file(dataset, key)) for key, spec in dataset.content.items()}
        if _digests(dataset, content) != recorded:
            raise BadContentError("differs from what was fetched")
    except (BadContentError, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(dataset, error) from error


def _damaged(dataset: DataSet, why: object) -> BadContentError:
    return BadContentError(
        f"{dataset.name} is damaged: {why}; to replace it, run: {fetch_command(dataset)}"
    )


def fetch_command(dataset: DataSet) -> str:
    """Return the command that fetches a set, with every option it needs."""
    command = f"repro data fetch {dataset.name}"
    if _is_mirrored_only(dataset):
        command += " --mirror DIR"
    return command if dataset.terms is None else f"{command} --accept-terms"


def require_available(name: str) -> None:
    """Check that ``load`` can return the set without any action by the user.

    Raises:
        UsageError: the set is not in the cache, and the user has to accept its terms or name a
            mirror; the message gives the command.
    """
    dataset = load_set(name)
    if is_cached(dataset):
        return
    if dataset.terms is not None or (_is_mirrored_only(dataset) and _mirror(None) is None):
        terms = f"; its terms of use are at {dataset.terms}" if dataset.terms else ""
        msg = f"{dataset.name} is not in the cache; run: {fetch_command(dataset)}{terms}"
        raise UsageError(msg)


def location(dataset: DataSet) -> Path:
    """Return the directory of the set, which may not exist yet."""
    return data_dir() / f"{dataset.name}-{dataset.fingerprint}"


def is_cached(dataset: DataSet) -> bool:
    """Return whether the set is in the cache; an existing directory is always complete."""
    return (location(dataset) / MANIFEST).is_file()


def _is_sound(dataset: DataSet) -> bool:
    try:
        verify(dataset.name)
    except BadContentError:
        return False
    return True


def _fetch_from_any(dataset: DataSet, mirror: Path | None) -> None:
    failures: list[str] = []
    downloads = data_dir() / ".downloads" / dataset.name
    for source in dataset.sources:
        _say(f"{dataset.name}: fetching from {source.name}")
        workspace = downloads / re.sub(r"[^A-Za-z0-9.]+", "_", source.name)
        workspace.mkdir(parents=True, exist_ok=True)
        try:
            content = source.fetch(Request(workspace, mirror, partial(_load_sound, mirror=mirror)))
            digests = _digests(dataset, content)
        except (SourceUnavailableError, BadContentError) as error:
            if isinstance(error, BadContentError):
                shutil.rmtree(workspace)  # resuming this download would give the same bad content
            failures.append(f"  {source.name}: {error}")
            _say(f"{dataset.name}: not from {source.name}: {error}")
            continue
        _install(dataset, content, {"source": source.name, "sha256": digests}, workspace)
        shutil.rmtree(downloads)
        return
    raise ReproError(
        f"{dataset.name} could not be fetched; nothing was cached. Sources tried:\n"
        + "\n".join(failures)
        + (_CONNECT if any(source.name == "mirror" for source in dataset.sources) else "")
    )


def _load_sound(name: str, mirror: Path | None) -> Mapping[str, Any]:
    """Return the content of the base of a derived set; a damaged base is fetched again."""
    fetch(name, mirror)
    return load(name)


def _digests(dataset: DataSet, content: Mapping[str, Value]) -> dict[str, str]:
    if content.keys() != dataset.content.keys():
        raise BadContentError(f"expected {sorted(dataset.content)}, got {sorted(content)}")
    digests = {}
    for key, spec in dataset.content.items():
        try:
            digests[key] = spec.digest(content[key])
        except BadContentError as error:
            raise BadContentError(f"{key}: {error}") from error
        if spec.sha256 is not None and digests[key] != spec.sha256:
            raise BadContentError(f"{key}: SHA-256 is {digests[key]}, must be {spec.sha256}")
    return digests


def _install(
    dataset: DataSet, content: Mapping[str, Value], manifest: Mapping[str, Any], workspace: Path
) -> None:
    try:
        with new_directory(location(dataset)) as whole:
            for key, spec in dataset.content.items():
                value, place = content[key], whole / f"{key}{spec.suffix}"
                if isinstance(value, Path) and workspace in value.parents:
                    shutil.move(value, place)  # a copy would take as much room again
                else:
                    spec.write(value, place)
            text = json.dumps({"name": dataset.name, **manifest}, indent=2) + "\n"
            (whole / MANIFEST).write_text(text)
    except OSError as error:  # NumPy's error for a full disk has no errno
        raise _cannot_keep(dataset, error) from error


def _cannot_keep(dataset: DataSet, error: OSError) -> ReproError:
    return ReproError(
        f"cannot keep {dataset.name} ({format_bytes(dataset.size)}) in {data_dir()}: "
        f"{error.strerror or error}; nothing was cached. Set REPRO_DATA_DIR to a directory with "
        "room that can be written"
    )


def _file(dataset: DataSet, key: str) -> Path:
    return location(dataset) / f"{key}{dataset.content[key].suffix}"


def _is_mirrored_only(dataset: DataSet) -> bool:
    return all(source.name == "mirror" for source in dataset.sources)


def _mirror(given: Path | None) -> Path | None:
    variable = os.environ.get("REPRO_DATA_MIRROR")
    mirror = given or (Path(variable) if variable else None)
    if mirror is not None and not mirror.is_dir():
        msg = f"mirror {mirror} is not a directory; give one with the layout in docs/data.md"
        raise UsageError(msg)
    return mirror


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
