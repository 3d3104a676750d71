"""ElasticZO-INT8: accuracy under other choices where the papers leave questions open.

Each experiment changes one of the tables' defaults: the restore of a clipped perturbation, NITI's
shift policy, the pass whose activations reach the backpropagated layers, or the rule for the
gradient's sign.

Deviations from the paper:

1. The paper has no such experiment, so no published claim is answered here.
2. Choices are changed one at a time, so interactions between two of them are not seen.
3. r_max was searched for with the defaults (artifact ``elasticzo_search``) and kept; another choice
   may do better with its own r_max. Batch size and b_ZO are the same as in the tables.
4. Two runs of one seed start from the same weights and see the same images and perturbations in
   the same order, but diverge from each other at the first weight that differs. From then on they
   differ like two seeds, so a difference from a single seed may be seed noise. A short run does not
   predict one of 100 epochs either.
5. The rule ``float`` for the sign is the paper's INT8 and ``integer`` its INT8*. The rule
   ``exact``, the integer rule without the floor of its logarithm, is ours.
6. Everything else is as in Table 1; ``docs/integer.md`` lists every rule.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from repro.artifacts.base import Artifact, Context, Result
from repro.artifacts.shared.ablation import Ablation, Axis, Changes, run_ablations
from repro.artifacts.shared.images import ImageRuns
from repro.claims.elasticzo import DATASETS
from repro.core.names import METHOD_LABELS, METHODS, ZEROTH_ORDER, ImageSet
from repro.measurement.records import Record

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from repro.artifacts.shared.comparisons import AxisComparison, Variant
    from repro.claims.trained import SeedGroup

RESTORE = Axis("restore", "restore", ("exact",), ("full_zo", "cls1"), base="clip")
AXES = (
    RESTORE,
    Axis("shift policy", "shift_policy", ("v1",), ("full_zo", "cls1", "full_bp"), base="v2"),
    Axis(
        "pass used by BP",
        "activations",
        ("minus",),
        ("cls2", "cls1"),
        base="plus",
    ),
    Axis(
        "sign",
        "sign",
        ("integer", "exact"),
        ZEROTH_ORDER,
        base="float",
        changes={
            "integer": {"precision": "int8_star"},
            "exact": {"precision": "int8_star", "sign": "exact"},
        },
    ),
)
"""The open questions, each with our default and the alternatives."""
DEFAULTS: Changes = {
    "precision": "int8",
    "restore": "clip",
    "shift_policy": "v2",
    "activations": "plus",
    "sign": None,
}
"""Coordinates of the runs with our defaults. A null sign means the rule of the precision."""
_DOTS = {"marker": ".", "markersize": 3}


@dataclass(frozen=True)
class Config(ImageRuns):
    """The training runs to make, and their length."""

    datasets: tuple[ImageSet, ...] = ("mnist",)
    """Data sets: mnist, fashion_mnist."""


PAPER = Config()
QUICK = Config(seeds=(0,), epochs=6)
SMOKE = Config(seeds=(0,), epochs=1, image_items=512)


def run(config: Config, context: Context) -> Iterator[Result]:
    """Train every method with the defaults, and with each alternative that can affect it.

    Runs with the defaults, and runs in INT8*, are the same as Table 1's; results of the same code
    are reused.

    Kinds of results:

    - ``run``: one training run. The point names data set, precision, method and the settings of
      ``DEFAULTS``. The metrics are its curves, its settings and ``restores``: for each epoch, the
      number of perturbed weights and how many of them were not restored.
    """
    from repro.artifacts.shared.training_runs import image_runs

    ablation = Ablation(list(image_runs(config, ("int8",), METHODS)), AXES)
    settings = [name for name in DEFAULTS if name != "precision"]
    for result, _ in run_ablations([ablation], context, coordinates=settings, engine=config.engine):
        yield result


def effects(records: Sequence[Record]) -> "list[AxisComparison]":
    """Return the recorded comparisons, sorted by data set, question and method.

    Raises:
        ReproError: two runs to compare differ in more settings than the one in question.
    """
    from repro.artifacts.shared.comparisons import comparisons

    found = []
    for one in comparisons(records, AXES, lambda group: DEFAULTS.items() <= group.point.items()):
        seeds = {*one.base.group.seeds}  # gains are taken seed by seed, over common ones
        if others := tuple(variant for variant in one.others if seeds & {*variant.group.seeds}):
            found.append(replace(one, others=others))
            found[-1].require_alike()
    datasets = list(DATASETS)
    return sorted(
        found,
        key=lambda one: (
            datasets.index(str(one.row["dataset"])),
            AXES.index(one.axis),
            one.axis.methods.index(one.base.group.point["method"]),
        ),
    )


def restored(records: Sequence[Record]) -> "Iterator[tuple[str, SeedGroup]]":
    """Yield the pairs of groups that differ only in the restore rule, each group with its rule.

    They count the perturbed weights that were clipped, and so were not restored in place; with
    ``restore="exact"``, the weights that would not have been restored.
    """
    for one in effects(records):
        if one.axis is RESTORE:
            for variant in (one.base, *one.others):
                yield str(variant.value), variant.group


def shares(group: "SeedGroup") -> tuple[list[float], float]:
    """Return the share of clipped weights in each epoch, and in all epochs together.

    The shares are in per cent of all perturbed weights, over all seeds. The list is as long as the
    shortest seed's run.
    """

    def share(counts: Sequence[dict[str, int]]) -> float:
        inexact, weights = (sum(count[name] for count in counts) for name in ("inexact", "weights"))
        return 100 * inexact / weights

    seeds = [record.metrics["restores"] for record in group.records]
    whole = [epoch for seed in seeds for epoch in seed]
    return [share(epoch) for epoch in zip(*seeds, strict=False)], share(whole)


def accuracy_table(records: Sequence[Record]) -> "pd.DataFrame":
    """Return test accuracy under the default and each alternative, and their difference.

    Accuracies are in per cent after the last epoch. Differences are in points, with the 95 %
    interval where there are several seeds; their lowest and highest values are over the epochs.
    """
    import pandas as pd

    rows = []
    for one, other in _pairs(records):
        gains, last, base = one.gain_by_epoch(other), one.gain(other), one.base.group
        of, notes = _names(base), (base.caveat, other.group.caveat)
        row = {
            "data set": of["data set"],
            "choice": one.axis.name,
            "method": of["method"],
            "default (%)": f"{one.base.value} {one.base.last.mean:.2f}",
            "other (%)": f"{other.value} {other.last.mean:.2f}",
            "difference (points)": last.text("+"),
            "lowest, highest": f"{min(gains):+.2f}, {max(gains):+.2f}",
            "epochs": base.epochs,
            "seeds": str(last.n_seeds),
            "note": "; ".join(dict.fromkeys(note for note in notes if note)),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def clipped_weights_table(records: Sequence[Record]) -> "pd.DataFrame":
    """Return the shares of perturbed weights that were clipped, in per cent."""
    import pandas as pd

    rows = []
    for answer, group in restored(records):
        epochs, whole = shares(group)
        row = {
            **_names(group),
            "restore": answer,
            "first epoch (%)": f"{epochs[0]:.3f}",
            "last epoch (%)": f"{epochs[-1]:.3f}",
            "all epochs (%)": f"{whole:.3f}",
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _pairs(records: Sequence[Record]) -> "list[tuple[AxisComparison, Variant]]":
    return [(one, variant) for one in effects(records) for variant in one.others]


def _names(group: "SeedGroup") -> dict[str, str]:
    point = group.point
    return {
        "data set": DATASETS[str(point["dataset"])],
        "method": METHOD_LABELS[str(point["method"])],
    }


def draw_accuracy(records: Sequence[Record]) -> "Figure":
    """Draw the mean over seeds: a row for each data set and question, a panel for each method.

    Where there are several seeds, each is a thin line. Every panel has its own scale.
    """
    from repro.artifacts.shared.comparisons import by_epoch
    from repro.plotting.curves import Line, Panel, Panels, curves
    from repro.plotting.style import BLUE, GREEN, ORANGE

    looks = (
        {"color": BLUE, "linestyle": "-", **_DOTS},
        {"color": ORANGE, "linestyle": "--", **_DOTS},
        {"color": GREEN, "linestyle": "-.", **_DOTS},
    )
    panels: Panels = {}
    for one in effects(records):
        of = _names(one.base.group)
        row = f"{of['data set']}, {one.axis.name}"
        column = str(sum(row == other for other, _ in panels))
        panels[row, column] = panel = Panel(f"{of['data set']}, {of['method']}\n{one.axis.name}")
        for variant, look in zip((one.base, *one.others), looks, strict=False):
            group, answer = variant.group, f"{variant.value}{' (default)' * variant.is_base}"
            seeds = [by_epoch(record) for record in group.records]
            panel.lines.append(Line(answer, look, seeds, group.profile, group.caveat))
    return curves(panels, "test accuracy (%)", (3.2, 2.2), first=1, apart=True)


def draw_restores(records: Sequence[Record]) -> "Figure":
    """Draw the share of clipped weights by epoch, with a panel for each data set."""
    from repro.plotting.curves import Line, Panel, Panels, curves
    from repro.plotting.style import BLUE, PINK

    colours, dashes = {"full_zo": BLUE, "cls1": PINK}, {"clip": "-", "exact": "--"}
    panels: Panels = {}
    for answer, group in restored(records):
        of = _names(group)
        panel = panels.setdefault(("", of["data set"]), Panel(of["data set"]))
        colour = colours[str(group.point["method"])]
        look = {"color": colour, "linestyle": dashes[answer], **_DOTS}
        panel.lines.append(
            Line(f"{of['method']}, {answer}", look, [shares(group)[0]], group.profile)
        )
    return curves(
        panels,
        "perturbed weights that were clipped (%)",
        (4.6, 2.8),
        first=1,
        log_from=0,
        share_y=True,
        legend_columns=2,
    )


ARTIFACT = Artifact(
    slug="elasticzo_int8_ablation",
    paper="elasticzo",
    title="ElasticZO in INT8: an ablation of our choices",
    about=__doc__,
    profiles={"smoke": SMOKE, "quick": QUICK, "paper": PAPER},
    run=run,
    figures={"accuracy": draw_accuracy, "restores": draw_restores},
    captions={
        "accuracy": (
            "Test accuracy by epoch of the default and its alternatives, one row for each choice "
            "and one panel for each method"
        ),
        "restores": (
            "Share of perturbed weights that were clipped, by epoch, kind of restore and method"
        ),
    },
    selector_fields=("datasets", "seeds"),
    takes_recorded=True,
)
