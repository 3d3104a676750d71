"""Make the notebook's tables from records, as data frames."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from repro.artifacts.elasticzo_fig7.times import ENGINE_LABELS, PRECISION_LABELS, Times
from repro.claims.execution_time import PHASES, SHARES
from repro.claims.quantity import Point
from repro.core.names import METHOD_LABELS
from repro.measurement.records import Record

_INDEX = ["B", "precision", "method"]


def seconds(records: Sequence[Record]) -> pd.DataFrame:
    """Return the milliseconds of each phase for a thousand images, and their ratios."""
    times = Times(records)
    (images,) = times.images
    rows = []
    for point in _ordered(times):
        for engine in times.engines:
            if times.has(engine, [point]):
                scale = 1e6 / images
                by_phase = {
                    label: round(scale * times.seconds(engine, point, (phase,)), 2)
                    for phase, label in PHASES.items()
                }
                total = round(scale * times.seconds(engine, point), 2)
                rows.append(_of(point) | {"by": ENGINE_LABELS[engine]} | by_phase | {"all": total})
    return pd.DataFrame(rows).set_index([*_INDEX, "by"])


def shares(records: Sequence[Record]) -> pd.DataFrame:
    """Return the published shares and ours, in per cent of the epoch."""
    times = Times(records)
    rows = []
    for point in _ordered(times):
        for share in SHARES:
            if share.precision == point["precision"] and point["method"] in share.methods:
                phases = " + ".join(PHASES[phase] for phase in share.phases)
                ours = {
                    ENGINE_LABELS[engine]: f"{times.share(engine, point, share.phases):.2f}"
                    for engine in times.engines
                    if times.has(engine, [point])
                }
                rows.append(_of(point) | {"phase": phases, "published": share.printed} | ours)
    return pd.DataFrame(rows).fillna("").set_index([*_INDEX, "phase"])


def ratios(records: Sequence[Record]) -> pd.DataFrame:
    """Return ratios of epoch times, each the median over epochs.

    The ratios are FP32 over INT8 (published: 1.38 to 1.42), ElasticZO over Full ZO and PyTorch over
    the engine. The last column is the speed of the engine's forward passes in per cent of the
    machine's peak.
    """
    times = Times(records)
    rows = []
    for point in _ordered(times):
        row: dict[str, Any] = _of(point)
        full_zo, fp32 = {**point, "method": "full_zo"}, {**point, "precision": "fp32"}
        for engine in times.engines:
            label = ENGINE_LABELS[engine]
            if times.has(engine, [point, fp32]) and point["precision"] == "int8":
                row[f"FP32 over INT8, {label}"] = f"{times.ratio(engine, fp32, point):.2f}"
            if times.has(engine, [point, full_zo]) and point["method"] != "full_zo":
                row[f"over Full ZO, {label}"] = f"{times.ratio(engine, point, full_zo):.3f}"
        if times.has("torch", [point]) and times.has("native", [point]):
            row["PyTorch over engine"] = f"{times.gain(point):.2f}"
        if times.has("native", [point]):
            row["engine's Forward, % of peak"] = f"{times.of_peak(point):.0f}"
        rows.append(row)
    return pd.DataFrame(rows).fillna("").set_index(_INDEX)


def _ordered(times: Times) -> list[Point]:
    return [
        point
        for batch in times.batches
        for precision in PRECISION_LABELS
        for point in times.of_batch(batch, precision)
    ]


def _of(point: Point) -> dict[str, Any]:
    return {
        "B": point["batch"],
        "precision": PRECISION_LABELS[str(point["precision"])],
        "method": METHOD_LABELS[str(point["method"])],
    }
