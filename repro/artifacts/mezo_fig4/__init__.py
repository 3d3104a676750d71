"""MeZO paper, Fig. 4: accuracy over wall-clock time, BP and MeZO at equal memory.

The paper trains GPT-2 medium by BP and Llama 2 7B and 13B by MeZO on BoolQ and one H100 (profile
`paper`, which needs these weights and such a GPU). The other profiles ask the same question about
available models: SmolLM2-135M-Instruct by BP and, in all but `smoke` and `quick`, by MeZO a model
11 times as large, Qwen2.5-Coder-1.5B-Instruct. The memory budget is the measured peak of BP
at the paper's B = 8 and N = 1024. `quick` trains SmolLM2-135M by every arm; `smoke` trains a random
model on generated sentences.

Deviations from the paper:

1. Models: see above. Both are instruction-tuned and start from 4-bit files, made dense.
2. Memory: by its formula, at values of L' chosen for this purpose, the paper calls its three
   set-ups equal (statement A8). Here every arm has to stay within one budget. The planner's formula
   proposes the model, N and B of an arm, and a real step is measured. The `paper` profile has no
   budget: it runs the paper's set-ups and shows their memory. MeZO's model counts as larger than
   BP's if it has more parameters outside its embedding and output layer: Gemma-3-270M, which
   earlier runs used, is larger than SmolLM2-135M in its embedding only.
3. Arms that the paper does not have: BP with checkpointing, LoRA with Adam and checkpointing
   (rank 16 on every matrix of every block), MeZO with n = 1, MeZO on LoRA, and ElasticZO, which
   backpropagates the last block and the layers after it. A tied output layer is the embedding and
   belongs to ElasticZO's zeroth-order part. BP and MeZO alone judge the paper's statements.
4. Tasks: BoolQ; SST-2, which two cores can train; RTE in `day` and `gpu`; and in `fewshot` 16
   training examples a class of SST-2, in the five splits of LM-BFF (arXiv 2012.15723), one for each
   seed. The paper's statements are judged on BoolQ only. The order on SST-2 and on the few-shot
   task has statements of its own.
5. Controls that the paper does not show: the zero-shot accuracy of every model on every task, plain
   and with a bias chosen on training items, and the accuracy of the majority answer. LoRA with Adam
   on the larger model checks whether this model can end higher at all.
6. Learning rates are chosen by the loss on held-out training items, in runs of a tenth (`hours`,
   `day`), a fifth (`boolq`, `gpu`), half (`fewshot`) or a quarter of the length; `gpu-long` takes
   the rates chosen in `gpu`. The paper draws the best rate and does not say on which data it is
   best. Outside the `paper` profile the grids are higher than the paper's, because the models are
   smaller; MeZO's grid is finer for the model of 1.5B parameters.
7. Length: `fewshot`, `hours`, `boolq` and `day` fix the steps of each arm, so that a run is the
   same on any machine; MeZO with n = 5 makes as many forward passes as with n = 1. The other
   profiles fix the time of each arm. BoolQ's prompts are about six times as long as SST-2's. For
   them `boolq` gives MeZO 200 steps, which take two cores about as long as BP's 400.
8. Training items whose text also occurs in the validation split, or in the held-out part, are left
   out.
9. The prompt is the MeZO authors'; the loss compares the logits of the answers after it. No other
   logits are computed, in any arm.
10. During training, accuracy is measured on a fixed part of the validation split, in which each
    answer has the same share as in the whole split. At the end it is measured on the whole split,
    except in `quick`, whose 15 minutes would not suffice, and in `boolq`, which takes 1,024 of
    BoolQ's 3,270 questions. The thin line is the running maximum, which the paper draws. A9, A9-bp
    and A10 are judged by it; A9-order is judged by the last step.
11. The clock stops during evaluation and while checkpoints are written.
12. BP trains in float32: plain SGD in bfloat16 loses its small updates, which alone would put BP at
    a disadvantage. Except in `smoke` and `quick` the other arms hold the weights in bfloat16. MeZO
    restores them exactly and rounds its updates stochastically; LoRA adapters are float32;
    ElasticZO's backpropagated part uses plain SGD in bfloat16.
13. The paper does not give eps; it is Malladi et al.'s 1e-3.
"""

from dataclasses import dataclass, replace
from typing import Annotated

from repro.artifacts.base import Artifact, lazy
from repro.core.errors import UsageError
from repro.core.names import Dtype
from repro.core.validation import ANY_NUMBER, Checked, Count, Seed, require_distinct
from repro.data.text.tasks import task_name, task_of_seed
from repro.finetuning.arms import (
    ARMS,
    SPECIFICATIONS,
    Arm,
    NoiseName,
    device_for,
    is_full_backpropagation,
)
from repro.measurement.device import Device


@dataclass(frozen=True)
class Config(Checked):
    """The models, tasks and methods to train, and the length and memory of training."""

    setting: str = "two cores, minutes"
    """Name of the runs in figures; runs of other settings are kept apart."""
    datasets: tuple[str, ...] = ("sst2",)
    """Tasks: boolq, boolq-qa, sst2, sst2-k16, rte, yesno-facts, or a .toml file."""
    arms: tuple[Arm, ...] = ARMS
    """Methods; mezo_n averages n perturbations in a step (the paper's: bp and mezo_5)."""
    bp_models: tuple[str, ...] = ("smollm2-135m",)
    """Models for BP: names from repro data list or the hub, directories, or GGUF files."""
    mezo_models: tuple[str, ...] = ("smollm2-135m",)
    """Models for the other methods; of each list the largest available model that fits is used."""
    every_model: bool = False
    """Run every model of the lists regardless of its memory, as the paper does."""
    budget_bytes: Count = 2_000_000_000
    """Memory of a training step in bytes, weights included; 0 for BP's measured peak. Unused with
    --every-model."""
    dtype: Dtype = "float32"
    """Number format of weights and activations for all methods but BP; adapters are float32."""
    bp_dtype: Dtype = "float32"
    """Number format of BP's weights and activations; in half precision SGD loses small updates."""
    context: int = 64
    """N, the longest prompt in tokens (the paper's 1024); longer prompts lose the start of the
    field that their task names in truncate."""
    batch: int = 8
    """B, prompts per step (the paper's 8)."""
    seconds: float = 30
    """Training time of each run whose steps are not given (the paper's figure shows 7200)."""
    bp_steps: Count = 0
    """Training steps of BP and of LoRA with Adam; 0: use --seconds."""
    zo_forwards: Annotated[tuple[Count, ...], ANY_NUMBER] = (0,)
    """Forward passes of a zeroth-order run, one number for all or for each of --mezo-models; 0: use
    --seconds."""
    evaluations: int = 4
    """Number of evaluations during a run, at equal intervals."""
    monitored_items: int = 64
    """Validation items of the evaluations during a run."""
    final_items: Count = 128
    """Validation items evaluated at the end, and zero-shot; 0 for all."""
    bp_lrs: tuple[float, ...] = (5e-2, 5e-3, 5e-4)
    """Learning rates tried for BP (the paper's: 5e-4, 5e-5, 5e-6)."""
    lora_lrs: tuple[float, ...] = (3e-3, 1e-3, 3e-4)
    """Learning rates tried for LoRA with Adam."""
    mezo_lrs: tuple[float, ...] = (5e-5, 5e-6, 5e-7)
    """Learning rates tried for MeZO (the paper's: 5e-7, 5e-8, 5e-9)."""
    mezo_lora_lrs: tuple[float, ...] = (1e-2, 1e-3, 1e-4)
    """Learning rates tried for MeZO on LoRA adapters."""
    elasticzo_lrs: tuple[float, ...] = (5e-4, 5e-5, 5e-6)
    """Learning rates tried for ElasticZO; both of its parts use the same rate."""
    grid_share: float = 0.25
    """Length of a run that tests a learning rate, as a share of a training run."""
    tuning_items: int = 64
    """Training items held out for choosing the learning rates and the biases of the calibrated
    zero-shot evaluation."""
    zero_shot: bool = True
    """Evaluate every model on every task before any training, plain and calibrated."""
    noise: NoiseName = "torch"
    """Perturbations of MeZO and ElasticZO: Gaussian, or random signs where the name says so. Those
    of the engine need the CPU, those of philox a GPU; both are several times as fast as torch."""
    eps: float = 1e-3
    """Scale of the perturbation (not in the paper; Malladi et al.: 1e-3)."""
    seeds: tuple[Seed, ...] = (0,)
    """Seeds of the order of items, of the perturbations and of the adapters; sst2-k16
    has one split for each of the seeds 0 to 4."""
    device: Device = "cpu"
    """Device of the runs."""
    threads: int = 2
    """Threads of each run; only one runs at a time, as their times are results."""

    def __post_init__(self) -> None:
        """Refuse settings that cannot be run, before anything runs."""
        super().__post_init__()
        # records and verdicts know a task by one name
        object.__setattr__(self, "datasets", tuple(map(task_name, self.datasets)))
        require_distinct("datasets", self.datasets)
        for name in self.datasets:
            for seed in self.seeds:
                task_of_seed(name, seed)  # refuses unknown tasks and seeds without a split
        needed = device_for(self.noise)
        if needed not in (None, self.device):
            raise UsageError(
                f"noise = {self.noise!r} with device = {self.device!r}: this noise is drawn on "
                f"{needed!r} only; use noise = 'torch', which is drawn on both"
            )
        if len(self.zo_forwards) not in (1, len(self.mezo_models)):
            raise UsageError(
                f"zo_forwards: {len(self.zo_forwards)} numbers for {len(self.mezo_models)} "
                "mezo_models; give one for each, or one for all"
            )
        for arm in self.arms:
            passes = SPECIFICATIONS[arm].passes if SPECIFICATIONS[arm].estimates else 0
            if few := [given for given in self.zo_forwards if 0 < given < passes]:
                raise UsageError(
                    f"zo_forwards = {few[0]}: a step of {arm} makes {passes} forward passes; give "
                    "at least that, or 0 for as many as fit in --seconds"
                )

    def models(self, arm: Arm) -> tuple[str, ...]:
        """Return the models that ``arm`` may train."""
        return self.bp_models if is_full_backpropagation(arm) else self.mezo_models

    def dtype_of(self, arm: Arm) -> Dtype:
        """Return the number format of the weights and activations of ``arm``."""
        return self.bp_dtype if is_full_backpropagation(arm) else self.dtype

    def lrs(self, arm: Arm) -> tuple[float, ...]:
        """Return the learning rates tried for ``arm``."""
        if is_full_backpropagation(arm):
            return self.bp_lrs
        by_arm = {
            "lora": self.lora_lrs,
            "mezo_lora": self.mezo_lora_lrs,
            "elasticzo": self.elasticzo_lrs,
        }
        return by_arm.get(arm, self.mezo_lrs)

    def steps(self, arm: Arm, model: str) -> int:
        """Return the training steps of ``arm`` on ``model``; 0 for as many as fit in the time."""
        if not SPECIFICATIONS[arm].estimates:
            return self.bp_steps
        place = self.mezo_models.index(model) if len(self.zo_forwards) > 1 else 0
        forwards = self.zo_forwards[place]
        return forwards // SPECIFICATIONS[arm].passes


QUICK = Config()
SMOKE = replace(
    QUICK,
    setting="smoke",
    datasets=("yesno-facts",),
    arms=("bp", "lora", "mezo_1", "elasticzo"),
    bp_models=("tiny-llama",),
    mezo_models=("tiny-llama",),
    budget_bytes=50_000_000,
    context=48,
    batch=4,
    bp_steps=20,
    zo_forwards=(60,),
    evaluations=2,
    monitored_items=32,
    final_items=64,
    bp_lrs=(0.1, 0.01),
    lora_lrs=(1e-2, 1e-3),
    mezo_lrs=(1e-2, 1e-3),
    mezo_lora_lrs=(1e-2, 1e-3),
    elasticzo_lrs=(1e-2, 1e-3),
    tuning_items=32,
    threads=1,
)
HOURS = replace(
    QUICK,
    setting="two cores, hours",
    datasets=("sst2", "boolq"),
    mezo_models=("qwen2.5-coder-1.5b", "smollm2-135m"),
    budget_bytes=0,
    dtype="bfloat16",
    context=1024,
    bp_steps=400,
    zo_forwards=(1600, 8000),
    bp_lrs=(5e-3, 5e-4, 5e-5),
    mezo_lrs=(5e-6, 1.5e-6, 5e-7),
    evaluations=8,
    monitored_items=256,
    final_items=0,
    grid_share=0.1,
    tuning_items=256,
    noise="engine",
    seeds=(0, 1, 2),
)
FEW_SHOT = replace(
    HOURS,
    setting="two cores, few-shot",
    datasets=("sst2-k16",),
    bp_steps=100,
    zo_forwards=(200, 2000),
    mezo_lrs=(1.5e-5, 5e-6, 1.5e-6),
    evaluations=4,
    grid_share=0.5,
    seeds=(0, 1, 2, 3, 4),
)
BOOLQ = replace(
    HOURS,
    setting="two cores, BoolQ",
    datasets=("boolq",),
    arms=("bp", "mezo_1"),
    zo_forwards=(400, 2000),
    evaluations=4,
    final_items=1024,
    grid_share=0.2,
)
DAY = replace(
    HOURS,
    setting="a workstation, a day",
    datasets=("sst2", "boolq", "rte"),
    bp_steps=2000,
    zo_forwards=(10_000, 40_000),
    evaluations=20,
    monitored_items=512,
    seeds=(0, 1, 2, 3, 4),
)
GPU = replace(
    HOURS,
    setting="one GPU",
    datasets=("boolq", "sst2", "rte"),
    seconds=30,
    grid_share=0.2,
    bp_steps=0,
    zo_forwards=(0,),
    noise="philox",
    device="cuda",
)
GPU_LONG = replace(
    GPU,
    setting="one GPU, long",
    datasets=("boolq",),
    arms=("bp", "mezo_1"),
    seconds=100,
    bp_lrs=(5e-5,),
    mezo_lrs=(5e-7,),
    seeds=(0,),
)
PAPER = replace(
    GPU,
    setting="the paper's",
    datasets=("boolq",),
    arms=("bp", "mezo_5"),
    bp_models=("openai-community/gpt2-medium",),
    mezo_models=("meta-llama/Llama-2-7b-hf", "meta-llama/Llama-2-13b-hf"),
    every_model=True,
    seconds=7200,
    evaluations=20,
    monitored_items=512,
    tuning_items=512,
    bp_lrs=(5e-4, 5e-5, 5e-6),
    mezo_lrs=(5e-7, 5e-8, 5e-9),
    grid_share=0.25,
)
ARTIFACT = Artifact(
    slug="mezo_fig4",
    paper="mezo",
    title="MeZO Fig. 4: accuracy of BP and MeZO over training time at equal memory",
    about=__doc__,
    profiles={
        "smoke": SMOKE,
        "quick": QUICK,
        "fewshot": FEW_SHOT,
        "hours": HOURS,
        "boolq": BOOLQ,
        "day": DAY,
        "gpu-long": GPU_LONG,
        "gpu": GPU,
        "paper": PAPER,
    },
    run=lazy("repro.artifacts.mezo_fig4.run:run"),
    findings=lazy("repro.artifacts.mezo_fig4.findings:findings"),
    captions={
        "fig4": (
            "Validation accuracy over training time and forward passes, and the measured memory of "
            "the methods of the first task; the published accuracies belong to far larger models"
        ),
    },
    selector_fields=("arms", "datasets", "seeds"),
    takes_recorded=True,
    saves_models=True,
    timed=True,
)
