"""Count the parameters of the real decoder by part (MeZO paper, Fig. 2)."""

import re
from collections import Counter

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from repro.memory.shape import DecoderShape
from repro.memory.step import StepSpec, build_model

_PARTS = {
    r"embed_tokens": "embedding",
    r"lm_head": "LM head",
    r"self_attn\.[qkvo]_proj": "attention projections",
    r"mlp\.(gate|up|down)_proj": "feed-forward projections",
    r"norm": "norms",
}


def parameter_table(shape: DecoderShape) -> dict[str, int]:
    """Return the parameters of each part of the Llama model of ``shape``, over all layers.

    The model is transformers' own, built with fake tensors, so even large sizes take no memory.
    """
    with FakeTensorMode(), torch.no_grad():
        model = build_model(StepSpec(shape, "forward", "eager", "float16"))
        counts: Counter[str] = Counter()
        for name, parameter in model.named_parameters():
            counts[_part(name)] += parameter.numel()
    return dict(counts)


def _part(name: str) -> str:
    for pattern, part in _PARTS.items():
        if re.search(pattern, name):
            return part
    msg = f"parameter {name!r} belongs to no known part of a Llama decoder"
    raise ValueError(msg)
