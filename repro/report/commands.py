"""Build the command that reproduces given records, with their engine, data sets and seeds."""

import json
import shlex
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from typing import Any

from repro.artifacts.base import Artifact, config_dict
from repro.claims.quantity import Point
from repro.measurement.records import Profile, Record

_POINT_NAMES = {
    "datasets": "dataset",
    "angles": "angle",
    "precisions": "precision",
    "methods": "method",
    "batches": "batch",
}
"""Configuration fields that select training runs, and the names of their values in points."""
_ALWAYS = ("datasets", "seeds")


def command_of(artifact: Artifact, records: Sequence[Record]) -> str:
    """Return the command that reproduces ``records``.

    Data sets and seeds are always named, other selections only if they do not cover the whole
    profile, other settings only if the newest record's differ from the profile's. If both engines
    trained, ``--engine auto`` lets the native engine train every run it supports.
    """
    newest = max(records, key=lambda record: record.utc)
    config = newest.config
    apart = {*artifact.selector_fields, "engine", "device"}
    name, options = profile_and_options(artifact, newest, apart)
    profile = artifact.profiles[name]
    words = ["repro", "run", artifact.slug, "--profile", name]
    if isinstance(config.get("engine"), str):  # else it says whether the engine is measured, too
        engines = {record.engine for record in records if "trained" in record.metrics}
        words += ["--engine", engines.pop() if len(engines) == 1 else "auto"]
    usual = getattr(profile, "device", "cpu")
    if config.get("device", usual) != usual:
        words += ["--device", config["device"]]
    for field in (*_POINT_NAMES, "cloud_epochs", "seeds"):
        if field not in artifact.selector_fields:
            continue
        values = _values(field, records)
        whole = getattr(profile, field, ())
        if values and (field in _ALWAYS or set(values) != set(whole)):
            words += _option(field, values)
    return shlex.join([*words, *options])


def profile_and_options(
    artifact: Artifact, record: Record, apart: Collection[str] = ()
) -> tuple[Profile, list[str]]:
    """Return the profile of a record, and the options by which its configuration differs from it.

    For a custom run, or one of a former profile, it is the profile that needs the fewest options.

    Args:
        artifact: the artifact of the record.
        record: any record.
        apart: fields to leave out.
    """
    profiles = {n: config_dict(config) for n, config in artifact.profiles.items()}
    if record.profile in profiles:
        profiles = {record.profile: profiles[record.profile]}
    options = {
        profile: [
            _option(name, record.config[name])
            for name, usual in usuals.items()
            if name not in apart and record.config.get(name, usual) != usual
        ]
        for profile, usuals in profiles.items()
    }
    nearest = min(options, key=lambda profile: len(options[profile]))
    return nearest, [*chain.from_iterable(options[nearest])]


def _option(name: str, value: Any) -> list[str]:  # noqa: ANN401 - as JSON has it
    flag = "--" + name.replace("_", "-")
    if isinstance(value, bool):
        return [flag] if value else ["--no-" + flag[2:]]
    return [flag, *map(_word, value if isinstance(value, list) else [value])]


def _word(value: Any) -> str:  # noqa: ANN401 - as JSON has it
    return value if isinstance(value, str) else "None" if value is None else json.dumps(value)


def missing_command(artifact: Artifact, points: Iterable[Point]) -> str:
    """Return the command that computes ``points``, or the whole artifact if there are none."""
    words = ["repro", "run", artifact.slug, "--profile", "paper"]
    points = list(points)
    for field, name in _POINT_NAMES.items():
        asked = dict.fromkeys(point[name] for point in points if name in point)
        # without fine-tuning is no method to ask for, but the beginning of each
        known = getattr(artifact.profiles["paper"], field, ())
        values = [str(value) for value in asked if value in known]
        if values and field in artifact.selector_fields:
            words += [f"--{field}", *values]
    return shlex.join(words)


def _values(field: str, records: Iterable[Record]) -> list[Any]:
    """Return the distinct values of a command line option, in order."""
    found = set()
    if field == "cloud_epochs":  # the leading seeds share the shortest length
        lengths = {
            record.metrics["settings"]["epochs"]
            for record in records
            if "points" in record.metrics["settings"]
        }
        return [min(lengths)] if lengths else []
    for record in records:
        allowed = record.config.get(field, ())
        value = record.seed if field == "seeds" else record.point.get(_POINT_NAMES[field])
        if field == "datasets" and record.dataset in allowed:
            value = record.dataset
        if value in allowed:
            found.add(value)
    return sorted(found)
