"""MeZO paper, Fig. 4: BoolQ accuracy against wall-clock time, BP and MeZO at equal memory.

Deviations from the paper:

1. The paper trains GPT-2 medium by BP and Llama 2 7B and 13B by MeZO on one H100: the profile
   `paper`, for whoever has the weights and the GPU. The others run on models that can be had:
   SmolLM2-135M-Instruct, from a 4-bit file that is made dense, by every arm on two cores in minutes
   (`quick`); in `hours` and on a GPU (`gpu`) MeZO trains the largest obtainable model that fits.
   `smoke` trains a random model on generated sentences.
2. The paper's three set-ups are called equal by its formula at values of L' chosen for that; they
   are not (claim A8). Here a budget is held to: the formula proposes model, N and B of each arm,
   and a real step is measured. Formula, tensors and measurement stand side by side. The `paper`
   profile has no budget: it runs the paper's set-ups and shows what they take.
3. Arms the paper does not have: BP with checkpointing, the baseline that its memory asks for, and
   MeZO with one perturbation a step beside its five.
4. Learning rates are chosen by the loss on questions held out of the training split, in runs
   shorter than the drawn ones, of a few steps in `quick`; the paper draws the best, and does not
   say on what. Off the `paper` profile the grids reach higher than the paper's, for models with
   fewer parameters.
5. Questions of the training split whose passage also stands in the validation split (or in the
   held-out part) are left out.
6. The prompt is the MeZO authors'; the loss compares the logits of Yes and No after it. No other
   logits are computed, in any arm.
7. Accuracy during training is on a fixed part of validation, in which each answer has the share
   that it has in all of it; at the end on all 3,270 questions, but for `quick`, whose 15 minutes
   that would exceed.
8. The clock stands still during evaluation and while checkpoints are written.
9. Weights are float32, but for MeZO's in the `paper` profile, where they are bfloat16: plain SGD
   in bfloat16 loses its small updates, and BP would be the worse for that alone. MeZO rounds its
   updates stochastically there and restores the weights exactly, which by PyTorch's operators takes
   several times what the forward passes do on two cores, and less where the engine is built; on a
   GPU, where it makes no passes, it was not timed.
10. The paper does not give eps; it is Malladi et al.'s 1e-3.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, get_args

from repro.artifacts.base import Artifact, Context, Result
from repro.claims.index import of_artifact
from repro.core.errors import UsageError
from repro.core.limits import require_seeds
from repro.core.names import BYTES, Dtype
from repro.core.validation import (
    require_choice,
    require_distinct,
    require_names,
    require_not_negative,
    require_positive,
    require_positive_int,
)
from repro.data.text.tasks import get_task
from repro.finetuning.arms import ARMS, Arm, estimates
from repro.finetuning.items import DATASETS
from repro.finetuning.run import NoiseName

if TYPE_CHECKING:
    from repro.artifacts.base import Draw
    from repro.claims.verdict import Finding
    from repro.measurement.records import Record


@dataclass(frozen=True)
class Config:
    """What is trained, on what, how long, and in how much memory."""

    setting: str = "two cores, minutes"
    """What the runs are called in figures; runs of other settings stand beside them."""
    datasets: tuple[str, ...] = DATASETS
    """Tasks, of which the first that can be had is taken: boolq, boolq-qa, sst2, sst2-k16-13 and
    four more, rte, yesno-facts (generated questions), or a .toml file."""
    arms: tuple[Arm, ...] = ARMS
    """What trains: BP, BP with checkpointing, MeZO with n = 1 and n = 5 (the paper's)."""
    bp_models: tuple[str, ...] = ("smollm2-135m",)
    """Models for BP: names of `repro data list` or of the hub, directories, GGUF files."""
    mezo_models: tuple[str, ...] = ("smollm2-135m",)
    """Models for MeZO; of both lists the largest that can be had and fits is taken."""
    every_model: bool = False
    """Run every model of the lists, whatever memory it takes, as the paper does."""
    budget_bytes: int = 2_000_000_000
    """Memory of a training step, weights included; 0 for what BP is measured to take."""
    dtype: Dtype = "float32"
    """Of MeZO's weights and activations."""
    bp_dtype: Dtype = "float32"
    """Of BP's, whose SGD loses small updates in half precision."""
    context: int = 64
    """N, the longest prompt in tokens (the paper's 1024); what is longer loses passage."""
    batch: int = 8
    """B, prompts of a step (the paper's 8)."""
    seconds: float = 60
    """Training time of each run (the paper's figure shows about 7200)."""
    evaluations: int = 4
    """Evaluations during a run, at equal times."""
    monitored_items: int = 64
    """Validation questions of those evaluations."""
    final_items: int = 128
    """Validation questions evaluated at the end; 0 for all."""
    bp_lrs: tuple[float, ...] = (5e-3, 5e-4, 5e-5)
    """Learning rates tried for BP (the paper's: 5e-4, 5e-5, 5e-6)."""
    mezo_lrs: tuple[float, ...] = (5e-4, 5e-5, 5e-6)
    """Learning rates tried for MeZO (the paper's: 5e-7, 5e-8, 5e-9)."""
    grid_seconds: float = 15
    """Training time of each run of the grids."""
    tuning_items: int = 64
    """Training questions held out to choose the learning rates on."""
    noise: NoiseName = "torch"
    """Where MeZO's perturbations come from; the on-device engine draws them several times as fast,
    on the host. Memory is planned and measured with PyTorch's, which takes no less."""
    eps: float = 1e-3
    """Scale of the perturbation (not in the paper; Malladi et al.: 1e-3)."""
    seeds: tuple[int, ...] = (0,)
    """Seeds of the order of questions and of the perturbations."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where it runs."""
    threads: int = 2
    """Threads of each run; runs do not share the machine, for their time is the result."""

    def __post_init__(self) -> None:
        """Refuse what cannot be run, before anything runs."""
        require_distinct("datasets", self.datasets)
        for name in self.datasets:
            get_task(name)
        require_names("arms", self.arms, ARMS)
        require_distinct("bp_models", self.bp_models)
        require_distinct("mezo_models", self.mezo_models)
        require_not_negative("memory budget in bytes", self.budget_bytes)
        require_choice("dtype", self.dtype, BYTES)
        require_choice("bp_dtype", self.bp_dtype, BYTES)
        require_choice("device", self.device, ("cpu", "cuda"))
        require_choice("noise", self.noise, get_args(NoiseName))
        if self.noise == "engine" and self.device != "cpu":
            msg = (
                "noise = 'engine' with device = 'cuda': the engine draws on the host; take 'torch'"
            )
            raise UsageError(msg)
        for name in ("context", "batch", "evaluations", "monitored_items", "tuning_items"):
            require_positive_int(name, getattr(self, name))
        require_positive_int("threads", self.threads)
        require_not_negative("final_items", self.final_items)
        for name in ("seconds", "grid_seconds", "eps"):
            require_positive(name, getattr(self, name))
        for name in ("bp_lrs", "mezo_lrs"):
            require_distinct(name, getattr(self, name))
            for lr in getattr(self, name):
                require_positive(f"learning rate of {name}", lr)
        require_seeds(self.seeds)

    def models(self, arm: Arm) -> tuple[str, ...]:
        """Return the models that ``arm`` may train."""
        return self.mezo_models if estimates(arm) else self.bp_models

    def dtype_of(self, arm: Arm) -> Dtype:
        """Return the type of the weights and activations of ``arm``."""
        return self.dtype if estimates(arm) else self.bp_dtype

    def lrs(self, arm: Arm) -> tuple[float, ...]:
        """Return the learning rates tried for ``arm``."""
        return self.mezo_lrs if estimates(arm) else self.bp_lrs


QUICK = Config()
SMOKE = replace(
    QUICK,
    setting="smoke",
    datasets=("yesno-facts",),
    bp_models=("tiny-llama",),
    mezo_models=("tiny-llama",),
    budget_bytes=50_000_000,
    context=48,
    batch=4,
    seconds=1.0,
    evaluations=2,
    monitored_items=32,
    final_items=64,
    bp_lrs=(0.1, 0.01),
    mezo_lrs=(1e-2, 1e-3),
    grid_seconds=0.2,
    tuning_items=32,
    threads=1,
)
HOURS = replace(
    QUICK,
    setting="two cores, hours",
    datasets=("boolq",),
    mezo_models=("gemma3-270m", "smollm2-135m"),
    budget_bytes=3_000_000_000,
    context=128,
    seconds=1800,
    evaluations=9,
    monitored_items=256,
    final_items=0,
    bp_lrs=(5e-2, 5e-3, 5e-4),
    mezo_lrs=(5e-5, 5e-6, 5e-7),
    grid_seconds=200,
    tuning_items=256,
    seeds=(0, 1, 2),
)
GPU = replace(
    HOURS,
    setting="one GPU",
    budget_bytes=0,
    context=512,
    seconds=600,
    evaluations=20,
    monitored_items=512,
    grid_seconds=60,
    tuning_items=512,
    device="cuda",
)
PAPER = replace(
    GPU,
    setting="the paper's",
    arms=("bp", "mezo_5"),
    bp_models=("openai-community/gpt2-medium",),
    mezo_models=("meta-llama/Llama-2-7b-hf", "meta-llama/Llama-2-13b-hf"),
    every_model=True,
    dtype="bfloat16",
    context=1024,
    seconds=7200,
    bp_lrs=(5e-4, 5e-5, 5e-6),
    mezo_lrs=(5e-7, 5e-8, 5e-9),
    grid_seconds=1800,
)
CAPTIONS = {
    "fig4": (
        "Validation accuracy over time, forward passes and arithmetic, and the memory of each arm; "
        "the published accuracies are of far larger models"
    ),
    "learning_rates": "Loss on the held-out questions over the learning rate, by arm and model",
}


def _run(config: Config, context: Context) -> Iterator[Result]:
    from repro.artifacts.mezo_fig4.run import run

    return run(config, context)


def _findings(records: "Sequence[Record]") -> "list[Finding]":
    from repro.artifacts.mezo_fig4.findings import findings

    return findings(records)


def _figures() -> "Mapping[str, Draw]":
    from repro.artifacts.mezo_fig4.figures import FIGURES

    return FIGURES


ARTIFACT = Artifact(
    slug="mezo_fig4",
    paper="mezo",
    title="MeZO Fig. 4: BoolQ accuracy of BP and MeZO over training time at equal memory",
    claims=tuple(claim.id for claim in of_artifact("mezo_fig4")),
    about=__doc__,
    config=Config,
    profiles={"smoke": SMOKE, "quick": QUICK, "hours": HOURS, "gpu": GPU, "paper": PAPER},
    run=_run,
    findings=_findings,
    figures=_figures,
    captions=CAPTIONS,
    selector_fields=("arms", "datasets", "seeds"),
    timed=True,
)
