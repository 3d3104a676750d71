"""ElasticZO paper, Fig. 3: train and test loss of LeNet-5 in integers, by epoch.

Deviations from the paper:

1. Batch size and r_max are lost from our copy of the paper; r_max was searched for on held-out
   items (artifact ``elasticzo_search``).
2. The losses are floating-point cross-entropies of the integer logits, computed for display only;
   training in INT8* never computes one.
3. The train loss is evaluated at the end of each epoch, at the unperturbed weights, on the first
   10,000 training images. The paper does not say how it computes its train loss.
4. An integer network shifts its activations by the range of the whole batch, so its losses depend
   on which images share a batch. Images are evaluated 500 at a time.
5. The curves start with the loss before the first epoch.
6. INT8* can be drawn as well (``--precisions int8_star``); the paper draws INT8.
7. The integer rules follow NITI's second version; ``docs/integer.md`` lists everything that the
   papers leave open.
"""

from dataclasses import dataclass
from typing import Literal

from repro.artifacts.shared.images import CurveRuns, loss_figure


@dataclass(frozen=True)
class Config(CurveRuns):
    """The curves to train, and the length of training."""

    precisions: tuple[Literal["int8", "int8_star"], ...] = ("int8",)
    """int8 (the gradient's sign from a float loss), int8_star (integers only)."""


ARTIFACT = loss_figure(
    "elasticzo_fig3",
    "ElasticZO Fig. 3: train and test loss of LeNet-5 in integers",
    __doc__,
    Config,
)
