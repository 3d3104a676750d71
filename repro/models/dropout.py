"""Training mode without dropout, for any causal language model of transformers."""

from torch import nn


def without_dropout(model: nn.Module) -> None:
    """Switch every dropout off and the rest to training mode, alike for all methods.

    Two passes with different dropout would differ by more than a perturbation, and transformers
    checkpoints blocks in training mode only. Many blocks call dropout as a function: its
    probability is an attribute of the block (OPT, Llama), or is read from the configuration at
    each call (Falcon, Persimmon), which is changed, too. Whole layers left out at random
    (``layerdrop``) are dropout as well.
    """
    model.train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        _zero_probabilities(vars(module))
        _zero_probabilities(getattr(getattr(module, "config", None), "__dict__", {}))


def _zero_probabilities(attributes: dict[str, object]) -> None:
    for name, value in attributes.items():
        if "drop" in name and isinstance(value, float):
            attributes[name] = 0.0
