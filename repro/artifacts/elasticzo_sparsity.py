"""ElasticZO paper, section 5.2: Full ZO in INT8 with a fixed sparsity and with the schedule.

Deviations from the paper:

1. Batch size and r_max are lost from our copy of the paper; r_max was searched for on held-out
   items with the schedule (artifact ``elasticzo_search``), and is the same in both arms.
2. The paper gives p_zero = 0.33 for the fixed arm. We take its other settings from Table 1.
3. The integer rules follow NITI's second version; ``docs/integer.md`` lists everything that the
   papers leave open.
"""

from collections.abc import Iterator, Mapping, Sequence
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
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from repro.claims.trained import SeedGroup

_SCHEDULE = "0.33, then 0.5, then 0.9"
_DOTTED: dict[str, Any] = {"linestyle": ":"}


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
    import matplotlib.pyplot as plt
    import seaborn as sns
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    from repro.claims.trained import SeedGroups
    from repro.plotting.style import INK, style

    groups = list(SeedGroups(records))
    datasets = [name for name in DATASETS if any(c.point["dataset"] == name for c in groups)]
    # as text in reverse, so that None, the schedule, comes before numbers
    arms = sorted({group.point["p_zero"] for group in groups}, key=str, reverse=True)
    colours = dict(zip(arms, sns.color_palette("colorblind"), strict=False))
    with style():
        figure, panels = plt.subplots(
            1, len(datasets), figsize=(4.4 * len(datasets), 3.1), squeeze=False, sharey=True
        )
        for panel, dataset in zip(panels.flat, datasets, strict=True):
            _panel(panel, dataset, [c for c in groups if c.point["dataset"] == dataset], colours)
        panels[0, 0].set_ylabel("test accuracy (%)")
        handles: list[Any] = [
            Line2D(
                [],
                [],
                color=colour,
                label=f"$p_{{zero}}$ = {_SCHEDULE if arm is None else f'{arm} in every epoch'}",
            )
            for arm, colour in colours.items()
        ]
        handles.append(Line2D([], [], color=INK, label="published, by colour", **_DOTTED))
        handles.append(Patch(color=INK, alpha=0.2, linewidth=0, label="range over seeds"))
        figure.legend(handles=handles, loc="outside lower center", ncols=4)
    return figure


def _panel(
    panel: "Axes", dataset: str, groups: "Sequence[SeedGroup]", colours: Mapping[Any, Any]
) -> None:
    from matplotlib.lines import Line2D

    from repro.artifacts.shared.columns import published
    from repro.plotting.curves import plot_range
    from repro.plotting.style import remark, title

    profiles = {group.profile for group in groups}
    remarks = []
    for group in sorted(groups, key=lambda group: list(colours).index(group.point["p_zero"])):
        colour = colours[group.point["p_zero"]]
        seeds = [[100 * one for one in r.metrics["test_accuracy"]] for r in group.evaluated]
        plot_range(panel, seeds, color=colour)
        point: dict[str, Any] = {"dataset": dataset, "precision": "int8", "method": "full_zo"}
        if group.point["p_zero"] is not None:  # Table 1 has the schedule
            point["p_zero"] = PAPER.p_zero
        panel.axhline(published()[key(point)], color=colour, **_DOTTED)
        if said := remark(group.profile, group.caveat, profiles):
            remarks.append(Line2D([], [], color=colour, label=said))
    panel.set(title=title(DATASETS[dataset], profiles), xlabel="epoch")
    if remarks:
        panel.legend(handles=remarks, loc="best")


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
