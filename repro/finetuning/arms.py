"""The arms of the comparison: what trains the model, and what a step of it costs in passes."""

from typing import Literal, get_args

from repro.memory.training_method import TrainingMethod
from repro.planner.methods import PAPER

Arm = Literal["bp", "bp_checkpoint", "mezo_1", "mezo_5"]
"""SGD by backpropagation, the same with every decoder block checkpointed, MeZO with n estimates."""

ARMS: tuple[Arm, ...] = get_args(Arm)
LABELS: dict[str, str] = {
    "bp": "BP",
    "bp_checkpoint": "BP, checkpointed",
    "mezo_1": "MeZO, n = 1",
    "mezo_5": "MeZO, n = 5",
}
_PERTURBATIONS = {"mezo_1": 1, "mezo_5": 5}


def estimates(arm: Arm) -> int:
    """Return n, the perturbations of a step (the paper's is 5); 0 for backpropagation."""
    return _PERTURBATIONS.get(arm, 0)


def forward_passes(arm: Arm) -> int:
    """Return the forward passes of a step; checkpointing makes its own a second time."""
    return 2 * estimates(arm) or (2 if arm == "bp_checkpoint" else 1)


def planned_as(arm: Arm) -> TrainingMethod:
    """Return the arm as the planner knows it; its memory does not depend on n."""
    return PAPER["mezo" if estimates(arm) else arm]


def tuned_as(arm: Arm) -> Arm:
    """Return the arm whose learning rate ``arm`` takes: checkpointing changes no gradient."""
    return "bp" if arm == "bp_checkpoint" else arm
