"""Build the command that reproduces given records, with their engine, data sets and seeds."""

import json
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from repro.artifacts.base import Artifact, Config, config_dict
from repro.claims.quantity import Point
from repro.measurement.records import Record

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
    # a custom run is named by the profile from which it differs least
    profiles = {n: c for n, c in artifact.profiles.items() if newest.profile in (n, "custom")}
    name, profile = min(
        profiles.items(), key=lambda one: len(differing_options(config, one[1], apart))
    )
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
    words += chain.from_iterable(differing_options(config, profile, apart))
    return shlex.join(words)


def differing_options(
    config: Mapping[str, Any], profile: Config, apart: Collection[str] = ()
) -> list[list[str]]:
    """Return the words of each option by which ``config`` differs from the profile's.

    Args:
        config: the configuration of a record.
        profile: the present configuration of its profile.
        apart: fields to leave out.
    """
    return [
        _option(name, config[name])
        for name, usual in config_dict(profile).items()
        if name not in apart and config.get(name, usual) != usual
    ]


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
