"""Read the times of the arms from records, for figures, findings and tables."""

from collections.abc import Collection, Iterable, Sequence
from statistics import median
from typing import Any

from repro.claims.execution_time import PHASES
from repro.claims.quantity import Key, Point, key
from repro.measurement.records import Record, of_kind

ENGINE_LABELS = {"torch": "PyTorch", "native": "on-device engine"}
PRECISION_LABELS = {"fp32": "FP32", "int8": "INT8"}


class Times:
    """The times of all arms of a run; every number is a median over the timed epochs."""

    def __init__(self, records: Iterable[Record]) -> None:
        """Read the records of one run."""
        records = list(records)
        self._seconds: dict[tuple[str, Key], dict[str, list[float]]] = {}
        self.points: list[Point] = []
        """Precision, method and batch of the arms, each once, in the order of the records."""
        for record in of_kind(records, "epoch"):
            point = {name: value for name, value in record.point.items() if name != "engine"}
            self._seconds[record.point["engine"], key(point)] = record.metrics["seconds"]
            if point not in self.points:
                self.points.append(point)
        self.engines = [name for name in ENGINE_LABELS if any(e == name for e, _ in self._seconds)]
        self.batches = sorted({int(record.point["batch"]) for record in of_kind(records, "epoch")})
        self.images = {int(record.metrics["images"]) for record in of_kind(records, "epoch")}
        """Number of images in an epoch."""
        self.machine: dict[str, Any] = {}
        """Machine properties found by the engine; empty if the engine was not timed."""
        for record in of_kind(records, "machine"):
            self.machine = record.metrics

    def of_batch(self, batch: int, precision: str) -> list[Point]:
        """Return the points of one batch size and precision."""
        wanted = {"batch": batch, "precision": precision}
        return [point for point in self.points if wanted.items() <= point.items()]

    def has(self, engine: str, points: Collection[Point]) -> bool:
        """Tell whether all ``points`` were timed by ``engine``."""
        return all((engine, key(point)) in self._seconds for point in points)

    def seconds(self, engine: str, point: Point, phases: Sequence[str] = tuple(PHASES)) -> float:
        """Return the seconds of some phases of an epoch, by default of all."""
        return median(self._by_epoch(engine, point, phases))

    def share(self, engine: str, point: Point, phases: Sequence[str]) -> float:
        """Return the share of some phases in an epoch, in per cent."""
        return 100 * self._ratio((engine, point, phases), (engine, point, tuple(PHASES)))

    def ratio(self, engine: str, slow: Point, quick: Point) -> float:
        """Return how many times as long an epoch of ``slow`` takes as one of ``quick``."""
        return self._ratio((engine, slow, tuple(PHASES)), (engine, quick, tuple(PHASES)))

    def gain(self, point: Point) -> float:
        """Return how many times as long PyTorch takes for an epoch as the on-device engine."""
        return self._ratio(("torch", point, tuple(PHASES)), ("native", point, tuple(PHASES)))

    def of_peak(self, point: Point) -> float:
        """Return the rate of the engine's forward passes, in per cent of the machine's peak."""
        (images,) = self.images
        multiplications = 2 * images * self.machine["multiplications"]
        forward = self._by_epoch("native", point, ("forward",))
        peaks = self.machine[f"peak_{point['precision']}"]
        rates = (
            float(multiplications / seconds / peak)
            for seconds, peak in zip(forward, peaks, strict=True)
        )
        return 100 * median(rates)

    def peak_ratio(self) -> float:
        """Return how many times as many multiplications the machine does in int8 as in float32."""
        pairs = zip(self.machine["peak_int8"], self.machine["peak_fp32"], strict=True)
        return median(float(int8 / fp32) for int8, fp32 in pairs)

    def _ratio(
        self, first: tuple[str, Point, Sequence[str]], second: tuple[str, Point, Sequence[str]]
    ) -> float:
        """Divide epoch by epoch, as other load on the machine affected both sides of an epoch."""
        pairs = zip(self._by_epoch(*first), self._by_epoch(*second), strict=True)
        return median(a / b for a, b in pairs)

    def _by_epoch(self, engine: str, point: Point, phases: Sequence[str]) -> list[float]:
        seconds = self._seconds[engine, key(point)]
        return [sum(epoch) for epoch in zip(*(seconds[phase] for phase in phases), strict=True)]
