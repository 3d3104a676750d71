"""The planner's methods, and the settings in which a method makes no sense."""

from repro.memory.setting import Setting, TrainingMethod

TRAINING_METHODS: dict[str, TrainingMethod] = {
    method.slug: method
    for method in (
        TrainingMethod("bp-sgd", "BP, SGD", "all", "backpropagation"),
        TrainingMethod("bp-adam", "BP, Adam", "all", "backpropagation", adam=True),
        TrainingMethod(
            "checkpoint-sgd", "BP, checkpointed, SGD", "all", "backpropagation", checkpointed=True
        ),
        TrainingMethod(
            "checkpoint-adam",
            "BP, checkpointed, Adam",
            "all",
            "backpropagation",
            checkpointed=True,
            adam=True,
        ),
        TrainingMethod("lora", "LoRA, Adam", "adapters", "backpropagation", adam=True),
        TrainingMethod(
            "lora-checkpoint",
            "LoRA, checkpointed, Adam",
            "adapters",
            "backpropagation",
            checkpointed=True,
            adam=True,
        ),
        TrainingMethod("elasticzo", "ElasticZO", "tail", "both"),
        TrainingMethod("mezo", "MeZO", "all", "zeroth-order"),
        TrainingMethod("mezo-lora", "MeZO, LoRA", "adapters", "zeroth-order"),
    )
}

PAPER: dict[str, TrainingMethod] = {
    "bp": TRAINING_METHODS["bp-sgd"],
    "bp_checkpoint": TRAINING_METHODS["checkpoint-sgd"],
    "mezo": TRAINING_METHODS["mezo"],
}
"""Methods compared in the MeZO paper, by the names in its artifacts' records."""


def unsupported_reason(method: TrainingMethod, setting: Setting) -> str | None:
    """Return why ``method`` makes no sense with weights of ``setting.format``, or ``None``."""
    if not setting.quantised or method.trains == "adapters":
        return None
    stored = {"int8": "int8", "4bit": "4-bit"}[setting.format]
    if method.estimator == "backpropagation":
        return (
            f"{stored} weights cannot hold a gradient step, which is far smaller than their "
            "spacing and rounds to zero; train adapters (lora) instead"
        )
    if method.estimator == "both":
        return (
            f"perturbation and update are far smaller than the spacing of {stored} weights; "
            "ElasticZO-INT8 is defined for networks of integer layers only"
        )
    return (
        f"the perturbation eps z is smaller than the spacing of {stored} weights and rounds to "
        "zero; perturb adapters (mezo-lora) instead"
    )


def warning(method: TrainingMethod, setting: Setting) -> str | None:
    """Return a warning about ``method`` with this format, or ``None``."""
    width = setting.adapter_width if method.trains == "adapters" else setting.width
    if method.adam and setting.format == "float16" and width < 4:
        return "Adam's eps = 1e-8 is 0 in float16: use bfloat16, or float32 copies (not counted)"
    return None
