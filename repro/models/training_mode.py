"""Changes to transformers' language models that make their training steps comparable."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from transformers import PreTrainedModel, masking_utils


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
        config = getattr(module, "config", None)
        for attributes in (vars(module), getattr(config, "__dict__", {})):
            for name, value in attributes.items():
                if "drop" in name and isinstance(value, float):
                    attributes[name] = 0.0


def checkpoint_blocks(model: PreTrainedModel, *, adapters: bool = False) -> None:
    """Recompute every block in the backward pass; ``adapters`` if only those are trained."""
    model.activation_checkpointing_enable({"use_reentrant": False})
    if adapters:  # else a block's input needs no gradient, and none is computed
        model.enable_input_require_grads()  # type: ignore[no-untyped-call]


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put every module in evaluation mode inside the block, and in its own mode after it."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def unpacked() -> Iterator[None]:
    """Make transformers treat every row as one sequence inside the block.

    In every forward pass transformers reads the positions to see whether a row packs several
    sequences. On a GPU this waits for the device. Fake positions cannot be read, so it builds a
    mask [N, N] as a precaution, which a real step with SDPA does not have.
    """
    original = masking_utils.find_packed_sequence_indices
    masking_utils.find_packed_sequence_indices = lambda position_ids: None  # noqa: ARG005
    try:
        yield
    finally:
        masking_utils.find_packed_sequence_indices = original
