"""Build any causal language model under FakeTensorMode, prepared for a training method."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from repro.core.errors import ReproError
from repro.memory.setting import BLOCK_4BIT, Setting, TrainingMethod
from repro.models.adapters import AdaptedMatrix, MatrixReplacement, replace_matrices
from repro.models.training_mode import checkpoint_blocks, without_dropout


def build(config: Mapping[str, Any], method: TrainingMethod, setting: Setting) -> nn.Module:
    """Build the model of ``config`` in training mode, without dropout; call it under fake tensors.

    Raises:
        ReproError: transformers has no such causal language model, or cannot build it this way.
    """
    from transformers import AutoModelForCausalLM

    dtype = getattr(torch, "bfloat16" if setting.quantised else setting.format)
    try:
        checked = text_config(config)
        checked.use_cache = False
        model: PreTrainedModel = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
            checked, dtype=dtype, attn_implementation=setting.attention
        )
    except Exception as error:  # a model's own code may raise anything
        other = "; try --attention eager" if "scaled_dot_product" in str(error) else ""
        raise ReproError(
            f"transformers cannot build this configuration with {setting.attention}: "
            f"{reason_of(error)}{other}"
        ) from error
    model.loss_type = "ForCausalLM"  # else some classes warn and use it
    without_dropout(model)
    if method.trains == "adapters":
        model.requires_grad_(False)  # noqa: FBT003 - torch's own signature

    def replacement(child: nn.Module, inputs: int, outputs: int) -> nn.Module:
        weight: Any = child.weight
        new = child
        if setting.quantised:
            bits = 8 if setting.format == "int8" else 4
            new = QuantisedMatrix(weight, child.bias, outputs, bits)  # type: ignore[arg-type]
        if method.trains == "adapters":
            kind = torch.float32 if setting.adapters == "float32" else weight.dtype
            new = AdaptedMatrix(new, inputs, outputs, setting.rank, kind)
        return new

    if setting.quantised or method.trains == "adapters":
        replace_matrices(model, replacement)
    if method.checkpointed:
        checkpoint_blocks(model, adapters=method.trains == "adapters")
    return model


def text_config(config: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of the model's own class
    """Return transformers' configuration of the text model of ``config``."""
    from transformers import AutoConfig

    values = {key: value for key, value in config.items() if key != "model_type"}
    return AutoConfig.for_model(config.get("model_type", ""), **values).get_text_config()


def reason_of(error: Exception) -> str:
    """Return the first sentence of an error from transformers or PyTorch."""
    return " ".join(str(error).split()).partition(". ")[0] or type(error).__name__


def partition_before(model: nn.Module, blocks: int) -> str | int:
    """Return the partition point at which the last ``blocks`` blocks of ``model`` begin.

    The layers after the blocks belong to the last part; with ``blocks`` 0 they are the whole of it.
    A tied output layer is the embedding, which comes first.
    """
    lists = [(name, m) for name, m in model.named_modules() if isinstance(m, nn.ModuleList)]
    if not lists:
        msg = f"{type(model).__name__} has no list of blocks: ElasticZO cannot be partitioned"
        raise ReproError(msg)
    # the decoder blocks are the list with the most parameters
    name, stack = max(lists, key=lambda named: sum(p.numel() for p in named[1].parameters()))
    if blocks:
        return f"{name}.{len(stack) - blocks}"
    layers = [parameter.rpartition(".")[0] for parameter, _ in model.named_parameters()]
    last = max(n for n, layer in enumerate(layers) if layer.startswith(f"{name}."))
    return layers[last + 1] if last + 1 < len(layers) else len(list(model.children()))


class QuantisedMatrix(MatrixReplacement):
    """A frozen matrix of integers with float32 scales, dequantised for each product."""

    def __init__(self, weight: Tensor, bias: Tensor | None, outputs: int, bits: int) -> None:
        super().__init__()
        elements = weight.numel()
        scales = outputs if bits == 8 else -(-elements // BLOCK_4BIT)
        self.register_buffer("packed", torch.empty(-(-elements * bits // 8), dtype=torch.uint8))
        self.register_buffer("scales", torch.empty(scales))
        self.bias = bias
        self.shape = (outputs, elements // outputs)
        self.dtype = weight.dtype

    def forward(self, x: Tensor) -> Tensor:
        """Return x W^T + bias for x [..., inputs]."""
        product: Tensor = _Dequantised.apply(x, self)
        return product if self.bias is None else product + self.bias

    def dequantised(self) -> Tensor:
        """Return a tensor of the matrix's shape; fake tensors have no values to compute."""
        return torch.empty(self.shape, dtype=self.dtype)


# A function of its own, since autograd would keep the dequantised matrix for the backward pass.
class _Dequantised(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: QuantisedMatrix) -> Tensor:  # noqa: ANN401
        ctx.matrix = matrix
        return nn.functional.linear(x, matrix.dequantised())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401
        return gradient @ ctx.matrix.dequantised(), None
