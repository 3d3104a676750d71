"""Which language models can be obtained here, and their sizes; no weights are loaded."""

from pathlib import Path

from repro.core.errors import ReproError
from repro.models.pretrained import explained
from repro.planner.architecture import Architecture
from repro.planner.configurations import architecture
from repro.training.language.base_models import TINY, load_config, load_tokenizer, model_path

_WEIGHTS = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
"""One of these files holds a model's weights, or lists the files that do."""


def load_architecture(name: str) -> Architecture:
    """Return the sizes of the model ``name``, from its configuration.

    Raises:
        UsageError: the planner does not know this type of model.
        UsageError, ReproError: as ``load_pretrained``.
    """
    return architecture(load_config(name).to_dict())


def unobtainable(name: str) -> str:
    """Return why the model ``name`` cannot be had or planned for here, or an empty string.

    It asks for the configuration, the tokenizer and whether there are weights, and loads none.
    """
    try:
        load_architecture(name)
        load_tokenizer(name)
        if name != TINY:
            _require_weights(str(model_path(name)))
    except ReproError as error:
        return str(error)
    return ""


def _require_weights(place: str) -> None:
    """Raise ``ReproError`` if there are no weights: the hub is asked for what is not in its cache.

    transformers takes a hub that is not reached for one without the file.
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
