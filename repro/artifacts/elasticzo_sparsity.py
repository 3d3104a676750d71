"""ElasticZO paper, section 5.2: Full ZO in INT8 with a fixed sparsity and with the schedule.

Deviations from the paper:

1. Batch size and r_max are lost from our copy of the paper; r_max was searched for on held-out
   items with the schedule (artifact ``elasticzo_search``), and is the same in both arms.
2. The paper gives p_zero = 0.33 for the fixed arm. We take its other settings from Table 1.
3. The integer rules follow NITI's second version; ``docs/integer.md`` lists everything that the
   papers leave open.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from repro.artifacts.base import Artifact, Context, Result, lazy
from repro.artifacts.shared.ablation import Ablation, Axis, run_ablations
from repro.artifacts.shared.images import ImageRuns
from repro.claims.elasticzo import DATASETS
from repro.claims.quantity import key
from repro.integer.limits import PZero
from repro.measurement.records import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SCHEDULE = "0.33, then 0.5, then 0.9"


@dataclass(frozen=True)
class Config(ImageRuns):
    """The training runs to make, and their length."""

    p_zero: PZero = 0.33
    """The fixed sparsity (the paper's 0.33)."""


PAPER = Config()
QUICK = Config(seeds=(0,), epochs=10)
SMOKE = Config(datasets=("mnist",), seeds=(0,), epochs=1, image_items=512)


def run(config: Config, context: Context) -> Iterator[Result]:
    """Train both arms; the scheduled one is Table 1's run, reused if made by the same code.

    Kinds of results:

    - ``run``: one training run. The point names data set, precision, method and ``p_zero``, null
      for the schedule. The metrics are its curves and its settings.
    """
    from repro.artifacts.shared.training_runs import image_runs

    scheduled = list(image_runs(config, ("int8",), ("full_zo",)))
    ablation = Ablation(scheduled, (Axis("sparsity", "p_zero", (config.p_zero,)),))
    for result, _ in run_ablations(
        [ablation], context, coordinates=("p_zero",), engine=config.engine
    ):
        yield result


def sparsity(records: Sequence[Record]) -> "Figure":
    """Draw the mean and range of each arm over seeds, with a panel for each data set.

    Dotted lines mark the published accuracies after 100 epochs. An arm's line ends with its
    shortest run.
    """
    import seaborn as sns

    from repro.artifacts.shared.columns import place, published
    from repro.claims.trained import SeedGroups
    from repro.plotting.curves import Line, Panel, Panels, curves

    groups = sorted(SeedGroups(records), key=lambda group: place(group.point))
    # as text in reverse, so that None, the schedule, comes before numbers
    arms = sorted({group.point["p_zero"] for group in groups}, key=str, reverse=True)
    panels: Panels = {}
    for arm, colour in zip(arms, sns.color_palette("colorblind"), strict=False):
        label = f"$p_{{zero}}$ = {_SCHEDULE if arm is None else f'{arm} in every epoch'}"
        for group in (group for group in groups if group.point["p_zero"] == arm):
            dataset = str(group.point["dataset"])
            panel = panels.setdefault(("", dataset), Panel(DATASETS[dataset]))
            seeds = [[100 * one for one in r.metrics["test_accuracy"]] for r in group.evaluated]
            look = {"color": colour}
            panel.lines.append(Line(label, look, seeds, group.profile, group.caveat))
            point: dict[str, Any] = {"dataset": dataset, "precision": "int8", "method": "full_zo"}
            if arm is not None:  # Table 1 has the schedule
                point["p_zero"] = arm
            if key(point) in published():  # no other fixed sparsity is
                panel.marks.append((published()[key(point)], {**look, "linestyle": ":"}))
    return curves(
        panels, "test accuracy (%)", (4.4, 2.7), share_y=True, marks="published, by colour"
    )


ARTIFACT = Artifact(
    slug="elasticzo_sparsity",
    paper="elasticzo",
    title="ElasticZO: Full ZO in INT8 with fixed and with rising sparsity",
    about=__doc__,
    profiles={"smoke": SMOKE, "quick": QUICK, "paper": PAPER},
    run=run,
    figures={"sparsity": sparsity},
    captions={
        "sparsity": (
            "Test accuracy of Full ZO in INT8 by epoch, with rising and with fixed sparsity"
        ),
    },
    findings=lazy("repro.claims.trained:findings_of", "elasticzo_sparsity"),
    selector_fields=("datasets", "seeds"),
    takes_recorded=True,
)
