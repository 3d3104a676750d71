"""ElasticZO paper, Fig. 7: time of an epoch of LeNet-5 on MNIST, by phase.

Deviations from the paper:

1. The machine is another one. The paper's is a Raspberry Pi Zero 2, whose four ARM cores at 1 GHz
   have no dot product of bytes; the record names ours, its instruction set and its multiplications
   per second. So the verdict on every claim is *not comparable*, and the reports show our values
   next to the paper's.
2. The paper's program is not public. Ours is the on-device engine (``docs/ondevice.md``). The
   suite's steps in PyTorch are timed as well; the paper has no numbers for PyTorch.
3. One thread is used by default; the paper uses all four cores.
4. The batch size is lost from our copy of the paper. Both batch sizes of its figures on memory are
   timed, each in FP32 and in INT8.
5. The paper averages over the 100 epochs of a run. We time first epochs and take the median, so
   INT8 perturbs with p_zero = 0.33 and updates the backpropagated layers by 5 bits. All arms take
   turns, a tenth of an epoch at a time, so that other load on the machine affects all of them
   equally; ratios are taken epoch by epoch. The quick profile's epochs have 20,000 images.
6. INT8 takes the gradient's sign from a loss in floating point, computed from the logits of both
   passes. INT8* differs in nothing else, and the loss is a small share of the time.
7. The update of the backpropagated layers counts as Backward in the engine, as ZO Update in
   PyTorch. The gradient of the loss with respect to the logits counts as Loss in the engine's
   float32 and as Backward elsewhere. Work outside all phases counts as other: gathering,
   normalising and laying out a batch.
"""

from dataclasses import dataclass
from typing import get_args

from repro.artifacts.base import Artifact, lazy
from repro.claims.execution_time import BATCHES
from repro.core.names import ZEROTH_ORDER, Engine, NumberFormat, ZerothOrderMethod
from repro.core.validation import Checked


@dataclass(frozen=True)
class Config(Checked):
    """The steps to time, and the number of epochs."""

    engines: tuple[Engine, ...] = get_args(Engine)
    """torch; native, the on-device engine, which is built if necessary."""
    precisions: tuple[NumberFormat, ...] = get_args(NumberFormat)
    """fp32, int8."""
    methods: tuple[ZerothOrderMethod, ...] = ZEROTH_ORDER
    """The methods, by the layers that backpropagation trains: none, the last, the last two."""
    batches: tuple[int, ...] = BATCHES
    """B, samples per step."""
    epochs: int = 7
    """Timed epochs of each arm; the median counts."""
    image_items: int | None = None
    """Images per epoch; by default all 60,000."""
    threads: int = 1
    """Threads of PyTorch and of the engine."""


PAPER = Config()
QUICK = Config(epochs=5, image_items=20_000)
SMOKE = Config(batches=(32,), epochs=1, image_items=512)
ARTIFACT = Artifact(
    slug="elasticzo_fig7",
    paper="elasticzo",
    title="ElasticZO Fig. 7: time of an epoch of LeNet-5 by phase, in float32 and in integers",
    about=__doc__,
    profiles={"smoke": SMOKE, "quick": QUICK, "paper": PAPER},
    run=lazy("repro.artifacts.elasticzo_fig7.run:run"),
    findings=lazy("repro.artifacts.elasticzo_fig7.findings:findings"),
    captions={
        "fig7": (
            "Seconds of an epoch by phase for Full ZO, ZO-Feat-Cls2 and ZO-Feat-Cls1 in FP32 and "
            "INT8, in PyTorch and on the on-device engine"
        ),
        "shares": (
            "Share of each phase in an epoch, in per cent, with the published share of Forward"
        ),
    },
    timed=True,
)
