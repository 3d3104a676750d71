"""Compute the range of values that other settings give where the paper leaves settings open.

This range is the evidence for the verdict "not decidable". For accuracies it comes from the
artifact ``elasticzo_discrepancies``, which changes one open setting at a time around the runs of
Tables 1 and 2. For loss curves it comes from the figure's own runs with earlier settings.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import chain, product
from statistics import fmean
from typing import Any

import msgspec

from repro.claims.elasticzo import CLOUD_EPOCHS, QUANTITIES
from repro.claims.loss_curves import Contrast, Losses
from repro.claims.quantity import Accuracy, Gaps, Key, key
from repro.claims.verdict import TRAINED_PROFILE
from repro.core.validation import CLOUD_POINTS
from repro.measurement.lengths import course_of
from repro.measurement.records import Record, of_kind

_CELL = ("dataset", "angle", "precision", "method")
_IMAGES = ("images", "turn", "interpolation")
_START = ("start_lr", "start_batch")
"""Settings of the network before it is fine-tuned."""
_RULED_OUT = {"images": "first"}
"""The first 1,024 test images were tried, but the paper draws them at random (section 5.1)."""

Range = tuple[float, float]


def plausible_ranges(records: Iterable[Record]) -> dict[str, Range]:
    """Return the lowest and highest mean that other settings gave, by claim id.

    An accuracy has one value for each group of settings. A gap between two cells has one value for
    each choice of test images and of the network before fine-tuning, which both cells share.

    Only runs of the published length count, and of the engines that trained a group the one with
    the most runs. Runs of PointNet on fewer points, or for fewer epochs, than the paper may have
    used do not count.
    """
    accuracies: dict[Key, dict[Key, dict[str, list[float]]]] = {}
    for record in records:
        point = record.point
        if record.profile != TRAINED_PROFILE:
            continue
        if _RULED_OUT.items() <= point.items() or _is_cut(record.metrics["settings"]):
            continue
        if record.kind == "run" and not record.metrics["test_accuracy"]:
            continue  # it diverged before its first evaluation
        cell = key({name: point[name] for name in _CELL if name in point})
        value = (
            record.metrics["accuracy"]
            if record.kind == "evaluation"
            else record.metrics["test_accuracy"][-1]
        )
        engines = accuracies.setdefault(cell, {}).setdefault(key(point), {})
        engines.setdefault(record.engine, []).append(100 * value)
    means: dict[Key, dict[Key, float]] = {}
    for cell, groups in accuracies.items():
        for settings, engines in groups.items():
            most = max(engines, key=lambda engine: len(engines[engine]))
            means.setdefault(cell, {})[settings] = fmean(engines[most])
    found = {}
    for claim_id, quantity in QUANTITIES.items():
        if isinstance(quantity, Accuracy):
            values = [list(means.get(key(quantity.point), {}).values())]
        else:
            values = [
                [*_gaps(means.get(key(low), {}), means.get(key(high), {}))]
                for low, high in quantity.pairs
            ]
        if all(values):  # of several gaps the smallest counts, or the largest
            choose = max if isinstance(quantity, Gaps) and quantity.pick == "largest" else min
            found[claim_id] = choose(map(min, values)), choose(map(max, values))
    return found


def contrast_range(contrast: Contrast, records: Iterable[Record]) -> Range | None:
    """Return the lowest and highest mean of a contrast that all settings in ``records`` gave.

    Each setting of one curve is combined with each of the other, by the same engine, device and
    data set. Of several runs of a setting and seed the newest counts, and of several pairs the
    smallest, as in the finding. ``None`` if no pair has several settings.
    """
    trained: dict[Key, dict[tuple[tuple[str, ...], bytes], dict[int | None, Losses]]] = {}
    for record in sorted(of_kind(records, "run"), key=lambda one: one.utc):
        losses = record.metrics[f"{contrast.kind}_loss"]
        if record.profile == TRAINED_PROFILE and len(losses) > contrast.epochs:
            settings = msgspec.json.encode(
                course_of(record.metrics["settings"]), order="deterministic"
            )
            of_point = trained.setdefault(key(record.point), {})
            by = record.engine, record.device, record.dataset
            of_point.setdefault((by, settings), {})[record.seed] = losses
    ranges, tried = [], 0
    for (curve, other), number in product(contrast.pairs, contrast.numbers.values()):
        means = defaultdict(list)
        for (made, settings), low in trained.get(key(curve), {}).items():
            if other is None:
                means[settings, b""].append(fmean(map(number, low.values())))
                continue
            for (made_other, others), high in trained.get(key(other), {}).items():
                seeds = low.keys() & high.keys()
                if made_other == made and seeds:
                    gaps = [number(low[seed]) - number(high[seed]) for seed in seeds]
                    means[settings, others].append(fmean(gaps))
        if not means:
            return None
        ends = [*chain.from_iterable(means.values())]
        ranges.append((min(ends), max(ends)))
        tried = max(tried, len(means))
    lows, highs = zip(*ranges, strict=True)
    return (min(lows), min(highs)) if tried > 1 else None


def _is_cut(settings: Mapping[str, Any]) -> bool:
    points = settings.get("points")
    return points is not None and (points < CLOUD_POINTS or settings["epochs"] < min(CLOUD_EPOCHS))


def _gaps(low: Mapping[Key, float], high: Mapping[Key, float]) -> Iterable[float]:
    """Yield the gaps between groups from the same network, evaluated on the same images."""
    same = defaultdict(list)
    for settings, value in low.items():
        same[_of(settings, *_IMAGES, *_START)].append(value)
    for settings, value in high.items():
        if _of(settings, *_IMAGES):
            yield from (value - other for other in same[_of(settings, *_IMAGES, *_START)])


def _of(settings: Key, *names: str) -> Key:
    return frozenset((name, value) for name, value in settings if name in names)
