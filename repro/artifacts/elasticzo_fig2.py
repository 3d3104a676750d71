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

from repro.artifacts.shared.images import CurveRuns, loss_figure

ARTIFACT = loss_figure(
    "elasticzo_fig2",
    "ElasticZO Fig. 2: train and test loss of LeNet-5 in float32",
    __doc__,
    CurveRuns,
)
