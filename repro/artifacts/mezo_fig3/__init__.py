"""MeZO paper, Fig. 3: memory of backpropagation and of MeZO over context, depth and width.

Deviations from the paper:

1. The paper draws its formulas only. We add the tensors of real training steps, counted under fake
   tensors at the paper's sizes, and measured steps of small models.
2. The paper's checkpointing keeps sqrt(L) layers. The simulated and measured steps use the
   checkpointing of transformers: every decoder block keeps its input and is recomputed alone.
3. The feed-forward width is Llama 2's, 8/3 D rounded up (2.6875 D for the 7B), not 2.67 D.
4. Every method computes loss and logits at the last position only; the formulas count neither.
5. The measured models keep Llama's architecture at sizes that two cores and 4 GB can train.
6. The simulated steps run the operators that PyTorch selects on the host. On a GPU some of them are
   fused, and an eager forward pass needs about a fifth less memory above the weights.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Literal, get_args

from repro.artifacts.base import Artifact, lazy
from repro.core.errors import UsageError
from repro.core.names import ATTENTIONS, Attention, Dtype
from repro.core.validation import Checked, Counts, require_not_negative
from repro.measurement.device import Device
from repro.memory.shape import LLAMA2_7B, DecoderShape

Part = Literal["equations", "simulated", "measured", "perturbations"]


@dataclass(frozen=True)
class Config(Checked):
    """Points to compute, simulate and measure; eight fields default to the paper's setting."""

    parts: tuple[Part, ...] = get_args(Part)
    """Parts to run: equations, simulated, measured, perturbations (n = 1 and 5, measured)."""
    context: int = LLAMA2_7B.context
    """N, tokens per sequence while L or D varies (the paper's 2048)."""
    layers: int = LLAMA2_7B.layers
    """L, decoder blocks while N or D varies (the paper's 32)."""
    hidden: int = LLAMA2_7B.hidden
    """D, hidden dimension while N or L varies (the paper's 4096)."""
    heads: int = LLAMA2_7B.heads
    """H, attention heads; fixed while D varies (the paper's 32)."""
    vocabulary: int = LLAMA2_7B.vocabulary
    """V, tokens of the vocabulary (the paper's 32000)."""
    batch: int = LLAMA2_7B.batch
    """B, sequences per step (the paper's 1)."""
    bytes_per_parameter: float = 2
    """b, bytes per parameter in the analytic lines (the paper's 2, for fp16)."""
    live_layers: Annotated[float, require_not_negative] = 1
    """L', layers whose activations MeZO holds at once, in the analytic lines (the paper's 1)."""
    simulate_contexts: Counts = (1, 2048, 8192, 32768)
    """N of the simulated points of the first column."""
    simulate_layers: Counts = (1, 32, 100)
    """L of the simulated points of the second column."""
    simulate_hiddens: Counts = (512, 4096, 32768)
    """D of the simulated points of the third column."""
    measure_contexts: Counts = (64, 256, 1024)
    """N of the measured points."""
    measure_layers: Counts = (1, 8, 24)
    """L of the measured points."""
    measure_hiddens: Counts = (64, 256, 768)
    """D of the measured points."""
    measure_context: int = 256
    """N of the measured model while L or D varies."""
    measure_depth: int = 8
    """L of the measured model while N or D varies."""
    measure_hidden: int = 256
    """D of the measured model while N or L varies."""
    measure_heads: int = 8
    """H of the measured model."""
    measure_vocabulary: int = 2048
    """V of the measured model."""
    measure_dtypes: tuple[Dtype, ...] = ("float32", "bfloat16")
    """Number formats of the measured points; simulated ones are float16, as in the paper."""
    attentions: tuple[Attention, ...] = ATTENTIONS
    """Attention kernels: eager forms the N x N scores that the formula counts, SDPA does not."""
    device: Device = "cpu"
    """Device of the measured steps."""
    threads: int = 1
    """Threads of each measured process."""
    onednn: bool = True
    """Whether the measured steps may use PyTorch's oneDNN backend."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.live_layers > self.layers:
            raise UsageError(
                f"live layers L' = {self.live_layers}: must lie between 0 and the number of "
                f"layers L = {self.layers}"
            )
        # a shape refuses sizes that do not fit each other
        self.simulated_shapes()
        self.measured_shapes()

    def paper_shape(self) -> DecoderShape:
        """Return the model around which the analytic lines and the simulated points vary."""
        return DecoderShape(
            self.context, self.layers, self.hidden, self.heads, self.vocabulary, self.batch
        )

    def measured_shape(self) -> DecoderShape:
        """Return the model around which the measured points vary."""
        return DecoderShape(
            context=self.measure_context,
            layers=self.measure_depth,
            hidden=self.measure_hidden,
            heads=self.measure_heads,
            vocabulary=self.measure_vocabulary,
            batch=self.batch,
        )

    def simulated_shapes(self) -> list[DecoderShape]:
        """Return the shapes of the simulated points, each once."""
        axes = (self.simulate_contexts, self.simulate_layers, self.simulate_hiddens)
        return _cross(self.paper_shape(), *axes)

    def measured_shapes(self) -> list[DecoderShape]:
        """Return the shapes of the measured points, each once."""
        axes = (self.measure_contexts, self.measure_layers, self.measure_hiddens)
        return _cross(self.measured_shape(), *axes)


def _cross(
    base: DecoderShape,
    contexts: tuple[int, ...],
    layers: tuple[int, ...],
    hiddens: tuple[int, ...],
) -> list[DecoderShape]:
    """Vary one size at a time."""
    shapes = [replace(base, context=n) for n in contexts]
    shapes += [replace(base, layers=n) for n in layers]
    shapes += [replace(base, hidden=n) for n in hiddens]
    return list(dict.fromkeys(shapes))


QUICK = Config()
SMOKE = Config(
    simulate_contexts=(2048,),  # the point of the notebook's table of parts
    simulate_layers=(1,),
    simulate_hiddens=(),
    measure_contexts=(64,),
    measure_layers=(2,),
    measure_hiddens=(),
    measure_depth=2,
    measure_dtypes=("float32",),
    attentions=("eager",),
)
PAPER = Config(
    simulate_contexts=(1, 128, 512, 1024, 2048, 4096, 8192, 16384, 32768),
    simulate_layers=(1, 2, 4, 8, 16, 23, 32, 64, 100),
    simulate_hiddens=(512, 1024, 2048, 4096, 8192, 16384, 32768),
    measure_contexts=(16, 64, 128, 256, 512, 1024),
    measure_layers=(1, 2, 4, 8, 16, 24),
    measure_hiddens=(64, 128, 256, 512, 768),
)
ARTIFACT = Artifact(
    slug="mezo_fig3",
    paper="mezo",
    title="MeZO Fig. 3: memory of backpropagation and MeZO over context, layers and hidden size",
    about=__doc__,
    profiles={"smoke": SMOKE, "quick": QUICK, "paper": PAPER},
    run=lazy("repro.artifacts.mezo_fig3.run:run"),
    findings=lazy("repro.artifacts.mezo_fig3.findings:findings"),
    captions={
        "fig3": (
            "Memory of BP divided by memory of MeZO over N, L and D, without checkpointing (top) "
            "and with it (bottom): the printed numbers, the equations as printed and as recovered, "
            "and simulated steps"
        ),
        "fig3_memory": (
            "Memory of BP and MeZO over N, L and D, without checkpointing (top) and with it "
            "(bottom), with simulated steps"
        ),
        "fig3_measured": (
            "Memory of BP and MeZO over N, L and D for small models, with measured steps"
        ),
        "predicted": (
            "Formula divided by observed peak, for every simulated and every measured step"
        ),
    },
    selector_fields=("parts",),
)
