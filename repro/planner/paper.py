"""The MeZO paper's equations (2) and (3), unchanged, for the methods they describe.

For any architecture they count 12 L D^2 + 2 V D parameters of b bytes, activations of b bytes each,
and for MeZO the activations of L' layers. This count fits a decoder with as many key/value heads as
query heads, a feed-forward network of 8 D^2 parameters, and separate embedding and output layers.
Small models share heads and embeddings: SmolLM2-135M has 135 million parameters, and the count
gives 176 million.
"""

from repro.core.errors import UsageError
from repro.memory import analytic
from repro.memory.analytic import AS_PRINTED, Sizes, sizes
from repro.memory.setting import Setting, TrainingMethod
from repro.planner.architecture import Architecture

LIVE_LAYERS = 1
"""L' in Fig. 3."""
BYTES_PER_PARAMETER = {"float32": 4.0, "float16": 2.0, "bfloat16": 2.0, "int8": 1.0, "4bit": 0.5}
"""b of each format."""


def paper_bytes(a: Architecture, method: TrainingMethod, s: Setting) -> float | None:
    """Return the value of the paper's equation, or ``None`` if there is none.

    There is none for Adam, adapters and ElasticZO, or if the heads do not divide the hidden size.
    """
    if method.adam or method.trains != "all":
        return None
    try:
        checked = _sizes(a, s)
    except UsageError:
        return None
    if method.estimator == "zeroth-order":
        return float(AS_PRINTED.mezo_bytes(checked, LIVE_LAYERS))
    return float(AS_PRINTED.bp_bytes(checked, checkpointing=method.checkpointed))


def effective_layers(a: Architecture, s: Setting, peak: float) -> float:
    """Return the L' for which equation (3), with the real parameters, gives ``peak`` bytes.

    Raises:
        UsageError: the heads do not divide the hidden size.
    """
    weights = BYTES_PER_PARAMETER[s.format] * a.parameters
    return float(analytic.effective_layers(_sizes(a, s), peak, weights))


def _sizes(a: Architecture, s: Setting) -> Sizes:
    return sizes(
        context=s.context,
        layers=a.layers,
        hidden=a.hidden,
        heads=a.heads,
        vocabulary=a.vocabulary,
        batch=s.batch,
        bytes_per_parameter=BYTES_PER_PARAMETER[s.format],
    )
