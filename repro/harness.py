"""Runs an artifact and writes its records: whole, or not at all."""

import contextlib
import dataclasses
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from repro.artifacts.base import Artifact, Config, Context, Result
from repro.core import atomic
from repro.core.leftovers import sweep
from repro.execution.dry_run import DryRunExecutor, UnknownRunsError
from repro.execution.executor import Executor
from repro.execution.local import LocalExecutor
from repro.measurement import environment
from repro.measurement.environment import Environment
from repro.measurement.prior_results import PriorResults
from repro.measurement.records import (
    CUSTOM,
    RUN_FILE,
    SCHEMA_VERSION,
    Profile,
    Record,
    validate,
    write_run,
)
from repro.measurement.result_cache import ResultCache
from repro.training.tidy import tidy

_WHERE = ("device", "engine")  # fields of a configuration that say where a run is made, by what


def run_artifact(
    artifact: Artifact,
    profile: Profile,
    config: Config,
    out: Path,
    executor: Executor | None = None,
    *,
    again: bool = True,
) -> Path | None:
    """Run ``artifact`` and return the new file of records under ``out/<slug>``.

    Finished points of a killed run are reused, if configuration, code, versions and machine are
    the same. A configuration that is not the profile's, runs left out apart,
    is recorded as custom.

    Args:
        artifact: what to run.
        profile: its name in records, if ``config`` is the profile's.
        config: its configuration.
        out: directory of the results.
        executor: what trains its runs; by default processes of this machine, one for each core.
        again: whether to make everything again; if not, results that earlier records have are
            neither made nor recorded again, and there is no file if nothing is new.

    Raises:
        ReproError: ``out`` cannot be written (found before any work), or a part of the run failed;
            no file of records is left then.
    """
    directory = out / artifact.slug
    atomic.require_writable(directory)
    sweep(directory, RUN_FILE.pattern)
    if executor is None:
        here = environment.capture()
        executor = LocalExecutor(here, workers=here.cores)
    name = _recorded_as(artifact, profile, config)
    prior = _prior_results(artifact, name, config, directory, again=again)
    context = _context(artifact, config, executor, prior)
    tidy(context.result_cache.directory)
    before, records = 0, []
    try:
        for result in artifact.run(config, context):
            if _is_recorded(result, prior):
                before += 1
            else:
                records.append(_record(artifact, name, config, result, executor.environment))
        path = write_run(directory, records) if records or not before else None
    except BaseException:
        with contextlib.suppress(OSError):
            directory.rmdir()  # only if nothing was in it before
        raise
    context.result_cache.clear()
    return path


def dry_run_artifact(
    artifact: Artifact,
    profile: Profile,
    config: Config,
    out: Path,
    executor: DryRunExecutor,
    *,
    again: bool,
) -> int:
    """Have ``executor`` see the runs that ``run_artifact`` would train; nothing is trained.

    Returns:
        How many results earlier records have.
    """
    name = _recorded_as(artifact, profile, config)
    prior = _prior_results(artifact, name, config, out / artifact.slug, again=again)
    before = 0
    with contextlib.suppress(UnknownRunsError):
        for result in artifact.run(config, _context(artifact, config, executor, prior)):
            before += _is_recorded(result, prior)
    return before


def _recorded_as(artifact: Artifact, profile: Profile, config: Config) -> str:
    return profile if is_of_profile(artifact, profile, config) else CUSTOM


def _prior_results(
    artifact: Artifact, name: str, config: Config, directory: Path, *, again: bool
) -> PriorResults:
    """Return the results of a profile, or of custom ones like this, runs left out apart."""
    if again:
        return PriorResults()
    values = config_dict(config).items() if name == CUSTOM else ()
    alike = {field: value for field, value in values if field not in artifact.selector_fields}
    return PriorResults.of(directory, name, having=alike)


def _is_recorded(result: Result, prior: PriorResults) -> bool:
    settings = result.metrics.get("settings")
    return prior.metrics(result.kind, result.point, result.seed, settings) is not None


def _context(
    artifact: Artifact, config: Config, executor: Executor, prior: PriorResults
) -> Context:
    here = executor.environment
    cache = ResultCache(artifact.slug, _identity(config, here))
    return Context(here, cache, workers=here.cores, executor=executor, prior_results=prior)


def is_of_profile(artifact: Artifact, profile: Profile, config: Config) -> bool:
    """Tell whether ``config`` makes the runs of ``profile``, or some of them, and no others.

    A run under another name of a value that the profile has (``Artifact.aliases``) is one of
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
    """Return the settings that a reused point of an earlier run must share."""
    return {
        "config": config_dict(config),
        "source": here.source_sha256,
        "versions": here.versions,
        "cpu": here.cpu,
        "gpu": here.gpu,
    }
