"""Cache the finished points of a run, so a killed run resumes where it stopped.

Each point is one small file, written atomically and named by the hash of everything that decides
its value. If a file cannot be read, it is dropped and its point is computed again.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from repro.core import atomic
from repro.core.paths import cache_dir


class ResultCache:
    """A directory of finished points under the cache directory."""

    def __init__(self, name: str, identity: Mapping[str, Any]) -> None:
        """``identity`` is shared by all points (code, versions, machine)."""
        self.directory = cache_dir() / "points" / f"{name}-{_digest(identity)[:16]}"
        self._is_held = False
        self._lock: int | None = None

    def get(self, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the stored value of ``key``, or ``None`` if it is missing or cannot be read."""
        path = self._path(key)
        self._hold()
        try:
            value = json.loads(path.read_bytes())["value"]
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, RecursionError):
            value = None
        if not isinstance(value, dict):
            path.unlink(missing_ok=True)
            return None
        return value

    def put(self, key: Mapping[str, Any], value: Mapping[str, Any]) -> None:
        """Store ``value`` for ``key``."""
        content = json.dumps({"key": key, "value": value}).encode()
        atomic.replace(self._path(key), content)
        self._hold()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other runs with the same points from removing them in the block."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def clear(self) -> None:
        """Remove every point, unless another run holds them."""
        self._hold()
        if self._lock is not None:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            except OSError:  # a file system without locks
                pass
        shutil.rmtree(self.directory, ignore_errors=True)

    def _hold(self) -> None:
        """Lock the directory once it is there, if the points are to be held."""
        if self._is_held and self._lock is None:
            with contextlib.suppress(OSError):  # it is not there, or its file system has no locks
                self._lock = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
                fcntl.flock(self._lock, fcntl.LOCK_SH)

    def _path(self, key: Mapping[str, Any]) -> Path:
        return self.directory / f"{_digest(key)}.json"


def _digest(value: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
