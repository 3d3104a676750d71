"""ElasticZO paper, sections 4.3 and 5.2: how often the integer sign of the gradient is right.

At every step of training in INT8* the two losses are also compared by the floating-point
cross-entropy of the same logits, and by the paper's powers of two without the floor of its
logarithm, as whole numbers of any length. So an error has two parts: what powers of two cost, and
what the floor costs.

Deviations from the paper:

1. The paper says that about 95 % of the signs are right, and not over which steps, method or data
   set. Here it is the share over all steps of a run, for each method and set.
2. A sign is right if it is that of the floating-point loss, zeros included: an integer comparison
   that finds no difference where there is one counts as wrong.
3. Batch size and r_max are lost from our copy of the paper; r_max was searched for on held-out
   items (artifact ``elasticzo_search``).
4. The integer rules are those of NITI's second version; see ``docs/integer.md`` for all that the
   papers leave open.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

from repro.artifacts.base import Artifact, Context, Result
from repro.artifacts.shared.images import ImageRuns
from repro.claims.index import of_artifact
from repro.core.names import ZEROTH_ORDER, MethodName
from repro.core.validation import require_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from repro.artifacts.base import Draw
    from repro.claims.trained import Cell
    from repro.claims.verdict import Finding
    from repro.measurement.records import Record

CLAIMS = tuple(claim.id for claim in of_artifact("elasticzo_int8_sign"))
RULES = {
    "integer_is_float": "integer = float",
    "exact_is_float": "without the floor = float",
    "integer_is_exact": "integer = without the floor",
    "integer_is_zero": "integer = 0",
}
"""What is counted, and how it is drawn."""
_PUBLISHED = 95
_DASHES = ("-", "--", "-.", ":")


@dataclass(frozen=True)
class Config(ImageRuns):
    """Which runs are watched, and how long they are."""

    methods: tuple[MethodName, ...] = ZEROTH_ORDER
    """Methods with a zeroth-order part."""

    def __post_init__(self) -> None:
        """Refuse any name or number that cannot be run, before anything runs."""
        super().__post_init__()
        require_names("methods", self.methods, ZEROTH_ORDER)


PAPER = Config()
QUICK = Config(seeds=(0,), epochs=6)
SMOKE = Config(datasets=("mnist",), seeds=(0,), epochs=1, image_items=512)


def run(config: Config, context: Context) -> Iterator[Result]:
    """Train in INT8* and count the signs.

    The weights are those of Table 1's runs; only runs that are watched have counts, so they are
    trained for this artifact.

    Kinds of results:

    - ``run``: one training run; the point names data set, precision and method, the metrics are
      its curves, its settings and, as ``signs``, the counts of each epoch
      (``repro.training.integer_learner.COUNTS``).
    """
    from repro.artifacts.shared.training_runs import image_runs, results

    cells = image_runs(config, ("int8s",), config.methods)
    watched = (replace(cell, signs=True) for cell in cells)
    yield from results(watched, context, engine=config.engine)


def share(record: "Record", rule: str) -> float:
    """Return the share of all steps of a run, in per cent."""
    counts = record.metrics["signs"]
    agreed: int = sum(epoch[rule] for epoch in counts)
    steps: int = sum(epoch["steps"] for epoch in counts)
    return 100 * agreed / steps


def by_epoch(record: "Record", rule: str) -> list[float]:
    """Return the share of the steps of each epoch, in per cent."""
    return [100 * epoch[rule] / epoch["steps"] for epoch in record.metrics["signs"]]


def cells(records: "Iterable[Record]") -> "dict[tuple[str, str], Cell]":
    """Return the cell of each data set and method."""
    from repro.artifacts.shared.scores import place
    from repro.claims.trained import Cells

    ordered = sorted(Cells(records), key=lambda cell: place(cell.point))
    return {(str(cell.point["dataset"]), str(cell.point["method"])): cell for cell in ordered}


_RIGHT = "integer_is_float"
_PARTS = 6
"""Methods times data sets that the paper's one number is about."""


def findings(records: "Sequence[Record]") -> "list[Finding]":
    """Return the finding for the artifact's one statement.

    Its plausible range is that of the epochs of all runs: the paper does not say over which steps
    it counted.
    """
    from repro.claims.elasticzo import DATASETS, METHODS
    from repro.claims.statistics import estimate, prediction_half_width
    from repro.claims.verdict import Finding
    from repro.measurement.records import rank

    found = cells(records)
    if len(found) < _PARTS:
        reason = f"{len(found)} of the {_PARTS} methods and data sets were run"
        return [Finding("B-sign", None, reason)]
    by_seed: dict[int | None, list[float]] = {}
    for cell in found.values():
        for record in cell.records:
            by_seed.setdefault(record.seed, []).append(share(record, _RIGHT))
    seeds = [fmean(shares) for shares in by_seed.values() if len(shares) == _PARTS]
    if not seeds:
        return [Finding("B-sign", None, "no seed was run with every method and data set")]
    epochs = [
        fmean(shares)
        for cell in found.values()
        for shares in zip(*(by_epoch(record, _RIGHT) for record in cell.records), strict=False)
    ]
    mean = estimate(seeds)
    parts = ", ".join(
        f"{METHODS[method]} on {DATASETS[dataset]} "
        f"{fmean(share(record, _RIGHT) for record in cell.records):.1f} %"
        for (dataset, method), cell in found.items()
    )
    exact = fmean(share(r, "exact_is_float") for cell in found.values() for r in cell.records)
    return [
        Finding(
            "B-sign",
            mean.mean,
            f"over all steps: {parts}; by epoch from {min(epochs):.1f} to {max(epochs):.1f} %; "
            f"without the floor of the logarithm {exact:.1f} % would be right",
            n_seeds=mean.n_seeds,
            interval=mean.interval,
            profile=min((cell.profile for cell in found.values()), key=rank),
            prediction=prediction_half_width(seeds),
            plausible=(min(epochs), max(epochs)),
        )
    ]


def signs(records: "Sequence[Record]") -> "Figure":
    """Draw a row for each data set and a column for each method, mean over seeds by epoch.

    It ends where the first seed does.
    """
    import matplotlib.pyplot as plt
    import seaborn as sns

    from repro.claims.elasticzo import DATASETS, METHODS
    from repro.plotting.remarks import title
    from repro.plotting.style import INK, style

    found = cells(records)
    datasets = list(dict.fromkeys(dataset for dataset, _ in found))
    methods = list(dict.fromkeys(method for _, method in found))
    with style():
        figure, grid = plt.subplots(
            len(datasets),
            len(methods),
            figsize=(3.3 * len(methods), 2.5 * len(datasets) + 0.5),
            squeeze=False,
            sharex=True,
            sharey=True,
        )
        for (dataset, method), cell in found.items():
            panel = grid[datasets.index(dataset), methods.index(method)]
            for rule, colour, dashes in zip(
                RULES, sns.color_palette("colorblind"), _DASHES, strict=False
            ):
                seeds = [by_epoch(record, rule) for record in cell.records]
                mean = [fmean(shares) for shares in zip(*seeds, strict=False)]
                panel.plot(
                    range(1, len(mean) + 1), mean, color=colour, ls=dashes, label=RULES[rule]
                )
            panel.axhline(_PUBLISHED, color=INK, lw=0.8, label="published: integer = float")
            name = title(f"{DATASETS[dataset]}, {METHODS[method]}", {cell.profile})
            panel.set_title(f"{name}\n{cell.caveat}".rstrip())
            panel.set_ylim(0, 101)
        for panel in grid[-1]:
            panel.set_xlabel("epoch")
        for panel in grid[:, 0]:
            panel.set_ylabel("share of steps (%)")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def _figures() -> "Mapping[str, Draw]":
    return {"signs": signs}


ARTIFACT = Artifact(
    slug="elasticzo_int8_sign",
    paper="elasticzo",
    title="ElasticZO: how often the integer sign of the gradient is right",
    about=__doc__,
    config=Config,
    profiles={"smoke": SMOKE, "quick": QUICK, "paper": PAPER},
    run=run,
    figures=_figures,
    captions={
        "signs": (
            "Share of steps at which the rules agree, by epoch, for each data set and method"
        ),
    },
    claims=CLAIMS,
    findings=findings,
    selector_fields=("datasets", "methods", "seeds"),
    can_sweep=True,
)
