"""MeZO paper, Fig. 3, measured: memory of BP and MeZO on a GPU at the paper's own sizes.

The paper draws its equations. We run real training steps of a decoder of Llama 2's shape, with
random weights, on a GPU, and compare the allocator's peak with equations (2) and (3) and with the
simulated step.

Deviations from the paper:

1. The feed-forward width is Llama 2's, 8/3 D rounded up (2.6875 D for the 7B), not 2.67 D.
2. Under checkpointing every decoder block keeps its input and is recomputed alone, as in
   transformers. The paper keeps sqrt(L) layers.
3. Every method computes loss and logits at the last position only; the equations count neither.
4. The peak is measured in PyTorch's allocator. It excludes the CUDA context and the kernels' code,
   about 0.5 GB. ``reserved`` is the memory that the allocator took from the device, fragmentation
   included.
5. The models of Fig. 4 have random weights in float16. GPT-2 medium is transformers' own GPT-2.
6. The simulated step runs the operators of the host. With SDPA it agrees with an H100. With eager
   attention some operators need other temporary tensors there.
"""

from dataclasses import dataclass, replace
from typing import Annotated, Literal, get_args

from repro.artifacts.base import Artifact, lazy
from repro.core.errors import UsageError
from repro.core.names import ATTENTIONS, Attention, Dtype
from repro.core.validation import ANY_NUMBER, Checked, Counts
from repro.measurement.device import Device
from repro.memory.shape import LLAMA2_7B, DecoderShape

Part = Literal["measured", "simulated"]
Fig4Model = Literal["gpt2-medium", "llama-7b", "llama-13b"]
FIG4_MODELS: tuple[Fig4Model, ...] = get_args(Fig4Model)


@dataclass(frozen=True)
class Config(Checked):
    """Shapes to measure and simulate; one size varies at a time."""

    parts: tuple[Part, ...] = get_args(Part)
    """Parts to run: measuring needs the device; simulating works on any machine."""
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
    contexts: Counts = (128, 512, 1024, 2048, 4096, 8192, 16384, 32768)
    """N of the first column."""
    depths: Counts = (1, 2, 4, 8, 16, 32)
    """L of the second column."""
    hiddens: Counts = (512, 1024, 2048, 4096)
    """D of the third column."""
    fig4_models: Annotated[tuple[Fig4Model, ...], ANY_NUMBER] = FIG4_MODELS
    """Models of Fig. 4 to measure, at B = 8, N = 1024."""
    attentions: tuple[Attention, ...] = ATTENTIONS
    """Attention kernels: eager forms the N x N scores that the equations count, SDPA does not."""
    dtype: Dtype = "float16"
    """Number format of weights and activations (the paper's fp16)."""
    device: Device = "cuda"
    """Device of the measured steps."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.shapes()  # a shape refuses sizes that do not fit each other
        if self.device == "cpu" and "measured" in self.parts and self.fig4_models:
            msg = (
                f"fig4_models = {' '.join(self.fig4_models)}: they are measured on a GPU alone; "
                "give --fig4-models without a name, or --device cuda"
            )
            raise UsageError(msg)

    def shapes(self) -> list[DecoderShape]:
        """Return the shapes, each once, the smallest models first."""
        base = DecoderShape(self.context, self.layers, self.hidden, self.heads, self.vocabulary)
        shapes = [replace(base, hidden=n) for n in self.hiddens]
        shapes += [replace(base, layers=n) for n in self.depths]
        shapes += [replace(base, context=n) for n in self.contexts]
        return list(dict.fromkeys(shapes))


PAPER = Config()
# only simulated, so that it runs on any machine
QUICK = replace(
    PAPER,
    parts=("simulated",),
    contexts=(512, 2048, 16384),
    depths=(1, 32),
    hiddens=(512,),
    fig4_models=(),
    device="cpu",
)
SMOKE = Config(
    context=64,
    layers=2,
    hidden=64,
    heads=4,
    vocabulary=256,
    contexts=(32, 64),
    depths=(1, 2),
    hiddens=(64,),
    fig4_models=(),
    attentions=("eager",),
    dtype="float32",
    device="cpu",
)


ARTIFACT = Artifact(
    slug="mezo_fig3_gpu",
    paper="mezo",
    title="MeZO Fig. 3 at the paper's sizes, on a GPU: memory of BP and MeZO",
    about=__doc__,
    profiles={"smoke": SMOKE, "quick": QUICK, "paper": PAPER},
    run=lazy("repro.artifacts.mezo_fig3_gpu.run:run"),
    findings=lazy("repro.artifacts.mezo_fig3_gpu.findings:findings"),
    captions={
        "memory": (
            "Peak memory of BP, checkpointed BP and MeZO over N, L and D at Llama 2's sizes in "
            "float16: the paper's equations, the simulated step, and the step measured on a GPU"
        ),
    },
    selector_fields=("parts", "contexts", "depths", "hiddens", "fig4_models"),
)
