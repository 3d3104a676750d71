"""The MeZO paper's equations (2) and (3), as they are, for the methods they describe.

They count 12 L D^2 + 2 V D parameters of b bytes whatever the architecture, activations of b bytes
too, and for MeZO the activations of L' layers.
"""

from repro.core.errors import UsageError
from repro.memory.analytic import bp_bytes, mezo_bytes, sizes
from repro.planner.architecture import Architecture
from repro.planner.methods import Method
from repro.planner.setting import Setting

LIVE_LAYERS = 1
"""L' of Fig. 3."""
BYTES_PER_PARAMETER = {"float32": 4.0, "float16": 2.0, "bfloat16": 2.0, "int8": 1.0, "4bit": 0.5}
"""b of each format."""


def paper_bytes(a: Architecture, method: Method, s: Setting) -> float | None:
    """Return what the paper's equations give, or ``None`` where it has none.

    It has none for Adam, adapters and ElasticZO, nor where the heads do not divide the hidden size.
    """
    if method.adam or method.trains != "all":
        return None
    try:
        checked = sizes(
            context=s.context,
            layers=a.layers,
            hidden=a.hidden,
            heads=a.heads,
            vocabulary=a.vocabulary,
            batch=s.batch,
            bytes_per_parameter=BYTES_PER_PARAMETER[s.format],
        )
    except UsageError:
        return None
    if method.estimator == "zeroth-order":
        return float(mezo_bytes(checked, live_layers=min(LIVE_LAYERS, a.layers)))
    return float(bp_bytes(checked, checkpointing=method.checkpointed))
