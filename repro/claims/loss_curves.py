"""The ElasticZO paper's claims, made in words, on the loss curves of Figs. 2 and 3.

The paper gives no numbers for them, so each claim is a ranking: a number computed from one curve
exceeds the same number of another curve, or zero. Each statement says how we read the words.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Literal

from repro.claims.claim import Claim
from repro.claims.quantity import Point
from repro.core.names import IMAGE_SETS

Losses = Sequence[float]
"""Losses before training and after each epoch."""

_TREND = 10
_FEW = 3


@dataclass(frozen=True)
class Contrast:
    """The difference of a number between two loss curves."""

    numbers: Mapping[str, Callable[[Losses], float]]
    """Functions that compute the number from a curve, by label; a single one has an empty label."""
    kind: Literal["train", "test"]
    pairs: tuple[tuple[Point, Point | None], ...]
    """The curve, and the curve whose number is subtracted, if any. The least certain pair counts,
    as for gaps (``repro.claims.quantity``)."""
    epochs: int
    """Minimum number of epochs in a curve."""


def fluctuation(curve: Losses) -> float:
    """Return the mean distance of a loss from the mean of its neighbours, after epoch 10.

    A straight curve over three epochs does not fluctuate, however steep.
    """
    middles = range(_TREND + 1, len(curve) - 1)
    return fmean(abs(curve[at] - (curve[at - 1] + curve[at + 1]) / 2) for at in middles)


def late_fall(curve: Losses) -> float:
    """Return the mean loss of the ten epochs before the last ten, minus the last ten's mean."""
    return fmean(curve[-20:-10]) - fmean(curve[-10:])


def early_loss(curve: Losses) -> float:
    """Return the mean loss of the first ten epochs."""
    return fmean(curve[1:11])


def drop(curve: Losses, after: int) -> float:
    """Return by how much the loss falls at an epoch, beyond the trend of the ten epochs before.

    The fall is the mean of three epochs minus the mean of the next three.
    """
    before, since = curve[after - _FEW + 1 : after + 1], curve[after + 1 : after + _FEW + 1]
    start = curve[after - _TREND + 1 : after - _TREND + _FEW + 1]
    trend = (fmean(start) - fmean(before)) * _FEW / (_TREND - _FEW)
    return fmean(before) - fmean(since) - trend


def _points(precision: str, *methods: str) -> list[Point]:
    return [
        {"dataset": dataset, "precision": precision, "method": method}
        for dataset in IMAGE_SETS
        for method in methods
    ]


def _against(precision: str, method: str, *others: str) -> tuple[tuple[Point, Point], ...]:
    """Return the curves of ``method`` with each of ``others`` on the same data set."""
    return tuple(({**other, "method": method}, other) for other in _points(precision, *others))


_fig2 = partial(
    Claim,
    paper="elasticzo",
    section="5.2, Fig. 2",
    artifact="elasticzo_fig2",
    published=0,
    unit="nats",
    basis="trained",
    relation="at least",
    unknown=("learning rate", "g_clip", "epsilon", "batch size", "initial weights"),
)
_fig3 = partial(
    _fig2,
    section="5.2, Fig. 3",
    artifact="elasticzo_fig3",
    unknown=("r_max", "batch size", "NITI's initial weights"),
)

CONTRASTS: Mapping[Claim, Contrast] = {
    _fig2(
        id="B-F2-fluctuation",
        statement="Fluctuation of Full ZO's train loss minus ZO-Feat-Cls1's: mean distance "
        "of an epoch's loss from the mean of its neighbours, epochs 11 to 99",
        quote="ZO-Feat-Cls1 shows less fluctuations in the loss value compared to Full ZO",
        is_stated=False,
    ): Contrast({"": fluctuation}, "train", _against("fp32", "full_zo", "cls1"), 100),
    _fig2(
        id="B-F2-early",
        statement="Full ZO's train loss minus ElasticZO's, mean of epochs 1 to 10",
        quote="ElasticZO is able to speed up the training process",
        is_stated=False,
    ): Contrast({"": early_loss}, "train", _against("fp32", "full_zo", "cls2", "cls1"), 10),
    _fig2(
        id="B-F2-slow",
        statement="Full ZO's train loss still falls at 100 epochs: mean of epochs 81 to 90 minus "
        "mean of epochs 91 to 100",
        quote="Full ZO suffers from a slow convergence speed and seems to require far more than "
        "100 epochs",
        is_stated=False,
    ): Contrast(
        {"": late_fall}, "train", tuple((point, None) for point in _points("fp32", "full_zo")), 100
    ),
    _fig3(
        id="B-F3-early",
        statement="Full ZO's test loss minus ElasticZO-INT8's, mean of epochs 1 to 10",
        quote="ElasticZO-INT8 has a significantly lower loss at early epochs compared to Full ZO",
        is_stated=False,
    ): Contrast({"": early_loss}, "test", _against("int8", "full_zo", "cls2", "cls1"), 10),
    _fig3(
        id="B-F3-drops",
        statement="Fall of ElasticZO-INT8's test loss after epochs 20 and 50, beyond the trend of "
        "the ten epochs before",
        quote="the loss drops sharply at around 20 and 50 epochs",
        is_stated=False,
        remark="with the first five seeds some of these intervals contained 0; we then added ten",
    ): Contrast(
        {f" after epoch {epoch}": partial(drop, after=epoch) for epoch in (20, 50)},
        "test",
        tuple((point, None) for point in _points("int8", "cls2", "cls1")),
        53,  # ``drop`` reads three epochs after the 50th
    ),
}
"""The contrast behind each claim."""

CLAIMS: tuple[Claim, ...] = tuple(CONTRASTS)
