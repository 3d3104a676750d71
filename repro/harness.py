"""Run an artifact and write all its records, or none."""

import contextlib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from repro.artifacts.base import Artifact, Config, Context, Result, config_dict
from repro.core import atomic
from repro.core.errors import UnknownRunsError
from repro.core.leftovers import remove_leftovers, tidy
from repro.execution.local import LocalExecutor
from repro.execution.schedule import DryRunExecutor, Executor
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
from repro.ondevice.build import module_path

_WHERE = ("device", "engine")  # fields of a configuration that name a run's machine and code


def run_artifact(
    artifact: Artifact,
    profile: Profile,
    config: Config,
    out: Path,
    executor: Executor | None = None,
    *,
    again: bool = True,
    models: Path | None = None,
) -> Path | None:
    """Run ``artifact`` and return the new file of records under ``out/<slug>``.

    Finished points of a killed run are reused if configuration, code, versions and machine are the
    same. A configuration that differs from the profile's by more than left-out runs is recorded as
    custom.

    Args:
        artifact: what to run.
        profile: the profile recorded, if ``config`` belongs to it.
        config: its configuration.
        out: directory of the results.
        executor: trains the runs; by default in processes of this machine, one for each core.
        again: whether to repeat everything. If not, results in earlier records are neither computed
            nor recorded again, and no file is written if nothing is new.
        models: directory for the trained models, or ``None`` to save none.

    Raises:
        ReproError: ``out`` or ``models`` cannot be written (checked before any work), or a part of
            the run failed; then no file of records is written.
    """
    directory = out / artifact.slug
    atomic.require_writable(directory)
    if models is not None:
        atomic.require_writable(models)
    # a write removes only leftovers of the same name, which no later run file has
    remove_leftovers(directory, RUN_FILE.pattern)
    if executor is None:
        here = environment.capture()
        executor = LocalExecutor(here, workers=here.cores)
    name, context = _set_up(artifact, profile, config, directory, executor, again=again)
    cache = context.result_cache
    with cache.held():
        tidy(cache.directory)
        before, records = 0, []
        try:
            for result in artifact.run(config, replace(context, models=models)):
                if _is_recorded(result, context.prior_results):
                    before += 1
                else:
                    records.append(_record(artifact, name, config, result, executor.environment))
            # with neither new nor earlier results ``write_run`` refuses the empty run
            path = write_run(directory, records) if records or not before else None
        except BaseException:
            with contextlib.suppress(OSError):
                directory.rmdir()  # succeeds only if the directory is empty
            raise
        cache.clear()  # only now: until here a killed run resumes from it
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
    """Show ``executor`` the runs that ``run_artifact`` would train, without training them.

    Returns:
        The number of results in earlier records.
    """
    _, context = _set_up(artifact, profile, config, out / artifact.slug, executor, again=again)
    before = 0
    # a search cannot name its later runs before its first ones are trained
    with contextlib.suppress(UnknownRunsError):
        for result in artifact.run(config, context):
            before += _is_recorded(result, context.prior_results)
    return before


def _set_up(
    artifact: Artifact,
    profile: Profile,
    config: Config,
    directory: Path,
    executor: Executor,
    *,
    again: bool,
) -> tuple[str, Context]:
    """Return the profile to record and the context of the run, with the results of earlier ones.

    Of custom runs, those with the same configuration count, except for what it selects.
    """
    here, values = executor.environment, config_dict(config)
    name = profile if is_of_profile(artifact, profile, config) else CUSTOM
    prior = PriorResults()
    if not again:
        selected = artifact.selector_fields
        alike = {field: value for field, value in values.items() if field not in selected}
        prior = PriorResults.of(directory, name, alike, settings_tell=name != CUSTOM)
    identity = {
        "config": values,
        "source": here.source_sha256,
        "versions": here.versions,
        "cpu": here.cpu,
        "cpu_capability": here.cpu_capability,
        "onednn": here.onednn,
        "gpu": here.gpu,
        "engine": module_path().parent.name,  # a hash of its sources and tools
    }
    cache = ResultCache(artifact.slug, identity)
    return name, Context(here, cache, workers=here.cores, executor=executor, prior_results=prior)


def _is_recorded(result: Result, prior: PriorResults) -> bool:
    settings = result.metrics.get("settings")
    return prior.metrics(result.kind, result.point, result.seed, settings) is not None


def is_of_profile(artifact: Artifact, profile: Profile, config: Config) -> bool:
    """Return whether ``config`` selects only runs of ``profile``, all of them or some.

    A run with an alias of a value in the profile (``Artifact.aliases``) belongs to it. Seeds do not
    matter, since each is a run of its own, so that anyone can add some. Device and engine do not
    matter either, since every record states them, unless the artifact is timed.
    """
    whole = config_dict(artifact.profiles[profile])
    free = {"seeds"} & {*artifact.selector_fields}
    if not artifact.timed:
        # a true or false ``engine`` is no place: it says whether to measure the engine as well
        free |= {name for name in _WHERE if not isinstance(whole.get(name), bool)}

    def named(values: list[Any]) -> set[Any]:
        return {artifact.aliases.get(value, value) for value in values}

    return all(
        named(value) <= named(whole[name])
        if name in artifact.selector_fields
        else value == whole[name]
        for name, value in config_dict(config).items()
        if name not in free
    )


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
