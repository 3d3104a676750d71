"""One fine-tuning run, with everything that decides its outcome but for the machine's speed."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from repro.core.names import Dtype
from repro.finetuning.arms import LABELS, Arm
from repro.measurement.device import Device
from repro.measurement.environment import source_sha256
from repro.ondevice.build import module_path
from repro.training.run import FinalState, TrainingRun

if TYPE_CHECKING:
    from repro.training.loop import Training

NoiseName = Literal["torch", "engine"]
"""Where MeZO's perturbations come from: PyTorch's generator, or the on-device engine."""

_PACKAGES = ("finetuning", "memory", "ondevice", "planner")
"""The code that decides the outcome of a run, besides the code known to ``CheckpointStore``."""


@dataclass(frozen=True)
class LanguageModelRun(TrainingRun):
    """One arm on one model, trained for a number of steps or a time."""

    arm: Arm
    model: str
    dtype: Dtype
    dataset: str
    """Name of the task, as in ``sst2``, or the path of a ``.toml`` file that describes one."""
    context: int
    """N, the longest prompt in tokens."""
    batch: int
    """B, prompts of a step."""
    lr: float
    eps: float
    seed: int
    seconds: float
    """Time of all training steps together, where ``steps`` is 0; evaluation does not count."""
    evaluations: int
    """How often the validation subset is evaluated, after equal parts of training."""
    tuning_items: int
    """Training items held out to choose the learning rate on."""
    monitored_items: int
    """Validation items of the evaluations during training."""
    final_items: int
    """Validation items of the last evaluation: 0 for all."""
    device: Device
    threads: int
    noise: NoiseName = "torch"
    helped: bool = False
    """Whether the on-device engine makes the exact passes along PyTorch's noise: sooner, and to the
    same bits."""
    steps: int = 0
    """Training steps; 0 for as many as ``seconds`` hold. A run of steps is the same anywhere."""
    tuning: bool = False
    """Whether this is a run of the grid: evaluated once, at its end, on the tuning items."""

    sources: str = ""
    """Tells the base weights and the data from others under the same names, which a run must not
    resume with; no part of records."""
    is_timed: ClassVar[bool] = True

    def as_dict(self) -> dict[str, Any]:
        """Return the run as a record keeps it."""
        values = asdict(self)
        del values["sources"]
        return values

    def key(self) -> dict[str, Any]:
        """Return all that tells the run's state from others."""
        key = asdict(self) | {"code": source_sha256(*_PACKAGES)}
        if self.helped or self.noise == "engine":
            key["engine"] = module_path().parent.name
        return key

    def training(self, final_state: FinalState) -> "Training[Any]":  # noqa: ARG002 - it has none
        """Build the learner and its prompts; see ``repro.finetuning.fine_tune``."""
        from repro.finetuning.fine_tune import language_training

        return language_training(self)

    def label(self) -> str:
        """Return what tells the run from others, in a few words."""
        return f"{LABELS[self.arm]} on {self.model}, lr {self.lr:g}, seed {self.seed}"
