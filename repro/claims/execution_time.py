"""The ElasticZO paper's claims on execution time: section 5.4, Fig. 7.

The paper timed its C++ program on a Raspberry Pi Zero 2 (four ARM cores at 1 GHz); we time another
program on another machine. So the verdict is always *not comparable*; the ledger shows our values
next to the paper's.

The batch size is lost from our copy of the paper, so each claim exists for both batch sizes of its
figures on memory. We read its ranges as the range over Full ZO, ZO-Feat-Cls2 and -Cls1, and its two
shares of the backward pass as the largest in FP32 and in INT8.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from repro.claims.claim import Claim
from repro.claims.quantity import Point
from repro.core.names import METHOD_LABELS, ZEROTH_ORDER, MethodName, Precision

PHASES: dict[str, str] = {
    "forward": "Forward",
    "loss": "Loss",
    "perturb": "ZO Perturb",
    "update": "ZO Update",
    "backward": "Backward",
    "other": "other",
}
"""The parts of an epoch, under the paper's names."""
BATCHES = (32, 256)

Pick = Literal["smallest", "largest"]


@dataclass(frozen=True)
class Ratio:
    """The time of an epoch at the first point over the time at the second."""

    pairs: tuple[tuple[Point, Point], ...]
    pick: Pick
    """Which of several pairs counts: the one with the smallest or with the largest ratio."""


@dataclass(frozen=True)
class Share:
    """The time of some phases, in per cent of the epoch's time."""

    phases: tuple[str, ...]
    points: tuple[Point, ...]
    pick: Pick
    """Which of several points counts: the one with the smallest or with the largest share."""


TimeQuantity = Ratio | Share
ClaimedTime = tuple[Claim, TimeQuantity]


@dataclass(frozen=True)
class PublishedShare:
    """A share as the paper prints it, in per cent."""

    name: str
    phases: tuple[str, ...]
    precision: Precision
    printed: str
    """A number, or a range given by its two ends."""
    pick: Pick
    """Which of the methods' shares the claim is about: "the largest portion" is about the smallest
    of them, "almost negligible" about the largest."""
    methods: tuple[MethodName, ...] = ZEROTH_ORDER

    @property
    def picked(self) -> str:
        """The end of the printed range that the claim is about."""
        low, _, high = self.printed.partition("-")
        return low if self.pick == "smallest" or not high else high

    @property
    def ends(self) -> tuple[float, float]:
        """The two ends of the range, equal if a single number is printed."""
        low, _, high = self.printed.partition("-")
        return float(low), float(high or low)


_QUOTES = {
    "speed-up": "ElasticZO-INT8 is 1.38-1.42x faster than ElasticZO",
    "elastic": "both ElasticZO and ElasticZO-INT8 maintain the training speed of Full ZO",
    "forward": "forward passes account for the largest portion of the wall-clock execution time "
    "[...] (84.3-84.8% and 94.8-97.1% for ElasticZO and ElasticZO-INT8)",
    "backward": "backward passes are almost negligible (0.76% and 2.5%)",
    "perturbation": "a non-negligible portion of the execution time (11.8-13.1%) in the FP32 case "
    "[...] only account for 1.0-1.2% in the INT8 case",
}
_PERTURBATION = ("perturb", "update")
_ELASTIC: tuple[MethodName, ...] = ("cls2", "cls1")

SHARES = (
    PublishedShare("forward", ("forward",), "fp32", "84.3-84.8", "smallest"),
    PublishedShare("forward", ("forward",), "int8", "94.8-97.1", "smallest"),
    PublishedShare("backward", ("backward",), "fp32", "0.76", "largest", _ELASTIC),
    PublishedShare("backward", ("backward",), "int8", "2.5", "largest", _ELASTIC),
    PublishedShare("perturbation", _PERTURBATION, "fp32", "11.8-13.1", "smallest"),
    PublishedShare("perturbation", _PERTURBATION, "int8", "1.0-1.2", "largest"),
)
"""The published shares. The paper calls the share of perturbations "non-negligible" in FP32, so the
smallest counts, and says "only" in INT8, so the largest counts."""
SPEED_UPS: dict[Pick, str] = {"smallest": "1.38", "largest": "1.42"}
"""Time in FP32 over time in INT8, smallest and largest of the methods."""


def _entries(batch: int) -> Iterator[ClaimedTime]:
    """Yield all claims on Fig. 7 for one batch size."""
    both = tuple(
        (_point("fp32", method, batch), _point("int8", method, batch)) for method in ZEROTH_ORDER
    )
    for pick, printed in SPEED_UPS.items():
        statement = f"Time of an epoch in FP32 divided by time in INT8, {pick} of three methods"
        claim = _claim(batch, f"speed-up-{pick}", statement, printed, "x")
        yield claim, Ratio(both, pick)
    for precision in ("fp32", "int8"):
        pairs = tuple(
            (_point(precision, method, batch), _point(precision, "full_zo", batch))
            for method in _ELASTIC
        )
        statement = (
            f"Time of an epoch of ElasticZO divided by time of Full ZO, {precision.upper()}, "
            "larger "
            "of two methods (the paper: maintains the speed, read as 1.0 x)"
        )
        claim = _claim(batch, f"{precision}-elastic", statement, "1.0", "x")
        yield claim, Ratio(pairs, "largest")
    for share in SHARES:
        phases = " and ".join(PHASES[phase] for phase in share.phases)
        points = tuple(_point(share.precision, method, batch) for method in share.methods)
        claim = _claim(
            batch,
            f"{share.precision}-{share.name}",
            f"Share of {phases} in the time of an epoch, {share.precision.upper()}, {share.pick} "
            f"of {', '.join(METHOD_LABELS[method] for method in share.methods)}",
            share.picked,
            "%",
        )
        yield claim, Share(share.phases, points, share.pick)


def _point(precision: str, method: str, batch: int) -> Point:
    return {"precision": precision, "method": method, "batch": batch}


def _claim(batch: int, name: str, statement: str, printed: str, unit: str) -> Claim:
    return Claim(
        id=f"B-F7-{batch}-{name}",
        paper="elasticzo",
        section="abstract, 1, 5.4, 6, Fig. 7" if "speed-up" in name else "5.4, Fig. 7",
        artifact="elasticzo_fig7",
        statement=f"{statement}: LeNet-5, B = {batch}",
        published=float(printed),
        unit=unit,
        basis="timed",
        quote=next(quote for part, quote in _QUOTES.items() if part in name),
        unknown=("batch size", "methods behind a range"),
        same_as="" if batch == BATCHES[0] else f"B-F7-{BATCHES[0]}-{name}",
        digits=len(printed.partition(".")[2]),
    )


_ENTRIES = tuple(entry for batch in BATCHES for entry in _entries(batch))

CLAIMS: tuple[Claim, ...] = tuple(claim for claim, _ in _ENTRIES)
QUANTITIES: dict[str, TimeQuantity] = {claim.id: quantity for claim, quantity in _ENTRIES}
"""The share or ratio behind each claim."""
