"""ElasticZO paper, Fig. 2: train and test loss of LeNet-5 in float32, by epoch.

Deviations from the paper:

1. Learning rates, g_clip and epsilon are lost from our copy of the paper; they were searched for on
   held-out items (artifact ``elasticzo_search``). So is the batch size, which was set, not
   searched: 32.
2. The train loss is evaluated at the end of each epoch, at the weights themselves, on the first
   10,000 training images. The paper does not say how its train loss is taken; a mean over the
   epoch's minibatches would mix weights, and for the zeroth-order methods perturbed ones.
3. The curves begin before the first epoch.
"""

from collections.abc import Iterator

from repro.artifacts.base import Artifact, Context, Result, lazy
from repro.artifacts.shared.images import CurveRuns

PAPER = CurveRuns()
QUICK = CurveRuns(seeds=(0,), epochs=6)
SMOKE = CurveRuns(datasets=("mnist",), seeds=(0,), epochs=1, image_items=512)


def run(config: CurveRuns, context: Context) -> Iterator[Result]:
    """Yield a result for each curve; runs that Table 1 has made under the same code are reused.

    Kinds of results:

    - ``run``: one training run; the point names data set, precision and method, the metrics are
      its curves and its settings.
    """
    from repro.artifacts.shared.training_runs import image_runs, results

    runs = image_runs(config, ("fp32",), config.methods)
    yield from results(runs, context, engine=config.engine)


ARTIFACT = Artifact(
    slug="elasticzo_fig2",
    paper="elasticzo",
    title="ElasticZO Fig. 2: train and test loss of LeNet-5 in float32",
    about=__doc__,
    config=CurveRuns,
    profiles={"smoke": SMOKE, "quick": QUICK, "paper": PAPER},
    run=run,
    findings=lazy("repro.artifacts.shared.loss_findings:findings", "elasticzo_fig2"),
    figures=lambda: {"fig2": lazy("repro.artifacts.shared.losses:figure")},
    captions={
        "fig2": "Train and test loss by epoch for four methods on MNIST and Fashion-MNIST",
    },
    selector_fields=("datasets", "methods", "seeds"),
    can_sweep=True,
)
