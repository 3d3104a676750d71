"""Results that stand in the records of earlier runs."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from repro.measurement.records import Record, read_run, run_files, together


class PriorResults:
    """Results of one artifact and one profile, as people read them from all runs together.

    A result counts as recorded if what people read has one of the same kind, point, seed and
    settings: all that decides what is computed, the engine included, whatever the commit, library
    versions or machine that computed it, since the tables, too, are put together from all of them.
    What a changed working tree computed does not count: nobody can make it again.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        """Take the records; none by default, for a run that makes everything anew."""
        self._metrics = {}
        for record in records:
            # the code that trained, where that is older than the record
            made_by, metrics = record.metrics.get("trained", {}), dict(record.metrics)
            if not made_by.get("dirty", record.environment.dirty):
                at = _key(record.kind, record.point, record.seed, metrics.get("settings"))
                self._metrics[at] = metrics

    @classmethod
    def of(cls, directory: Path, profile: str, having: Mapping[str, Any]) -> "PriorResults":
        """Read the run files of ``profile`` in ``directory``.

        Args:
            directory: the results of one artifact.
            profile: what they are recorded as.
            having: what the configuration of a run must have, by name; others are left out.

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
