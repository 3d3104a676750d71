"""Runs an artifact and writes its records: whole, or not at all."""

import contextlib
import dataclasses
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from repro.artifacts.base import Artifact, Config, Context, Result
from repro.core import atomic
from repro.core.leftovers import sweep
from repro.execution.executor import Executor
from repro.execution.local import LocalExecutor
from repro.execution.survey import Survey, UnknownCellsError
from repro.measurement import environment
from repro.measurement.environment import Environment
from repro.measurement.point_store import PointStore
from repro.measurement.recorded import Recorded
from repro.measurement.records import (
    CUSTOM,
    RUN_FILE,
    SCHEMA_VERSION,
    Profile,
    Record,
    validate,
    write_run,
)
from repro.training.tidy import tidy

_WHERE = ("device", "engine")  # fields of a configuration that say where a run is made, by what


def run_artifact(artifact: Artifact, profile: Profile, config: Config, out: Path) -> Path:
    """Run ``artifact`` here and return the new file of records under ``out/<slug>``.

    Points that a killed run of the same configuration had finished under the same code, versions
    and machine are taken over. A configuration that is not the profile's, cells left out apart,
    is recorded as custom.

    Raises:
        ReproError: ``out`` cannot be written (found before any work), or a part of the run failed;
            no file of records is left then.
    """
    here = environment.capture()
    executor = LocalExecutor(here, workers=here.cores)
    path = sweep_artifact(artifact, profile, config, out, executor, again=True)
    assert path is not None  # noqa: S101 - nothing stands, so that something is new
    return path


def sweep_artifact(
    artifact: Artifact,
    profile: Profile,
    config: Config,
    out: Path,
    executor: Executor,
    *,
    again: bool,
) -> Path | None:
    """Run ``artifact`` by ``executor`` and return the new file of records, if anything was new.

    Args:
        artifact: what to run.
        profile: what it is recorded as, if ``config`` is of it.
        config: its configuration.
        out: directory of the results; what stands there is neither made nor recorded again.
        executor: what runs its cells.
        again: whether to make everything again, whatever stands in earlier records.

    Raises:
        ReproError: as ``run_artifact`` does.
    """
    directory = out / artifact.slug
    atomic.require_writable(directory)
    sweep(directory, RUN_FILE.pattern)
    here, name = executor.environment, _recorded_as(artifact, profile, config)
    standing = Recorded() if again else _standing(artifact, name, config, directory)
    context = _context(artifact, config, executor, standing)
    tidy(context.journal.directory)
    before, records = 0, []
    try:
        for result in artifact.run(config, context):
            if _stands(result, standing):
                before += 1
            else:
                records.append(_record(artifact, name, config, result, here))
        path = write_run(directory, records) if records or not before else None
    except BaseException:
        with contextlib.suppress(OSError):
            directory.rmdir()  # only if nothing was in it before
        raise
    context.journal.clear()
    return path


def survey_artifact(
    artifact: Artifact,
    profile: Profile,
    config: Config,
    out: Path,
    survey: Survey,
    *,
    again: bool,
) -> int:
    """Have ``survey`` see the cells that ``sweep_artifact`` would run; nothing is run.

    Returns:
        How many results stand in earlier records.
    """
    name = _recorded_as(artifact, profile, config)
    standing = Recorded() if again else _standing(artifact, name, config, out / artifact.slug)
    before = 0
    with contextlib.suppress(UnknownCellsError):
        for result in artifact.run(config, _context(artifact, config, survey, standing)):
            before += _stands(result, standing)
    return before


def _recorded_as(artifact: Artifact, profile: Profile, config: Config) -> str:
    return profile if is_of_profile(artifact, profile, config) else CUSTOM


def _standing(artifact: Artifact, name: str, config: Config, directory: Path) -> Recorded:
    """Return what stands of a profile, or of custom runs like this one, cells left out apart."""
    alike = {} if name != CUSTOM else _without_selectors(artifact, config)
    return Recorded.of(directory, name, having=alike)


def _without_selectors(artifact: Artifact, config: Config) -> dict[str, Any]:
    return {
        n: value for n, value in config_dict(config).items() if n not in artifact.selector_fields
    }


def _stands(result: Result, standing: Recorded) -> bool:
    settings = result.metrics.get("settings")
    return standing.metrics(result.kind, result.point, result.seed, settings) is not None


def _context(artifact: Artifact, config: Config, executor: Executor, standing: Recorded) -> Context:
    here = executor.environment
    journal = PointStore(artifact.slug, _identity(config, here))
    return Context(here, journal, workers=here.cores, executor=executor, recorded=standing)


def is_of_profile(artifact: Artifact, profile: Profile, config: Config) -> bool:
    """Tell whether ``config`` runs the cells of ``profile``, or some of them, and no others.

    A cell under another name of a value that the profile has (``Artifact.aliases``) is one of
    them. Where and by which engine does not matter, for that stands in every record, unless the
    artifact is timed.
    """
    free = () if artifact.timed else _WHERE
    whole = config_dict(artifact.profiles[profile])

    def is_part(values: list[Any], of: list[Any]) -> bool:
        return named(values) <= named(of)

    def named(values: list[Any]) -> set[Any]:
        return {artifact.aliases.get(value, value) for value in values}

    return all(
        is_part(value, whole[name]) if name in artifact.selector_fields else value == whole[name]
        for name, value in config_dict(config).items()
        if name not in free
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
