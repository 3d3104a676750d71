"""Load the models that fine-tuning starts from, with weights or as a configuration only."""

from pathlib import Path
from typing import TYPE_CHECKING

from repro.core.errors import ReproError, UsageError
from repro.core.names import Dtype
from repro.measurement.device import Device
from repro.models.pretrained import (
    Pretrained,
    explained,
    load_pretrained,
    transformers_name,
)
from repro.planner.architecture import Architecture
from repro.planner.configurations import architecture

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

TINY = "tiny-llama"
"""Name of the model of ``repro.models.tiny``."""
_WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
"""One of these files holds a model's weights, or lists the files that do."""


def load_base(name: str, dtype: Dtype) -> Pretrained:
    """Return the model ``name`` and its tokenizer.

    Args:
        name: ``tiny-llama``, or a name that ``load_pretrained`` accepts.
        dtype: number format of the weights.

    Raises:
        UsageError, ReproError: as ``load_pretrained``.
    """
    if name == TINY:
        from repro.models.tiny import tiny_llama

        return tiny_llama(dtype)
    return load_pretrained(name, dtype)


def load_config(name: str) -> "PreTrainedConfig":
    """Return the configuration of the model ``name``, without loading its weights.

    A model of the catalogue and a GGUF file are converted first, if they have not been.

    Raises:
        UsageError: the model has a part for images or sound.
        UsageError, ReproError: as ``load_pretrained``.
    """
    from transformers import AutoConfig

    if name == TINY:
        from repro.models.tiny import tiny_config

        return tiny_config()
    place = transformers_name(name)
    with explained(place):
        config: PreTrainedConfig = AutoConfig.from_pretrained(place)
    if config.get_text_config() is not config:
        raise UsageError(
            f"model {name}: {config.model_type} has more than a text part, and all of it would be "
            "trained; give a model of text alone"
        )
    return config


def load_architecture(name: str) -> Architecture:
    """Return the sizes of the model ``name``, from its configuration.

    Raises:
        UsageError: the planner does not know this type of model.
        UsageError, ReproError: as ``load_pretrained``.
    """
    return architecture(load_config(name).to_dict())


def load_tokenizer(name: str) -> "PreTrainedTokenizerBase":
    """Return the tokenizer of the model ``name``, without loading its weights.

    A model of the catalogue and a GGUF file are converted first, if they have not been.

    Raises:
        UsageError, ReproError: as ``load_pretrained``.
    """
    from transformers import AutoTokenizer

    if name == TINY:
        from repro.models.tiny import tiny_tokenizer

        return tiny_tokenizer()
    place = transformers_name(name)
    with explained(place):
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(place)
    return tokenizer


def random_model(config: "PreTrainedConfig", dtype: Dtype) -> "PreTrainedModel":
    """Build a causal model with random weights; fake tensors under FakeTensorMode."""
    import torch
    from transformers import AutoModelForCausalLM

    model: PreTrainedModel = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
        config, dtype=getattr(torch, dtype)
    )
    return model


def placed(model: "PreTrainedModel", device: Device) -> "PreTrainedModel":
    """Move ``model`` to ``device`` and return it."""
    module: nn.Module = model  # the method is typed for modules only
    module.to(device)
    return model


def unobtainable(name: str) -> str:
    """Return why the model ``name`` cannot be obtained or planned for here, or an empty string.

    The configuration and the tokenizer are loaded; for the weights only their existence is checked.
    """
    try:
        load_architecture(name)
        load_tokenizer(name)
        if name != TINY:
            _require_weights(transformers_name(name))
    except ReproError as error:
        return str(error)
    return ""


def _require_weights(place: str) -> None:
    """Raise ``ReproError`` if there are no weights in the directory, the hub's cache or on the hub.

    transformers reports a hub that it cannot reach as a hub without the file.
    """
    from huggingface_hub import try_to_load_from_cache
    from transformers.utils.hub import has_file

    is_directory = Path(place).is_dir()
    with explained(place):
        for name in _WEIGHTS:
            cached = None if is_directory else try_to_load_from_cache(place, name)
            if isinstance(cached, str) or has_file(place, name):
                return
        where = "" if is_directory else ", in the hub's cache or on the hub, if that was reached"
        msg = f"there is a configuration, but no weights ({' or '.join(_WEIGHTS)}){where}"
        raise FileNotFoundError(msg)
