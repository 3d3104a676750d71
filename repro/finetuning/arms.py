"""The arms of the comparison: how each trains a language model, its passes and its noise."""

from typing import Literal, NamedTuple, get_args

from repro.measurement.device import Device
from repro.memory.setting import TrainingMethod
from repro.planner.methods import TRAINING_METHODS

Arm = Literal["bp", "bp_checkpoint", "lora", "mezo_1", "mezo_5", "mezo_lora", "elasticzo"]
"""In order: SGD by backpropagation; SGD with every decoder block checkpointed; Adam on LoRA
adapters, checkpointed; MeZO with n = 1 and n = 5 estimates; MeZO on LoRA adapters; ElasticZO, which
trains the last block and the layers after it by backpropagation, but not an output layer that is
tied to the embedding."""

NoiseName = Literal["torch", "engine", "engine-signs", "philox", "philox-signs"]
"""Source of MeZO's perturbations: PyTorch's generator, the on-device engine (on the CPU), or the
fused kernels of ``repro.methods.philox`` (on a GPU)."""

ARMS: tuple[Arm, ...] = get_args(Arm)
PAPER_ARMS: tuple[Arm, ...] = ("bp", "bp_checkpoint", "mezo_1", "mezo_5")
"""The methods in the paper's statements; the others are baselines of this suite."""


class Specification(NamedTuple):
    """The training method of an arm, and its cost per step."""

    label: str
    method: TrainingMethod
    """The planner's method; the memory of MeZO does not depend on n."""
    passes: int
    """Forward passes of a step; checkpointing runs its forward pass twice."""
    estimates: int = 0
    """n, the projected gradients averaged in a step; 0 if no parameter is zeroth-order."""


SPECIFICATIONS: dict[Arm, Specification] = {
    "bp": Specification("BP", TRAINING_METHODS["bp-sgd"], 1),
    "bp_checkpoint": Specification("BP, checkpointed", TRAINING_METHODS["checkpoint-sgd"], 2),
    "lora": Specification("LoRA with Adam, checkpointed", TRAINING_METHODS["lora-checkpoint"], 2),
    "mezo_1": Specification("MeZO, n = 1", TRAINING_METHODS["mezo"], 2, 1),
    "mezo_5": Specification("MeZO, n = 5", TRAINING_METHODS["mezo"], 10, 5),
    "mezo_lora": Specification("MeZO on LoRA, n = 1", TRAINING_METHODS["mezo-lora"], 2, 1),
    "elasticzo": Specification("ElasticZO", TRAINING_METHODS["elasticzo"], 2, 1),
}
LABELS: dict[str, str] = {arm: of.label for arm, of in SPECIFICATIONS.items()}


def trains_adapters(arm: Arm) -> bool:
    """Return whether the arm trains LoRA adapters only and keeps the model's own weights fixed."""
    return SPECIFICATIONS[arm].method.trains == "adapters"


def is_full_backpropagation(arm: Arm) -> bool:
    """Return whether the arm trains every weight by backpropagation."""
    return tuned_as(arm) == "bp"


def tuned_as(arm: Arm) -> Arm:
    """Return the arm that tunes the learning rate of ``arm``: checkpointing changes no gradient."""
    return "bp" if arm == "bp_checkpoint" else arm


def uses_engine(noise: NoiseName) -> bool:
    """Return whether the on-device engine draws the noise."""
    return noise.startswith("engine")


def device_for(noise: NoiseName) -> Device | None:
    """Return the only device on which the noise can be drawn, or ``None`` if it is any."""
    if noise == "torch":
        return None
    return "cpu" if uses_engine(noise) else "cuda"
