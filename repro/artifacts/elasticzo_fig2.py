"""ElasticZO paper, Fig. 2: train and test loss of LeNet-5 in float32, by epoch.

Deviations from the paper:

1. Learning rates, g_clip, epsilon and the batch size are lost from our copy of the paper. The batch
   size was set to 32; the others were searched for on held-out items (artifact
   ``elasticzo_search``).
2. The train loss is evaluated at the end of each epoch, at the unperturbed weights, on the first
   10,000 training images. The paper does not say how it computes its train loss. A mean over the
   epoch's minibatches would mix the weights of many steps, perturbed ones in zeroth-order methods.
3. The curves start with the loss before the first epoch.
"""

from repro.artifacts.shared.images import CurveRuns, loss_figure

ARTIFACT = loss_figure(
    "elasticzo_fig2",
    "ElasticZO Fig. 2: train and test loss of LeNet-5 in float32",
    __doc__,
    CurveRuns,
)
