"""Pretrained causal language models: by hub name, local directory, GGUF file or catalogue name.

GGUF weights are dequantised to dense float32 once, by transformers, and kept in the cache as
safetensors; the tensors of a quantised file are the nearest that dense training can start from.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from filelock import FileLock

from repro.core.errors import ReproError, UsageError
from repro.core.names import BYTES
from repro.core.paths import cache_dir, names_a_path
from repro.core.validation import require_choice
from repro.data import cache
from repro.data.language_models import DATA_SETS, KEY

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

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
    require_choice("dtype", dtype, BYTES)
    path = Path(name)
    if name in {dataset.name for dataset in DATA_SETS}:
        return _from_directory(str(of_catalogue(name)), dtype)
    if path.suffix == ".gguf":
        return _from_directory(str(converted(path)), dtype)
    return _from_directory(name, dtype)


def of_catalogue(name: str) -> Path:
    """Return the directory of the model ``name`` of the catalogue, fetching it if need be.

    Raises:
        UsageError: it has terms that were not accepted.
        ReproError: it cannot be fetched; the message says what is in the caches.
    """
    try:
        files = cache.load(name)
    except ReproError as error:
        msg = f"{error} ({_at_hand()})"
        raise type(error)(msg) from error
    return converted(files[KEY])


def converted(gguf: Path) -> Path:
    """Return the directory of the dense float32 model of ``gguf``, converting it if need be.

    Raises:
        UsageError: not one of ``FAMILIES``.
        ReproError: the file cannot be read, or there is no room for the result.
    """
    overrides = _configuration(gguf)
    with gguf.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    directory = cache_dir() / "models" / digest[:16]
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(directory.with_suffix(".lock")):
            if not directory.is_dir():
                _convert(gguf, directory, overrides)
    except OSError as error:
        msg = (
            f"cannot keep the converted {gguf.name} in {directory.parent}: {error}; set "
            "REPRO_CACHE_DIR to a directory with room that can be written"
        )
        raise ReproError(msg) from error
    return directory


def _configuration(gguf: Path) -> dict[str, int]:
    """Check the architecture; return what transformers does not take from the file by itself."""
    from gguf import GGUFReader

    try:
        fields = GGUFReader(gguf).fields
        architecture: str = fields["general.architecture"].contents()
        context: int = fields[f"{architecture}.context_length"].contents()
    except (OSError, ValueError, KeyError, IndexError) as error:
        msg = f"{gguf}: not a GGUF file that can be read ({error})"
        raise ReproError(msg) from error
    if architecture not in FAMILIES:
        msg = f"{gguf}: architecture {architecture!r}: must be one of {', '.join(FAMILIES)}"
        raise UsageError(msg)
    return {"n_positions": context} if architecture == "gpt2" else {}


def _convert(gguf: Path, directory: Path, overrides: Mapping[str, Any]) -> None:
    from safetensors import SafetensorError
    from transformers import AutoTokenizer, GgufConfig

    staging = Path(tempfile.mkdtemp(dir=directory.parent))
    try:
        model = _complete_model(
            gguf.parent,
            gguf_file=gguf.name,
            quantization_config=GgufConfig(gguf_file=gguf.name, dequantize=True),
            dtype="float32",
            **overrides,
        )
        model.save_pretrained(staging)
        AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(staging)
        staging.replace(directory)
    except (RuntimeError, ValueError, SafetensorError) as error:
        msg = f"{gguf}: transformers cannot convert it ({error})"
        raise ReproError(msg) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def cached() -> list[str]:
    """Return the models of the catalogue that are in the cache."""
    return [dataset.name for dataset in DATA_SETS if cache.is_cached(dataset)]


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn what transformers raises in the block into an error that says how to get ``name``.

    Raises:
        UsageError: ``name`` is a path, and nothing is there.
        ReproError: the block failed: the model is gated, absent, or cannot be read.
    """
    from huggingface_hub.errors import GatedRepoError
    from huggingface_hub.utils import httpx  # type: ignore[attr-defined] # exported by name

    if names_a_path(name) and not Path(name).exists():
        msg = f"model {name}: there is no such file or directory"
        raise UsageError(msg)
    try:
        yield
    except (OSError, ValueError, httpx.TransportError) as error:
        if isinstance(error.__cause__, GatedRepoError):
            msg = (
                f"{name} is gated: accept its terms at https://huggingface.co/{name} and give a "
                "token of that account, by `hf auth login` or in HF_TOKEN"
            )
            raise ReproError(msg) from error
        reason = " ".join(str(error).split())
        msg = (
            f"no causal language model {name!r}: {reason}; give a directory, a .gguf file, a name "
            f"on the hub, or one of {', '.join(dataset.name for dataset in DATA_SETS)} "
            f"({_at_hand()})"
        )
        raise ReproError(msg) from error


def _at_hand() -> str:
    """Say which models are here already, and how to get others."""
    return (
        f"in the cache: {', '.join(cached()) or 'none'}; repro data fetch NAME gets one; in the "
        f"hub's cache: {', '.join(_cached_of_hub()) or 'none'}; hf download NAME gets one"
    )


def _cached_of_hub() -> list[str]:
    from huggingface_hub import constants, scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        found = scan_cache_dir(constants.HF_HUB_CACHE).repos
    except CacheNotFound:
        return []
    return sorted(repo.repo_id for repo in found if repo.repo_type == "model")


def _from_directory(name: str, dtype: str) -> Pretrained:
    from transformers import AutoTokenizer

    with explained(name):
        model = _complete_model(name, dtype=dtype)
        tokenizer = AutoTokenizer.from_pretrained(name)
    return Pretrained(model.eval(), tokenizer)


def _complete_model(name: str | Path, **options: Any) -> Any:  # noqa: ANN401 - its options, untyped
    """Load a model, refusing what transformers would fill up with random weights."""
    from transformers import AutoModelForCausalLM

    loaded: Any = AutoModelForCausalLM.from_pretrained(name, output_loading_info=True, **options)
    model, loading = loaded
    if loading["missing_keys"]:
        missing = sorted(loading["missing_keys"])
        msg = f"{len(missing)} weights are missing, the first is {missing[0]}"
        raise ValueError(msg)
    return model
