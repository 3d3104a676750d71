"""The training step whose memory is simulated or measured: one definition for both."""

import inspect
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Literal, get_args

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AutoModelForCausalLM, LlamaForCausalLM, PreTrainedModel

from repro.core.errors import UsageError
from repro.core.names import BYTES, Attention, Dtype
from repro.core.validation import Checked
from repro.memory.shape import DecoderShape
from repro.methods.backprop import Backprop
from repro.methods.mezo import MeZO
from repro.methods.torch_noise import TorchNoise
from repro.models.decoder import llama_config
from repro.models.training_mode import checkpoint_blocks

Method = Literal["forward", "bp", "bp_checkpoint", "mezo"]
"""Forward pass only; backpropagation; the same with every decoder block checkpointed; MeZO."""

STEP_METHODS: tuple[Method, ...] = get_args(Method)

LR, EPS = 1e-9, 1e-3  # memory does not depend on them; at a higher rate random weights diverge

_PARTS = {
    r"embed_tokens": "embedding",
    r"lm_head": "LM head",
    r"self_attn\.[qkvo]_proj": "attention projections",
    r"mlp\.(gate|up|down)_proj": "feed-forward projections",
    r"norm": "norms",
}
"""Pattern of the names of parameters -> their part of the decoder."""


@dataclass(frozen=True)
class StepSpec(Checked):
    """One training step of one model, a point of a memory figure."""

    shape: DecoderShape
    method: Method
    attention: Attention
    dtype: Dtype
    perturbations: int = 1
    """n of a MeZO step."""

    def __post_init__(self) -> None:
        """Refuse unknown names."""
        super().__post_init__()
        if self.method != "mezo" and self.perturbations != 1:
            msg = f"perturbations = {self.perturbations} of {self.method}: only mezo has several"
            raise UsageError(msg)

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype of weights and activations."""
        dtype: torch.dtype = getattr(torch, self.dtype)
        return dtype

    @property
    def bytes_per_parameter(self) -> int:
        """The formulas' b."""
        return BYTES[self.dtype]

    def as_dict(self) -> dict[str, Any]:
        """Return the specification as plain values, for records and cache keys.

        The number of perturbations is included only if it is not 1.
        """
        # so that records and cache keys from before that field stay the same
        hidden = ("shape", "perturbations") if self.perturbations == 1 else ("shape",)
        rest = {name: value for name, value in asdict(self).items() if name not in hidden}
        return {**asdict(self.shape), **rest}


def build_model(spec: StepSpec) -> LlamaForCausalLM:
    """Build the model of ``spec`` with random weights, in training mode."""
    shape = spec.shape
    config = llama_config(
        context=shape.context,
        layers=shape.layers,
        hidden=shape.hidden,
        heads=shape.heads,
        vocabulary=shape.vocabulary,
    )
    model: LlamaForCausalLM = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
        config, dtype=spec.torch_dtype, attn_implementation=spec.attention
    )
    if spec.method == "bp_checkpoint":
        checkpoint_blocks(model)
    model.train()
    return model


def parameter_table(shape: DecoderShape) -> dict[str, int]:
    """Return the parameters of each part of the Llama model of ``shape`` (MeZO paper, Fig. 2).

    The model is built with fake tensors, so even large sizes take no memory.
    """
    counts: Counter[str] = Counter()
    with FakeTensorMode(), torch.no_grad():
        model = build_model(StepSpec(shape, "forward", "eager", "float16"))
        for name, parameter in model.named_parameters():
            parts = [part for pattern, part in _PARTS.items() if re.search(pattern, name)]
            if not parts:
                raise ValueError(f"parameter {name!r} belongs to no known part of a Llama decoder")
            counts[parts[0]] += parameter.numel()
    return dict(counts)


def make_batch(spec: StepSpec, device: str = "cpu") -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokens [B, N] and the answer of each sequence [B]."""
    tokens = torch.zeros(spec.shape.batch, spec.shape.context, dtype=torch.long, device=device)
    return tokens, torch.zeros(spec.shape.batch, dtype=torch.long, device=device)


@cache  # since a timed or measured step asks in every forward pass
def _keeps_logits(kind: type[nn.Module]) -> bool:
    """Return whether models of a class can compute the logits of the last position only."""
    return "logits_to_keep" in inspect.signature(kind.forward).parameters


def last_position_loss(
    model: nn.Module, tokens: torch.Tensor, answers: torch.Tensor
) -> torch.Tensor:
    """Return the mean cross-entropy of the token after each sequence, in float32.

    Every method computes only the last position's logits, if the model's class can: a
    classification prompt needs no others, and N x V logits would hide the memory that the formulas
    describe.
    """
    keeps = _keeps_logits(type(model))  # type: ignore[arg-type] # mypy reads the __hash__ of models
    kept = {"logits_to_keep": 1} if keeps else {}
    logits = model(input_ids=tokens, **kept).logits[:, -1]  # [B, V]
    return torch.nn.functional.cross_entropy(logits.float(), answers)


def make_step(
    spec: StepSpec, model: PreTrainedModel, batch: tuple[torch.Tensor, torch.Tensor]
) -> Callable[[], object]:
    """Return a function for one step of ``spec.method`` on ``model``."""

    def loss() -> torch.Tensor:
        return last_position_loss(model, *batch)

    if spec.method == "forward":
        return torch.no_grad()(loss)
    if spec.method == "mezo":
        mezo = MeZO(
            model.parameters(),
            lr=LR,
            eps=EPS,
            perturbations=spec.perturbations,
            restore="rounded",
            noise=TorchNoise(),  # on a GPU as well, as the records were measured
        )
        return lambda: mezo.step(loss)
    backprop = Backprop(model.parameters(), lr=LR)
    return lambda: backprop.step(loss)
