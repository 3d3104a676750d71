"""Find the user's model: a shape in the table, a ``config.json``, a name on the hub, or a size.

A size alone gives Llama 2's own proportions: D = 128 L with heads of 128 (4096 = 128 x 32 for 7B,
5120 = 128 x 40 for 13B), a gated feed-forward network of 8 D / 3 rounded as Llama 2 rounds it, as
many key/value heads as heads, an untied vocabulary of 32000, and 4096 positions.
"""

import difflib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repro.core.errors import ReproError, UsageError
from repro.core.paths import names_a_path
from repro.core.units import parse_count
from repro.data.base import SourceUnavailableError
from repro.data.sources.hub import repository_file
from repro.models.decoder import llama_intermediate_size
from repro.planner import families
from repro.planner.configurations import architecture

_DEEPEST = 500
"""Upper limit of blocks in the search for a size: 25 T parameters."""


@dataclass(frozen=True)
class Model:
    """A model to plan for."""

    name: str
    origin: str
    """Source of its sizes."""
    config: Mapping[str, Any]
    """The content of ``config.json``."""


def named(name: str) -> Model:
    """Return the model called ``name``.

    Args:
        name: a model of the table (``smollm2-135m``) or its name on the hub, a ``config.json`` or
            a GGUF file or the directory of one, or any other name on the hub, whose configuration
            is read from the hub's local cache or fetched.

    Raises:
        UsageError: the name is empty, or the file holds no configuration.
        ReproError: nothing has that name, or the hub does not answer; the message says what to do.
    """
    if not name:
        msg = "model = '': must be a name; give a config.json, a name on the hub or a known model"
        raise UsageError(msg)
    path = Path(name)
    if os.path.exists(name):  # noqa: PTH110 - pathlib raises for a name that is too long
        return Model(name, str(path), _of_path(path))
    if names_a_path(name):
        raise ReproError(f"no such file: {name}; give a config.json, or a directory with one")
    member = families.find(name)
    if member is not None:
        return Model(member.name, f"shape of {member.repository}", member.config)
    if name.count("/") != 1 or name.endswith(".json"):
        known = [m.name for m in families.members()]
        near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5) or known
        raise ReproError(
            f"no model {name!r}: give a directory with a config.json, such a file, a name on the "
            f"hub (owner/name), --params, or a known model ({', '.join(near)})"
        )
    try:
        found = repository_file(name, "config.json")
    except SourceUnavailableError as error:
        raise ReproError(
            f"the configuration of {name!r} is not in the local cache of the hub and cannot be "
            f"downloaded ({error}); give a local config.json, or --params with a size"
        ) from error
    return Model(name, f"config.json of {name}", _read(found))


def of_size(parameters: str) -> Model:
    """Return the Llama whose size is nearest to a count such as ``7B`` or ``350M``.

    Raises:
        UsageError: ``parameters`` is not a count, is below half that of a single block, or above
            25 T.
    """
    wanted = parse_count("params", parameters)
    least = architecture(_llama(1)).parameters
    if wanted < least / 2:
        raise UsageError(
            f"params = {parameters!r}: a Llama of one block has {least:,} parameters; give more, "
            "or --model with a config.json"
        )
    most = architecture(_llama(_DEEPEST)).parameters
    if wanted > most:
        raise UsageError(
            f"params = {parameters!r}: must be at most {most:,}; give less, or --model with a "
            "config.json"
        )
    config = min(
        (_llama(layers) for layers in range(1, _DEEPEST + 1)),
        key=lambda config: abs(architecture(config).parameters - wanted),
    )
    return Model(f"a model of {parameters}", "Llama 2's proportions, D = 128 L", config)


def _llama(layers: int) -> dict[str, Any]:
    hidden = 128 * layers
    return {
        "model_type": "llama",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": layers,
        "num_key_value_heads": layers,
        "intermediate_size": llama_intermediate_size(hidden),
        "vocab_size": 32000,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
    }


def _of_path(path: Path) -> Mapping[str, Any]:
    """Return the configuration in a file or a directory.

    Raises:
        UsageError: the file holds no configuration.
        ReproError: there is none, or transformers, which reads GGUF files, is not installed.
    """
    if path.is_dir() and not (path / "config.json").exists():
        path = next(iter(sorted(path.glob("*.gguf"))), path)
    if path.suffix != ".gguf":
        return _read(path / "config.json" if path.is_dir() else path)
    try:
        from repro.models.pretrained import gguf_config

        return gguf_config(path)
    except ImportError as error:  # transformers raises a plain one if gguf is missing
        raise ReproError(
            f"{path}: a package that reads GGUF files is not installed ({error}); run "
            "pip install 'zo-repro[suite]', or give a config.json"
        ) from error


def _read(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        config = json.loads(text, parse_constant=_finite, parse_float=_finite)
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}; give a config.json of transformers"
        raise ReproError(msg) from error
    except (ValueError, RecursionError) as error:
        msg = f"{path}: not JSON ({error}); give a config.json of transformers"
        raise UsageError(msg) from error
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        msg = f"{path}: no model_type in it; give the config.json of a model of transformers"
        raise UsageError(msg)
    return config


def _finite(text: str) -> float:
    """Return ``text`` as a number; refuse NaN and infinity, which Python reads but JSON lacks."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value
