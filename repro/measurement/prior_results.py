"""Look up results in the records of earlier runs."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from repro.measurement.records import Record, read_run, run_files, together


class PriorResults:
    """The current results of one artifact and one profile, taken from all runs together.

    A result counts as recorded if one of the same kind, point, seed and settings exists. These
    decide the computation, including the engine. Commit, library versions and machine may differ,
    since the tables also combine results from all of them. Results from a dirty working tree do not
    count, because nobody can reproduce them.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        """Take the records; none by default, so that everything is computed again."""
        self._metrics = {}
        for record in records:
            # the code that trained, which may be older than the record
            made_by, metrics = record.metrics.get("trained", {}), dict(record.metrics)
            if not made_by.get("dirty", record.environment.dirty):
                at = _key(record.kind, record.point, record.seed, metrics.get("settings"))
                self._metrics[at] = metrics

    @classmethod
    def of(cls, directory: Path, profile: str, having: Mapping[str, Any]) -> "PriorResults":
        """Read the run files of ``profile`` in ``directory``.

        Args:
            directory: the results of one artifact.
            profile: the profile in their records.
            having: configuration fields and their required values; runs with other values are left
                out.

        Raises:
            ReproError: a file cannot be read.
        """
        paths = [path for path in run_files(directory) if path.name.startswith(f"{profile}-")]
        runs = [read_run(path) for path in paths]
        return cls(
            together(
                run
                for run in runs
                if all(run[0].config.get(name) == value for name, value in having.items())
            )
        )

    def metrics(
        self, kind: str, point: Mapping[str, Any], seed: int | None, settings: object
    ) -> dict[str, Any] | None:
        """Return the metrics of a recorded result, or ``None`` if there is none."""
        return self._metrics.get(_key(kind, point, seed, settings))


def _key(kind: str, point: Mapping[str, Any], seed: int | None, settings: object) -> bytes:
    return msgspec.json.encode((kind, point, seed, settings), order="deterministic")
