"""The methods that are planned, and where one of them makes no sense."""

from dataclasses import dataclass
from typing import Literal

from repro.planner.setting import Setting


@dataclass(frozen=True)
class Method:
    """A way to train."""

    slug: str
    label: str
    trains: Literal["all", "adapters", "tail"]
    """What backpropagation would train, or does: of ElasticZO, the tail."""
    estimator: Literal["backpropagation", "zeroth-order", "both"]
    checkpointed: bool = False
    """Whether every block is recomputed in the backward pass."""
    adam: bool = False
    """Whether two more copies of what is trained are kept; else plain SGD."""


METHODS: dict[str, Method] = {
    method.slug: method
    for method in (
        Method("bp-sgd", "BP, SGD", "all", "backpropagation"),
        Method("bp-adam", "BP, Adam", "all", "backpropagation", adam=True),
        Method(
            "checkpoint-sgd", "BP, checkpointed, SGD", "all", "backpropagation", checkpointed=True
        ),
        Method(
            "checkpoint-adam",
            "BP, checkpointed, Adam",
            "all",
            "backpropagation",
            checkpointed=True,
            adam=True,
        ),
        Method("lora", "LoRA, Adam", "adapters", "backpropagation", adam=True),
        Method(
            "lora-checkpoint",
            "LoRA, checkpointed, Adam",
            "adapters",
            "backpropagation",
            checkpointed=True,
            adam=True,
        ),
        Method("elasticzo", "ElasticZO", "tail", "both"),
        Method("mezo", "MeZO", "all", "zeroth-order"),
        Method("mezo-lora", "MeZO, LoRA", "adapters", "zeroth-order"),
    )
}

PAPER: dict[str, Method] = {
    "bp": METHODS["bp-sgd"],
    "bp_checkpoint": METHODS["checkpoint-sgd"],
    "mezo": METHODS["mezo"],
}
"""What the MeZO paper compares, by the names in its artifacts' records."""


def objection(method: Method, setting: Setting) -> str | None:
    """Return why ``method`` makes no sense with weights of ``setting.format``, or ``None``."""
    if not setting.quantised or method.trains == "adapters":
        return None
    stored = {"int8": "int8", "4bit": "4-bit"}[setting.format]
    if method.estimator == "backpropagation":
        return (
            f"{stored} weights hold no gradient step: an update is far below their spacing and "
            "rounds to nothing; train adapters (lora) instead"
        )
    if method.estimator == "both":
        return (
            f"neither the perturbation nor the tail's update fits the spacing of {stored} weights; "
            "ElasticZO-INT8 is defined for networks of integer layers only"
        )
    return (
        f"the perturbation eps z is below the spacing of {stored} weights and rounds away; perturb "
        "adapters (mezo-lora) instead"
    )


def caution(method: Method, setting: Setting) -> str | None:
    """Return what to know before using ``method`` with this format, or ``None``."""
    if method.adam and setting.format == "float16":
        return "Adam's eps = 1e-8 is 0 in float16: use bfloat16, or float32 copies (not counted)"
    return None
