"""One fine-tuning run, with everything that decides its outcome except the machine's speed."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from repro.core.names import Dtype
from repro.finetuning.arms import LABELS, Arm, NoiseName, uses_engine
from repro.measurement.device import Device
from repro.measurement.environment import source_sha256
from repro.ondevice.build import module_path
from repro.training.run import FinalState, TrainingRun

if TYPE_CHECKING:
    from repro.training.loop import Training

_PACKAGES = ("finetuning", "memory", "ondevice", "planner")
"""Subpackages that decide the outcome of a run, besides those that ``CheckpointStore`` hashes."""


class PromptRun(TrainingRun):
    """A run on prompts; these settings decide its minibatches."""

    batch: int
    """B, prompts of a step."""
    context: int
    """N, the longest prompt in tokens."""
    seed: int
    tuning: bool
    """Whether the held-out training items are evaluated, instead of the validation items."""
    sources: str
    """Identifies the base weights and the prompts (``repro.finetuning.sources``)."""


@dataclass(frozen=True)
class LanguageModelRun(PromptRun):
    """One arm on one model, trained for a given number of steps or time."""

    arm: Arm
    model: str
    dtype: Dtype
    dataset: str
    """Name of the task, as in ``sst2``, or the path of a ``.toml`` file that describes one; a
    few-shot task has one split for each seed."""
    context: int
    """N, the longest prompt in tokens."""
    batch: int
    """B, prompts of a step."""
    lr: float
    eps: float
    seed: int
    seconds: float
    """Total time of the training steps if ``steps`` is 0; evaluation does not count."""
    evaluations: int
    """Number of evaluations of the validation subset, after equal parts of training."""
    tuning_items: int
    """Number of training items held out for choosing the learning rate."""
    monitored_items: int
    """Number of validation items evaluated during training."""
    final_items: int
    """Number of validation items in the last evaluation; 0 for all."""
    device: Device
    threads: int
    noise: NoiseName = "torch"
    native_passes: bool = False
    """Whether the on-device engine runs the exact passes with PyTorch's noise: faster, with the
    same bits."""
    steps: int = 0
    """Training steps; 0 to train for ``seconds``. With a fixed number of steps the result does not
    depend on the machine's speed."""
    tuning: bool = False
    """Whether this is a run of the grid search: evaluated once, at its end, on the tuning items."""

    sources: str = ""
    """Identifies the base weights and the data, so that a run does not resume with others of the
    same names; not recorded."""
    is_timed: ClassVar[bool] = True

    def as_dict(self) -> dict[str, Any]:
        """Return the run as a record keeps it."""
        values = asdict(self)
        del values["sources"]
        return values

    def key(self) -> dict[str, Any]:
        """Return everything that identifies the run's state."""
        key = asdict(self) | {"code": source_sha256(*_PACKAGES)}
        if self.native_passes or uses_engine(self.noise):
            key["engine"] = module_path().parent.name  # a hash of its sources
        return key

    def training(self, final_state: FinalState) -> "Training[Any]":  # noqa: ARG002 - it has none
        """Build the learner and its prompts; see ``repro.finetuning.fine_tune``."""
        from repro.finetuning.fine_tune import language_training

        return language_training(self)

    def label(self) -> str:
        """Return a short label that identifies the run."""
        return f"{LABELS[self.arm]} on {self.model}, lr {self.lr:g}, seed {self.seed}"
