"""Runs an artifact and writes its records: whole, or not at all."""

import contextlib
import dataclasses
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from repro.artifacts.base import Artifact, Config, Context, Result
from repro.core import atomic
from repro.measurement import environment
from repro.measurement.environment import Environment
from repro.measurement.point_store import PointStore
from repro.measurement.records import CUSTOM, SCHEMA_VERSION, Profile, Record, validate, write_run

_WHERE = ("device", "engine")  # fields of a configuration that say where a run is made, by what


def run_artifact(artifact: Artifact, profile: Profile, config: Config, out: Path) -> Path:
    """Run ``artifact`` and return the new file of records under ``out/<slug>``.

    Points that a killed run of the same configuration had finished under the same code, versions
    and machine are taken over. A configuration that is not the profile's, cells left out apart,
    is recorded as custom.

    Raises:
        ReproError: ``out`` cannot be written (found before any work), or a part of the run failed;
            no file of records is left then.
    """
    directory = out / artifact.slug
    atomic.require_writable(directory)
    here = environment.capture()
    recorded = profile if is_of_profile(artifact, profile, config) else CUSTOM
    journal = PointStore(artifact.slug, _identity(config, here))
    context = Context(environment=here, journal=journal, workers=here.cores)
    try:
        records = [
            _record(artifact, recorded, config, result, here)
            for result in artifact.run(config, context)
        ]
        path = write_run(directory, records)
    except BaseException:
        with contextlib.suppress(OSError):
            directory.rmdir()  # only if nothing was in it before
        raise
    journal.clear()
    return path


def is_of_profile(artifact: Artifact, profile: Profile, config: Config) -> bool:
    """Tell whether ``config`` runs the cells of ``profile``, or some of them, and no others.

    Where and by which engine does not matter: that stands in every record.
    """
    whole = config_dict(artifact.profiles[profile])
    return all(
        set(value) <= set(whole[name]) if name in artifact.scope else value == whole[name]
        for name, value in config_dict(config).items()
        if name not in _WHERE
    )


def config_dict(config: Config) -> dict[str, Any]:
    """Return ``config`` as what JSON can hold."""
    values: dict[str, Any] = dataclasses.asdict(config)
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in values.items()
    }


def _record(
    artifact: Artifact, profile: str, config: Config, result: Result, here: Environment
) -> Record:
    record = Record(
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
    validate(record, artifact.slug)  # now, not after hours of further work
    return record


def _identity(config: Config, here: Environment) -> dict[str, Any]:
    """Return what a point of an earlier run must agree with to be taken over."""
    return {
        "config": config_dict(config),
        "source": here.source_sha256,
        "versions": here.versions,
        "cpu": here.cpu,
        "gpu": here.gpu,
    }
