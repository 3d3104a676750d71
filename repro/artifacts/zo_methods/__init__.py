"""Which zeroth-order method should I use on my device? A benchmark of our own.

Every method trains the same networks on the same data: LeNet-5 on MNIST from random weights, and
SmolLM2-135M on SST-2 from its pretrained ones. Each gets the same search for its learning rate and
the same number of forward passes. Accuracy is recorded by forward passes and by time, and a step's
peak memory is measured.

This is no figure of a paper, so no published statement is answered. Deviations from the papers of
the methods:

1. LeNet-5 trains in float32 by PyTorch, since the on-device engine does not have all the methods.
2. The equal budget is counted in forward passes by FLOPs: a step of backpropagation counts as its
   FLOPs divided by those of a forward pass on the same batch, both counted by PyTorch's counter.
   Drawing directions takes time but no FLOPs that the counter sees.
3. Time is the CPU time of the training steps, summed over threads, so that other load on the
   machine hardly counts. Evaluation does not count. On a GPU (profile ``gpu``) several runs share
   the device, so no time is compared.
4. Learning rates are tuned for every method alike: a grid of equally many rates with a ratio of
   the square root of 10, in runs of one seed and of full length; the rate with the lowest loss on
   held-out training items is taken. If it is an end of its grid, a better one may lie beyond; the
   tables mark this. The middle of each grid was set from short runs. Six first grids of the profile
   ``hours`` on MNIST ended at their lowest rate; these and ElasticZO's were lowered before any of
   those methods was evaluated on test images. On SST-2, on a GPU, MeZO, random signs, BP and LoRA
   chose an end of their grids; those grids, and the similar ones, were shifted afterwards. With
   the new grids MeZO, one-sided MeZO, ZO-signSGD, MEAZO, LOZO, SubZero, Sparse MeZO, FZOO and LoRA
   have run, on a CPU. The rate is constant. Nothing else is tuned: eps, batch size, the N = 8
   directions of FZOO, the ranks of LOZO and SubZero, the decay rate of 0.99 of MEAZO and the
   sparsity of 0.75 of Sparse MeZO are set.
5. Projected gradients are not clipped, although the ElasticZO paper clips. One more method, MeZO
   with the clip of 0.025 that ``elasticzo_search`` found for it, shows what clipping does.
6. FZOO evaluates its directions one after another; its authors do so in one batch on a GPU. Our
   rule follows published descriptions of it (``repro.methods.rules``), as MEAZO's does
   (``repro.methods.meazo``).
7. ElasticZO backpropagates the last two layers of LeNet-5, and the last block of a language model
   with the layers after it. LoRA with Adam has rank 16 on every matrix of every block, and
   checkpoints the blocks.
8. Of LOZO the version without momentum is compared. SubZero and LOZO keep a subspace for 50 steps.
9. Language models train in float32. The loss compares the logits of the answers after the prompt.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from repro.artifacts.base import Artifact, lazy
from repro.artifacts.zo_methods.arms import ARMS, TaskKind
from repro.core.errors import UsageError
from repro.core.validation import Checked, Count, Seed, require_choice, require_distinct
from repro.data.text.tasks import task_name, task_of_seed
from repro.measurement.device import Device
from repro.training.task import VISION_TASKS


def kind_of(task: str) -> TaskKind:
    """Return whether ``task`` is one of images or of prompts."""
    return "images" if task in VISION_TASKS else "text"


@dataclass(frozen=True)
class Config(Checked):
    """The tasks and methods to compare, and the length of training."""

    tasks: tuple[str, ...] = ("mnist", "sst2")
    """Sets of images, mnist or fashion_mnist, for LeNet-5; and tasks with prompts, such as sst2 or
    yesno-facts (generated questions) or a .toml file of your own, for the language model."""
    arms: tuple[Annotated[str, partial(require_choice, allowed=ARMS)], ...] = tuple(ARMS)
    """Methods. LoRA is run on language models only, MeZO with a clip on images only."""
    seeds: tuple[Seed, ...] = (0, 1, 2, 3, 4)
    """Seeds of the initial weights, the order of the items and the perturbations."""
    model: str = "smollm2-135m"
    """Language model: a name of `repro data list` or of the hub, a directory or a GGUF file."""
    image_forwards: int = 40_000
    """Forward passes of a training run on images."""
    text_forwards: int = 1_000
    """Forward passes of a training run on prompts."""
    image_batch: int = 32
    """Images per step."""
    text_batch: int = 8
    """Prompts per step."""
    context: int = 64
    """N, the longest prompt in tokens."""
    image_eps: float = 1e-2
    """Scale of the perturbation of LeNet-5."""
    text_eps: float = 1e-3
    """Scale of the perturbation of the language model."""
    rates: int = 5
    """Learning rates tried for each method."""
    image_items: int | None = None
    """Number of training images; by default all."""
    tuning_items: int = 1000
    """Training items held out for choosing the learning rates, of prompts; of images a tenth is
    held out, and at most so many of them are evaluated."""
    evaluated_items: Count = 0
    """Test items of every evaluation; 0 for all."""
    evaluations: int = 10
    """Number of evaluations during a run, at equal intervals."""
    threads: int = 1
    """Threads of each run."""
    device: Device = "cpu"
    """Device of the language models. On a CPU the engine draws directions; on a GPU fused kernels
    draw Gaussian noise and signs."""
    workers: int = 1
    """Runs at a time; on a CPU only one, as their times are results."""

    def __post_init__(self) -> None:
        super().__post_init__()
        # records know a task by one name
        object.__setattr__(self, "tasks", tuple(map(self._task, self.tasks)))
        require_distinct("tasks", self.tasks)
        if self.device == "cpu" and self.workers > 1:
            raise UsageError(
                f"workers = {self.workers} with device = 'cpu': runs beside each other would "
                "distort their times, which are results; give 1"
            )
        if self.device != "cpu" and any(kind_of(task) == "images" for task in self.tasks):
            raise UsageError(
                f"device = {self.device!r} with tasks = {list(self.tasks)}: LeNet-5 is trained on "
                "the CPU, where its times are compared; give device = 'cpu', or language tasks only"
            )

    def _task(self, name: str) -> str:
        """Return the name of a task that some arm can train with every seed."""
        images = [task for task, of in VISION_TASKS.items() if not of.of_clouds]
        if name not in images:
            try:
                name = task_name(name)
                for seed in self.seeds:
                    task_of_seed(name, seed)  # refuses seeds without a split
            except UsageError as error:
                raise UsageError(f"{error}; sets of images: {', '.join(images)}") from error
        if not any(kind_of(name) in ARMS[arm].rates for arm in self.arms):
            msg = f"arms = {list(self.arms)}: none of them can train {name}; add another"
            raise UsageError(msg)
        return name

    def forwards(self, kind: TaskKind) -> int:
        """Return the forward passes of a training run."""
        return self.image_forwards if kind == "images" else self.text_forwards


HOURS = Config()
QUICK = replace(HOURS, tasks=("mnist",), seeds=(0,), image_forwards=3_000, evaluations=6)
SMOKE = Config(
    tasks=("mnist", "yesno-facts"),
    arms=("mezo", "fzoo", "elasticzo", "bp", "lora"),
    seeds=(0,),
    model="tiny-llama",
    image_forwards=60,
    text_forwards=40,
    text_batch=4,
    context=48,
    rates=1,
    image_items=512,
    tuning_items=32,
    evaluated_items=64,
    evaluations=2,
)
GPU = replace(HOURS, tasks=("sst2",), seeds=(0, 1, 2), evaluations=5, device="cuda", workers=15)
PAPER = replace(HOURS, image_forwards=375_000, text_forwards=20_000)
ARTIFACT = Artifact(
    slug="zo_methods",
    paper="mezo",
    title="Zeroth-order methods at equal forward passes: accuracy, time and memory",
    about=__doc__,
    profiles={"smoke": SMOKE, "quick": QUICK, "hours": HOURS, "gpu": GPU, "paper": PAPER},
    run=lazy("repro.artifacts.zo_methods.run:run"),
    captions={
        "zo_methods": (
            "Accuracy of each method over forward passes and over CPU time (loss over forward "
            "passes where runs shared a GPU), and the measured peak memory of its step"
        ),
    },
    selector_fields=("tasks", "arms", "seeds"),
    takes_recorded=True,
    timed=True,
)
