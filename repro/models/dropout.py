"""Training mode without dropout, for any causal language model of transformers."""

from torch import nn


def without_dropout(model: nn.Module) -> None:
    """Switch off all dropout and put the model in training mode, equally for all methods.

    Different dropout masks would change the losses by more than a perturbation, and transformers
    checkpoints blocks in training mode only. Many blocks call dropout as a function. Its
    probability is then an attribute of the block (OPT, Llama), or is read at each call from the
    configuration (Falcon, Persimmon), which is changed, too. Leaving out whole layers at random
    (``layerdrop``) counts as dropout.
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
