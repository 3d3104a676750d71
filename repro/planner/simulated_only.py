"""Facts from transformers about a model outside the formula, before a step is simulated."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from repro.core.errors import ReproError
from repro.core.names import Attention
from repro.core.units import format_bytes
from repro.memory.fake_models import reason_of, text_config
from repro.memory.setting import Setting
from repro.memory.training_method import TrainingMethod

NOTABLE = 0.01
"""Fraction of the parameters above which matrices outside linear layers get a warning."""


@dataclass(frozen=True)
class SimulatedOnlyModel:
    """A causal language model, as built by its class in transformers."""

    parameters: int
    fused: int
    """Elements of matrices outside linear layers, such as experts in a tensor of three axes."""
    positions: int | None
    """The longest context in the configuration; ``None`` if it has none."""
    layers: int | None
    attention: Attention
    """SDPA if the model's code supports it, else eager."""
    recurrent: bool
    """Whether its blocks keep a recurrent state, which is simulated token by token."""


def inspected(config: Mapping[str, Any]) -> SimulatedOnlyModel:
    """Build the model of ``config`` without allocating memory, and inspect it.

    Raises:
        ReproError: transformers has no such causal language model, or cannot build it.
    """
    from transformers import AutoModelForCausalLM

    try:
        checked = text_config(config)
        with torch.device("meta"):
            model: Any = AutoModelForCausalLM.from_config(checked)  # type: ignore[no-untyped-call]
    except Exception as error:  # a model's own code may raise anything
        msg = f"transformers cannot build this configuration: {reason_of(error)}"
        raise ReproError(msg) from error
    return SimulatedOnlyModel(
        parameters=sum(p.numel() for p in model.parameters()),
        fused=_fused(model),
        positions=_whole(checked, "max_position_embeddings"),
        layers=_whole(checked, "num_hidden_layers"),
        attention="sdpa" if model._supports_sdpa else "eager",
        recurrent=bool(model._is_stateful),
    )


def fused_warning(
    model: SimulatedOnlyModel, method: TrainingMethod, setting: Setting
) -> str | None:
    """Return a warning on the parts without adapters and quantisation, or ``None``."""
    if method.trains != "adapters" or model.fused < NOTABLE * model.parameters:
        return None
    left = format_bytes(setting.width * model.fused)
    if setting.quantised:
        return (
            f"{left} of weights stay in bfloat16: they are in no linear layer (fused experts), and "
            "bitsandbytes quantises linear layers alone; they get no adapters either"
        )
    return f"{left} of weights are in no linear layer (fused experts) and have no adapters here"


def _fused(model: nn.Module) -> int:
    from transformers.pytorch_utils import Conv1D

    known = (nn.Linear, Conv1D, nn.Embedding, nn.Conv1d)
    return sum(
        p.numel()
        for module in model.modules()
        if not isinstance(module, known)
        for p in module.parameters(recurse=False)
        if p.ndim > 1
    )


def _whole(config: object, name: str) -> int | None:
    value = getattr(config, name, None)
    return value if isinstance(value, int) and value > 0 else None
