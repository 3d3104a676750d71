"""Runs an artifact and writes its records: whole, or not at all."""

import dataclasses
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from repro.artifacts.base import Artifact, Config, Context, Result
from repro.core import atomic
from repro.measurement import environment
from repro.measurement.environment import Environment
from repro.measurement.records import SCHEMA_VERSION, Record, write_run


def run_artifact(artifact: Artifact, profile: str, config: Config, out: Path) -> Path:
    """Run ``artifact`` and return the new file of records under ``out/<slug>``.

    Points that a killed run had finished under the same code, versions and machine are taken over.

    Raises:
        ReproError: ``out`` cannot be written (found before any work), or a part of the run failed;
            no file of records is left then.
    """
    directory = out / artifact.slug
    atomic.require_writable(directory)
    here = environment.capture()
    context = Context(environment=here, workers=here.cores)
    records = [
        _record(artifact, profile, config, result, here) for result in artifact.run(config, context)
    ]
    return write_run(directory, records)


def config_dict(config: Config) -> dict[str, Any]:
    """Return ``config`` as what JSON can hold."""
    values: dict[str, Any] = dataclasses.asdict(config)
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in values.items()
    }


def _record(
    artifact: Artifact, profile: str, config: Config, result: Result, here: Environment
) -> Record:
    return Record(
        schema_version=SCHEMA_VERSION,
        artifact=artifact.slug,
        profile=profile,
        config=config_dict(config),
        seed=result.seed,
        kind=result.kind,
        point=dict(result.point),
        metrics=dict(result.metrics),
        utc=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        environment=here,
    )
