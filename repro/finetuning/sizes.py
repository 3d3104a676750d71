"""The sizes of a model that exists, and what the MeZO paper's formulas say of training it.

The formulas' count of parameters, 12 L D^2 + 2 V D, is that of a decoder with as many key/value
heads as heads, a feed-forward network of 8 D^2 and an embedding of its own at either end. Small
models share heads and embeddings: SmolLM2-135M has 135 million parameters where the count is 176.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from repro.core.names import BYTES, Dtype
from repro.finetuning.arms import Arm, estimates
from repro.memory import analytic
from repro.memory.shape import DecoderShape

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

LIVE_LAYERS = 1
"""L' of the plans, as in the paper's Fig. 3."""


@dataclass(frozen=True)
class ModelSize:
    """A model in the notation of the formulas, and its real number of parameters."""

    shape: DecoderShape
    """With N and B of 1."""
    parameters: int

    def at(self, batch: int, context: int) -> DecoderShape:
        """Return the shape with a batch of ``batch`` prompts of ``context`` tokens."""
        return replace(self.shape, batch=batch, context=context)


@dataclass(frozen=True)
class Formulas:
    """Bytes of a training step by the paper's equations (2) and (3)."""

    published: float
    """With the formulas' own count of parameters."""
    planned: float
    """With the model's real number of parameters; the planner goes by this one."""


def size_of(config: "PreTrainedConfig") -> ModelSize:
    """Return the size of the model of ``config``, counted without allocating it."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from repro.finetuning.base_models import random_model

    with FakeTensorMode():
        parameters = sum(p.numel() for p in random_model(config, "float32").parameters())
    text = config.get_text_config()
    shape = DecoderShape(
        context=1,
        layers=text.num_hidden_layers,
        hidden=text.hidden_size,
        heads=text.num_attention_heads,
        vocabulary=text.vocab_size,
    )
    return ModelSize(shape, parameters)


def formulas(size: ModelSize, arm: Arm, dtype: Dtype, *, batch: int, context: int) -> Formulas:
    """Return what the formulas say of a step of ``arm``, with L' = 1 for MeZO."""
    s = analytic.sizes_of(size.at(batch, context), BYTES[dtype])
    if estimates(arm):
        published = float(analytic.mezo_bytes(s, live_layers=LIVE_LAYERS))
    else:
        checkpointing = arm == "bp_checkpoint"
        published = float(analytic.bp_bytes(s, checkpointing=checkpointing))
    copies = 1 if estimates(arm) else 2  # weights, and gradients of backpropagation
    excess = float(analytic.weight_bytes(s)) - BYTES[dtype] * size.parameters
    return Formulas(published, published - copies * excess)


def effective_layers(
    size: ModelSize, dtype: Dtype, *, batch: int, context: int, peak: float
) -> float:
    """Return the L' for which equation (3), with the real parameters, gives ``peak`` bytes."""
    s = analytic.sizes_of(size.at(batch, context), BYTES[dtype])
    return float(analytic.effective_layers(s, peak, BYTES[dtype] * size.parameters))
