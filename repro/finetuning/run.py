"""One fine-tuning run, with everything that decides its outcome but for the machine's speed."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from repro.core.names import Dtype
from repro.finetuning.arms import LABELS, Arm
from repro.measurement.device import Device

NoiseName = Literal["torch", "engine"]
"""Where MeZO's perturbations come from: PyTorch's generator, or the on-device engine."""


@dataclass(frozen=True)
class Run:
    """One arm on one model, for a number of steps or a time; picklable."""

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

    def as_dict(self) -> dict[str, Any]:
        """Return the run as plain values, for records and cache keys."""
        return asdict(self)

    def progress(self, steps: int, seconds: float) -> float:
        """Return the fraction of the run that so many steps, in so many seconds, are."""
        return steps / self.steps if self.steps else seconds / self.seconds

    def label(self) -> str:
        """Say which run this is, for progress."""
        return f"{LABELS[self.arm]} on {self.model}, lr {self.lr:g}, seed {self.seed}"
