"""ElasticZO paper, sections 4.3 and 5.2: how often the integer sign of the gradient is right.

At every step of training in INT8* the two losses are also compared by the floating-point
cross-entropy of the same logits, and by the paper's powers of two without the floor of its
logarithm, as whole numbers of any length. This splits an error into two parts: the cost of the
powers of two, and the cost of the floor.

Deviations from the paper:

1. The paper says that about 95 % of the signs are right, but not over which steps, method, batch
   size or data set. We give the share over all steps of a run for each method, batch size and data
   set.
2. A sign is right if it equals the sign from the floating-point loss, zeros included: an integer
   comparison that finds no difference where there is one counts as wrong.
3. Batch size and r_max are lost from our copy of the paper. Batch sizes from 32 to 1,024 can be
   run. The verdict uses 256, the batch size of the accuracies. r_max was searched for on held-out
   items at 256 (artifact ``elasticzo_search``) and kept for the other sizes; other values are run
   apart. Batch sizes and values of r_max are compared in runs of six epochs, with the schedule of
   100 epochs shortened to six. Two values of r_max are run for 100 epochs, too.
4. The integer rules follow NITI's second version; ``docs/integer.md`` lists everything that the
   papers leave open.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import itemgetter
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from repro.artifacts.base import Artifact, Context, Result
from repro.artifacts.shared.images import ImageRuns
from repro.claims.elasticzo import DATASETS
from repro.core.names import METHOD_LABELS, ZEROTH_ORDER, ZerothOrderMethod
from repro.integer.limits import RMax
from repro.measurement.records import Record, rank

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from repro.claims.trained import SeedGroup
    from repro.claims.verdict import Finding

RULES = {
    "integer_is_float": "integer = float",
    "exact_is_float": "without the floor = float",
    "integer_is_exact": "integer = without the floor",
    "integer_is_zero": "integer = 0",
}
"""The label in the figure of each counted share."""
BATCHES = (32, 64, 128, 256, 512, 1024)
JUDGED_BATCH = 256
"""The batch size that the verdict uses: the accuracies in INT8* are trained with it."""
_PUBLISHED = 95
_SHORT = 6
"""Epochs of the runs that compare batch sizes, as in the profile ``quick``."""
_DASHES = ("-", "--", "-.", ":")


@dataclass(frozen=True)
class Config(ImageRuns):
    """The training runs whose signs are counted, and their length."""

    methods: tuple[ZerothOrderMethod, ...] = ZEROTH_ORDER
    """Methods with a zeroth-order part."""
    batches: tuple[int, ...] = BATCHES
    """B, images per step."""
    r_maxes: tuple[RMax, ...] = (31, 63)
    """Largest magnitudes of the perturbation, besides the one that was searched for."""


PAPER = Config()
QUICK = Config(seeds=(0,), epochs=_SHORT, r_maxes=(3, 7, 15, 31, 63))
SMOKE = Config(
    datasets=("mnist",),
    seeds=(0,),
    batches=(JUDGED_BATCH,),
    r_maxes=(63,),
    epochs=1,
    image_items=512,
)


def run(config: Config, context: Context) -> Iterator[Result]:
    """Train in INT8* and count the right signs.

    At a batch size of 256 the runs end with the same weights as Table 1's runs, which do not count
    signs; so they are trained again for this artifact.

    Kinds of results:

    - ``run``: one training run. The point names data set, precision, method, batch size and number
      of epochs, and r_max unless it is the one that was searched for. The metrics are its curves,
      its settings and ``signs``, the counts of each epoch (``repro.training.learners.COUNTS``).
    """
    from repro.artifacts.shared.ablation import change
    from repro.artifacts.shared.training_runs import each_part, image_runs, results

    own, others = [], []
    runs = image_runs(config, ("int8_star",), config.methods)
    for run, batch in product(runs, config.batches):
        watched = replace(change(run, {"batch": batch}), signs=True)
        own.append(watched)
        changed = (change(watched, {"r_max": r_max}) for r_max in config.r_maxes)
        others += [other for other in changed if other != watched]
    at = ("batch", "epochs")
    yield from each_part(
        (
            results(own, context, at, engine=config.engine),
            results(others, context, (*at, "r_max"), engine=config.engine),
        )
    )


def share(record: Record, rule: str) -> float:
    """Return the share of a run's steps that ``rule`` counts, in per cent."""
    counts = record.metrics["signs"]
    agreed: int = sum(epoch[rule] for epoch in counts)
    steps: int = sum(epoch["steps"] for epoch in counts)
    return 100 * agreed / steps


def mean_by_epoch(group: "SeedGroup", rule: str) -> list[float]:
    """Return, by epoch, the share of steps that ``rule`` counts, in per cent, as mean over seeds.

    The list is as long as the shortest seed's run.
    """
    seeds = (record.metrics["signs"] for record in group.records)
    return [
        fmean(100 * counts[rule] / counts["steps"] for counts in epoch)
        for epoch in zip(*seeds, strict=False)
    ]


class Counted(NamedTuple):
    """The coordinates of runs whose signs are counted."""

    dataset: str
    method: str
    batch: int
    epochs: int
    r_max: int
    """0 for the one that was searched for."""


def groups(records: Iterable[Record]) -> "dict[Counted, SeedGroup]":
    """Return all seeds of each run, by data set, method, batch size, length and r_max."""
    from repro.artifacts.shared.columns import place
    from repro.claims.trained import SeedGroups

    found = {
        Counted(
            str(group.point["dataset"]),
            str(group.point["method"]),
            int(group.point["batch"] or 0),
            int(group.settings["epochs"]),
            int(group.point.get("r_max") or 0),
        ): group
        for group in SeedGroups(records)
    }
    return dict(sorted(found.items(), key=lambda item: (place(item[1].point), item[0][2:])))


def judged(records: Iterable[Record]) -> "dict[tuple[str, str], SeedGroup]":
    """Return the longest runs of each data set and method at the settings of the verdict."""
    found = groups(records).items()
    return {
        (at.dataset, at.method): group
        for at, group in found
        if (at.batch, at.r_max) == (JUDGED_BATCH, 0)
    }


def short_runs(records: Iterable[Record]) -> dict[tuple[str, str, int], float]:
    """Return the share of right signs in the runs of six epochs at the r_max searched for.

    The schedule of p_zero is stretched over a run, so the first six epochs of a longer run differ.
    """
    return {
        (at.dataset, at.method, at.batch): fmean(share(record, _RIGHT) for record in group.records)
        for at, group in groups(records).items()
        if (at.epochs, at.r_max) == (_SHORT, 0)
    }


_RIGHT = "integer_is_float"
_PHASES = ((1, 20), (21, 50), (51, 100))
_PARTS = 6
"""Number of methods times data sets behind the paper's single number."""


def findings(records: Sequence[Record]) -> "list[Finding]":
    """Return the finding for the artifact's single statement.

    Its plausible range spans the means over seeds of all runs, as the paper does not say over which
    it counted. A single epoch is no reading: the statement is about training (section 5.2).
    """
    from repro.claims.statistics import estimate, prediction_half_width
    from repro.claims.verdict import Finding

    found = judged(records)
    if len(found) < _PARTS:
        reason = (
            f"only {len(found)} of the {_PARTS} combinations of method and data set were run at "
            f"B = {JUDGED_BATCH}"
        )
        return [Finding("B-sign", None, reason)]
    by_seed: dict[int | None, list[float]] = {}
    for group in found.values():
        for record in group.records:
            by_seed.setdefault(record.seed, []).append(share(record, _RIGHT))
    # a mean over fewer combinations would differ by which ones are missing
    seeds = [fmean(shares) for shares in by_seed.values() if len(shares) == _PARTS]
    if not seeds:
        return [
            Finding("B-sign", None, "no seed was run with every combination of method and data set")
        ]
    epochs = [epoch for group in found.values() for epoch in mean_by_epoch(group, _RIGHT)]
    runs = groups(records).values()
    every = [epoch for group in runs for epoch in mean_by_epoch(group, _RIGHT)]
    means = [fmean(share(record, _RIGHT) for record in group.records) for group in runs]
    reached = sum(epoch >= _PUBLISHED for epoch in every)
    mean = estimate(seeds)
    parts = ", ".join(
        f"{METHOD_LABELS[method]} on {DATASETS[dataset]} "
        f"{fmean(share(record, _RIGHT) for record in group.records):.1f} %"
        for (dataset, method), group in found.items()
    )
    exact = fmean(share(r, "exact_is_float") for group in found.values() for r in group.records)
    by_batch: dict[int, list[float]] = {}
    for (_, _, batch), right in short_runs(records).items():
        by_batch.setdefault(batch, []).append(right)
    listed = ", ".join(
        f"{min(shares):.1f} to {max(shares):.1f} % at B = {batch}"
        for batch, shares in sorted(by_batch.items())
    )
    others = f"in runs of {_SHORT} epochs {listed}" if listed else "no other batch size was run"
    of_r_max = [
        (at.r_max, fmean(share(record, _RIGHT) for record in group.records))
        for at, group in groups(records).items()
        if at.r_max
    ]
    if of_r_max:
        r_max, highest = max(of_r_max, key=itemgetter(1))
        others += f"; with other values of r_max up to {highest:.1f} %, at r_max = {r_max}"
    return [
        Finding(
            "B-sign",
            mean.mean,
            f"as a mean over seeds, {_PUBLISHED} % is reached in {reached} of {len(every)} epochs "
            f"of all data sets, methods and batch sizes; at B = {JUDGED_BATCH} by method {parts}; "
            f"by epoch {min(epochs):.1f} to {max(epochs):.1f} %; {others}; if the logarithm were "
            f"not rounded down, {exact:.1f} % of the signs would be right",
            n_seeds=mean.n_seeds,
            interval=mean.interval,
            profile=min((group.profile for group in found.values()), key=rank),
            prediction=prediction_half_width(seeds),
            plausible=(min(means), max(means)),
            engine=" and ".join(sorted({group.engine for group in found.values()})),
        )
    ]


def by_phase(records: Sequence[Record]) -> "DataFrame":
    """Return the share of right signs during training in per cent, by method, batch size and r_max.

    Runs of 100 epochs, the paper's length, also show each phase of its schedules.
    """
    import pandas as pd

    rows = []
    for at, group in groups(records).items():
        shares = mean_by_epoch(group, _RIGHT)
        row: dict[str, object] = {
            "data set": DATASETS[at.dataset],
            "method": METHOD_LABELS[at.method],
            "B": at.batch,
            "r_max": group.settings["r_max"],
            "seeds": len(group.records),
            "epochs": at.epochs,
            "all epochs": f"{fmean(shares):.1f}",
        }
        for first, last in _PHASES:
            whole = len(shares) == _PHASES[-1][1]
            mean = f"{fmean(shares[first - 1 : last]):.1f}" if whole else ""
            row[f"epochs {first} to {last}"] = mean
        row["highest epoch"] = f"{max(shares):.1f}"
        row[f"epochs with {_PUBLISHED} % or more"] = sum(e >= _PUBLISHED for e in shares)
        rows.append(row)
    return pd.DataFrame(rows)


def signs(records: Sequence[Record]) -> "Figure":
    """Draw the mean over seeds by epoch: a row for each data set, a column for each method."""
    import seaborn as sns

    from repro.plotting.curves import Line, Panel, curves
    from repro.plotting.style import INK, title

    panels = {}
    for (dataset, method), group in judged(records).items():
        name = title(f"{DATASETS[dataset]}, {METHOD_LABELS[method]}", {group.profile})
        panels[dataset, method] = panel = Panel(f"{name}\n{group.caveat}".rstrip())
        for (rule, label), colour, dashes in zip(
            RULES.items(), sns.color_palette("colorblind"), _DASHES, strict=False
        ):
            look = {"color": colour, "linestyle": dashes}
            panel.lines.append(Line(label, look, [mean_by_epoch(group, rule)]))
        panel.marks.append((_PUBLISHED, {"color": INK, "linewidth": 0.8}))
    figure = curves(
        panels,
        "share of steps (%)",
        (3.3, 2.5),
        first=1,
        share_y=True,
        marks="published: integer = float",
        legend_columns=3,
    )
    figure.axes[0].set_ylim(0, 101)
    return figure


def batches(records: Sequence[Record]) -> "Figure":
    """Draw the share of right signs in short runs by batch size."""
    import matplotlib.pyplot as plt

    from repro.plotting.style import INK, METHOD_COLOURS, style

    lines: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for (dataset, method, batch), right in short_runs(records).items():
        lines.setdefault((dataset, method), []).append((batch, right))
    datasets = list(dict.fromkeys(dataset for dataset, _ in lines)) or [""]
    with style():
        figure, (panels,) = plt.subplots(
            1, len(datasets), figsize=(4 * len(datasets), 3.2), squeeze=False, sharey=True
        )
        for (dataset, method), points in lines.items():
            panel = panels[datasets.index(dataset)]
            xs, ys = zip(*points, strict=True)
            look = {"color": METHOD_COLOURS[method], "label": METHOD_LABELS[method]}
            panel.plot(xs, ys, marker="o", ms=4, **look)
            panel.set_title(DATASETS[dataset])
        for panel in panels:
            panel.axhline(_PUBLISHED, color=INK, lw=0.8, label=f"published: {_PUBLISHED} %")
            panel.set_xscale("log", base=2)
            drawn = sorted({batch for points in lines.values() for batch, _ in points})
            panel.set_xticks(drawn, [str(batch) for batch in drawn])
            panel.set_xlabel("batch size B")
            panel.set_ylim(50, 101)
        panels[0].set_ylabel(f"right signs in {_SHORT} epochs (%)")
        panels[0].legend(loc="lower right")
    return figure


ARTIFACT = Artifact(
    slug="elasticzo_int8_sign",
    paper="elasticzo",
    title="ElasticZO: how often the integer sign of the gradient is right",
    about=__doc__,
    profiles={"smoke": SMOKE, "quick": QUICK, "paper": PAPER},
    run=run,
    figures={"signs": signs, "batches": batches},
    captions={
        "signs": (
            "Share of steps at which two rules give the same sign, by epoch, for each data set "
            "and method; dotted: share of steps with equal integer losses"
        ),
        "batches": "Share of right signs in runs of six epochs, by data set, batch size and method",
    },
    findings=findings,
    selector_fields=("datasets", "methods", "batches", "r_maxes", "seeds"),
    takes_recorded=True,
)
