"""Look up results in the records of earlier runs."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from repro.measurement.lengths import beginning_of, course_of, epochs_of, is_course
from repro.measurement.records import Record, profile_of, read_run, run_files, together

_TRAINED = ("grid", "run")


class PriorResults:
    """The current results of one artifact and one profile, taken from all runs together.

    A result counts as recorded if the newest one of the same kind, point and seed has the same
    settings. These decide the computation, including the engine. Commit, library versions and
    machine may differ, since the tables also combine results from all of them. A result without
    settings counts only if its run had the same configuration. Results from a dirty working tree do
    not count, because nobody can reproduce them. Nor do runs that failed for lack of memory: more
    may be free now. A run on clouds also answers for shorter ones.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        """Take the records; none by default, so that everything is computed again."""
        self._metrics = {}
        for record in filter(_counts, records):
            metrics = dict(record.metrics)
            at = _key(record.kind, record.point, record.seed, metrics.get("settings"))
            self._metrics[at] = metrics

    @classmethod
    def of(
        cls, directory: Path, profile: str, having: Mapping[str, Any], *, settings_tell: bool
    ) -> "PriorResults":
        """Read the run files of ``profile`` in ``directory``.

        Args:
            directory: the results of one artifact.
            profile: the profile in their records.
            having: configuration fields and their required values; results of runs with other
                values are left out.
            settings_tell: whether results with settings count whatever the configuration.

        Raises:
            ReproError: a file cannot be read.
        """

        def counts(record: Record) -> bool:
            return _counts(record) and (
                (settings_tell and "settings" in record.metrics)
                or all(record.config.get(name) == value for name, value in having.items())
            )

        paths = [path for path in run_files(directory) if profile_of(path) == profile]
        runs = [read_run(path) for path in paths]
        return cls(
            together(
                clean
                for run in runs
                # before newer ones replace older ones
                if (clean := [record for record in run if counts(record)])
            )
        )

    def metrics(
        self, kind: str, point: Mapping[str, Any], seed: int | None, settings: object
    ) -> dict[str, Any] | None:
        """Return the metrics of a recorded result, or ``None`` if there is none."""
        found = self._metrics.get(_key(kind, point, seed, settings))
        if found is None or not is_course(settings):
            return found
        epochs = int(settings["epochs"])
        return beginning_of(found, epochs) if epochs <= epochs_of(found) else None


def _key(kind: str, point: Mapping[str, Any], seed: int | None, settings: object) -> bytes:
    course = course_of(settings) if is_course(settings) else settings
    return msgspec.json.encode((kind, point, seed, course), order="deterministic")


def _counts(record: Record) -> bool:
    _, dirty = record.code
    failed = record.kind in _TRAINED and record.metrics.get("out_of_memory")
    return not (dirty or failed)
