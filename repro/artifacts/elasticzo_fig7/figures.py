"""Times of an epoch by phase, and their shares."""

from collections.abc import Callable, Mapping, Sequence

from matplotlib.figure import Figure

from repro.artifacts.elasticzo_fig7.times import ENGINE_LABELS, PRECISION_LABELS, Times
from repro.claims.execution_time import PHASES, SHARES, SPEED_UPS, Point
from repro.core.names import METHOD_LABELS
from repro.measurement.records import Record
from repro.plotting.phases import Panel, PhaseBar, phases


def fig7(records: Sequence[Record]) -> Figure:
    """Draw the seconds of an epoch: a row for each batch size, a column for each engine."""
    times = Times(records)

    def bar(engine: str, point: Point) -> PhaseBar:
        lengths = {label: times.seconds(engine, point, (phase,)) for phase, label in PHASES.items()}
        remark = f"{times.seconds(engine, point):.3g} s"
        slow = {**point, "precision": "fp32"}
        if point["precision"] == "int8" and times.has(engine, [slow]):
            remark += f", {times.ratio(engine, slow, point):.2f} ×"  # noqa: RUF001
        return PhaseBar(_method(point), lengths, remark)

    (images,) = times.images
    low, high = SPEED_UPS.values()
    said = f"INT8: FP32 over INT8, published {low} to {high} ×"  # noqa: RUF001
    return phases(_rows(times, bar), f"seconds of {images:,} images\n({said})")


def shares(records: Sequence[Record]) -> Figure:
    """Draw the same in per cent of each epoch, with the published share of forward passes."""
    times = Times(records)
    published: dict[str, tuple[float, float]] = {
        share.precision: share.ends for share in SHARES if share.phases == ("forward",)
    }

    def bar(engine: str, point: Point) -> PhaseBar:
        lengths = {label: times.share(engine, point, (phase,)) for phase, label in PHASES.items()}
        remark = f"{lengths[PHASES['forward']]:.1f} %"
        return PhaseBar(_method(point), lengths, remark, published[str(point["precision"])])

    return phases(_rows(times, bar), "per cent of the epoch (number: Forward)")


def _rows(times: Times, bar: Callable[[str, Point], PhaseBar]) -> list[list[Panel]]:
    return [
        [
            Panel(
                f"{ENGINE_LABELS[engine]}, B = {batch}",
                {
                    label: [
                        bar(engine, point)
                        for point in times.of_batch(batch, precision)
                        if times.has(engine, [point])
                    ]
                    for precision, label in PRECISION_LABELS.items()
                },
            )
            for engine in times.engines
        ]
        for batch in times.batches
    ]


def _method(point: Point) -> str:
    return METHOD_LABELS[str(point["method"])]


def figures() -> Mapping[str, Callable[[Sequence[Record]], Figure]]:
    """Return the functions that draw, by the name of the figure."""
    return {"fig7": fig7, "shares": shares}
