"""MeZO: time and memory of a language model's training step, against two forward passes.

A MeZO step makes two forward passes and changes every weight three times. This artifact times the
step of each method on models of three sizes with random weights, in turns. It reports each time
relative to two forward passes and to the loop published by the MeZO authors.

Deviations from the paper:

1. The paper times whole runs only (Fig. 4), so no published claim is answered here.
2. The models have the shapes of SmolLM2-135M, Llama 3.2 1B and Llama 2 7B, and random weights.
3. We reimplemented the published loop from its description: it draws the whole noise of a tensor at
   once, makes new tensors for sum and product, and computes the logits of every position for each
   answer.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

from repro.artifacts.base import Artifact, lazy
from repro.core.errors import UsageError
from repro.core.names import Dtype
from repro.core.validation import Checked, Counts
from repro.finetuning.arms import NoiseName
from repro.measurement.device import Device

ModelName = Literal["tiny", "135M", "1B", "7B"]
TimedArm = Literal[
    "two_forwards",
    "bp",
    "bp_checkpoint",
    "lora",
    "mezo_torch",
    "mezo_engine",
    "mezo_engine_signs",
    "mezo_philox",
    "mezo_philox_exact",
    "mezo_philox_signs",
    "published",
]
ARMS: tuple[TimedArm, ...] = get_args(TimedArm)
LABELS: dict[str, str] = {
    "two_forwards": "two forward passes",
    "bp": "BP, SGD",
    "bp_checkpoint": "BP, checkpointed, SGD",
    "lora": "LoRA, Adam",
    "mezo_torch": "MeZO, PyTorch's noise",
    "mezo_engine": "MeZO, engine's noise",
    "mezo_engine_signs": "MeZO, engine's signs",
    "mezo_philox": "MeZO, fused kernels",
    "mezo_philox_exact": "MeZO, fused kernels, exact restore",
    "mezo_philox_signs": "MeZO, fused kernels' signs, exact restore",
    "published": "MeZO, published loop",
}
NOISES: dict[str, NoiseName] = {
    "mezo_torch": "torch",
    "mezo_engine": "engine",
    "mezo_engine_signs": "engine-signs",
    "mezo_philox": "philox",
    "mezo_philox_exact": "philox",
    "mezo_philox_signs": "philox-signs",
}
"""Noise of the arms that use this suite's MeZO; it decides on which device an arm can run."""


@dataclass(frozen=True)
class Config(Checked):
    """The steps to time, and their models and batches."""

    models: tuple[ModelName, ...] = ("135M", "1B", "7B")
    """Shapes of the models; the weights are random."""
    arms: tuple[TimedArm, ...] = ARMS
    """Methods. The engine draws noise on a CPU only, the fused kernels on a GPU only; elsewhere
    they are left out."""
    batches: Counts = (16, 8, 1)
    """B, prompts per step, for each timed batch."""
    contexts: tuple[int, ...] = (32, 128, 2048)
    """N, tokens per prompt, for each timed batch, in the same order."""
    dtype: Dtype = "bfloat16"
    """Number format of weights and activations."""
    turns: int = 6
    """Turns of each arm; an even number cancels a drift of the machine."""
    steps: int = 4
    """Steps per turn."""
    device: Device = "cuda"
    """Device of the timed steps."""
    threads: int = 1
    """Threads on the host."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if "two_forwards" not in self.arms:
            msg = f"arms = {', '.join(self.arms)}: add two_forwards, the unit of every time"
            raise UsageError(msg)
        if len(self.batches) != len(self.contexts):
            raise UsageError(
                f"{len(self.batches)} batches and {len(self.contexts)} contexts: they form pairs, "
                "so give equally many of both"
            )


PAPER = Config()
QUICK = replace(
    PAPER, models=("135M",), batches=(16, 8), contexts=(32, 128), dtype="float32", turns=6,
    steps=1, device="cpu", threads=2,
)  # fmt: skip
SMOKE = replace(QUICK, models=("tiny",), batches=(2,), contexts=(16,), turns=2, threads=1)


ARTIFACT = Artifact(
    slug="mezo_step_time",
    paper="mezo",
    title="MeZO: time of a training step against two forward passes and the published loop",
    about=__doc__,
    profiles={"smoke": SMOKE, "quick": QUICK, "paper": PAPER},
    run=lazy("repro.artifacts.mezo_step_time.run:run"),
    captions={
        "steps": (
            "Time of a training step of each method as a multiple of two forward passes: median "
            "and range over the turns"
        ),
    },
    selector_fields=("models",),
    timed=True,
    reads_custom=True,
)
