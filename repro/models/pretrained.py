"""Pretrained causal language models: by hub name, local directory, GGUF file or catalogue name.

GGUF weights are dequantised to dense float32 once, by transformers, and kept in the cache as
safetensors; the tensors of a quantised file are the nearest that dense training can start from.
"""

import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from filelock import FileLock

from repro.core.errors import ReproError, UsageError
from repro.core.paths import cache_dir
from repro.core.validation import require_choice
from repro.data import cache
from repro.data.language_models import DATA_SETS, KEY

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

DTYPES = ("float32", "float16", "bfloat16")
FAMILIES = ("llama", "gpt2", "gemma2", "gemma3")
"""Architectures of GGUF files that are converted, as the files name them."""


class Pretrained(NamedTuple):
    """A model in evaluation mode and the tokenizer it was trained with."""

    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"


def load_pretrained(name: str, dtype: str = "float32") -> Pretrained:
    """Return the causal language model called ``name``, with dense weights on the CPU.

    Args:
        name: a model of the catalogue (``smollm2-135m``), a directory in the format of
            transformers, a GGUF file, or a name on the Hugging Face hub.
        dtype: type of the weights: ``float32``, ``float16`` or ``bfloat16``.

    Raises:
        UsageError: another dtype, or an architecture of GGUF file that is not converted.
        ReproError: it cannot be fetched or read; the message says what was tried.
    """
    require_choice("dtype", dtype, DTYPES)
    path = Path(name)
    if name in {dataset.name for dataset in DATA_SETS}:
        return _from_directory(str(converted(cache.load(name)[KEY])), dtype)
    if path.suffix == ".gguf":
        return _from_directory(str(converted(path)), dtype)
    return _from_directory(name, dtype)


def converted(gguf: Path) -> Path:
    """Return the directory of the dense float32 model of ``gguf``, converting it if need be.

    Raises:
        UsageError: not one of ``FAMILIES``.
        ReproError: the file cannot be read, or there is no room for the result.
    """
    architecture = _architecture(gguf)
    if architecture not in FAMILIES:
        msg = f"{gguf}: architecture {architecture!r}: must be one of {', '.join(FAMILIES)}"
        raise UsageError(msg)
    with gguf.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    directory = cache_dir() / "models" / digest[:16]
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(directory.with_suffix(".lock")):
            if not directory.is_dir():
                _convert(gguf, directory)
    except OSError as error:
        msg = f"cannot keep the converted {gguf.name} in {directory.parent}: {error}"
        raise ReproError(msg) from error
    return directory


def _convert(gguf: Path, directory: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    staging = Path(tempfile.mkdtemp(dir=directory.parent))
    try:
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent,
            gguf_file=gguf.name,
            quantization_config=GgufConfig(gguf_file=gguf.name, dequantize=True),
            dtype="float32",
        )
        model.save_pretrained(staging)
        AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(staging)
        staging.replace(directory)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _architecture(gguf: Path) -> str:
    from gguf import GGUFReader

    try:
        architecture: str = GGUFReader(gguf).fields["general.architecture"].contents()
    except (OSError, ValueError, KeyError, IndexError) as error:
        msg = f"{gguf}: not a GGUF file that can be read ({error})"
        raise ReproError(msg) from error
    return architecture


def _from_directory(name: str, dtype: str) -> Pretrained:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        model: Any = AutoModelForCausalLM.from_pretrained(name, dtype=dtype)
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        msg = (
            f"no causal language model {name!r}: {reason}; give a directory, a .gguf file, a name "
            f"on the hub, or one of {', '.join(dataset.name for dataset in DATA_SETS)}"
        )
        raise ReproError(msg) from error
    return Pretrained(model.eval(), tokenizer)
