"""Load pretrained causal language models by hub name, directory, GGUF file or catalogue name.

GGUF weights are dequantised once, by transformers, and kept in the cache as safetensors. From a
quantised file, dense training can start from nothing closer to the original weights.
"""

import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from filelock import FileLock

from repro.core.errors import ReproError, UsageError, is_out_of_memory
from repro.core.leftovers import new_directory
from repro.core.names import BYTES, Dtype
from repro.core.paths import cache_dir, names_a_path, sha256_of
from repro.core.validation import require_choice
from repro.data import cache
from repro.data.language_models import DATA_SETS, KEY
from repro.models.gguf_header import Header, read_header

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

ARCHITECTURES = (
    "llama",
    "gpt2",
    "gemma2",
    "gemma3",
    "qwen2",
    "qwen2moe",
    "qwen3",
    "qwen3moe",
    "bloom",
    "falcon",
    "mamba",
    "nemotron",
    "phi3",
    "stablelm",
    "starcoder2",
)
"""GGUF architectures, under the names in the files, with a tested conversion: the logits of a model
do not change when it is written to a file and read again."""
UNTESTED_ARCHITECTURES = ("deci", "gemma4", "gpt-oss", "lfm2", "minimax-m2", "qwen35", "qwen35moe")
"""Architectures that transformers reads, but whose conversion is not tested here."""
PRE_TOKENIZERS = (
    "dbrx", "deepseek-r1-qwen", "f2llmv2", "falcon3", "falcon-h1", "gpt-4o", "jina-v5-nano",
    "kanana2", "kormo", "lfm2", "llama3", "llama4", "llama-bpe", "llama-v3", "megrez", "midm-2.0",
    "minimax-m2", "pixtral", "qwen2", "qwen35", "smaug-bpe", "talkie", "tekken",
    "default", "gpt-2", "smollm", None,
)  # fmt: skip
"""Rules by which transformers splits texts as a file of the tokenizer type ``gpt2`` asks for: those
that it lists (``GGUF_PRE_TOKENIZER_SPLITS``), and those for which its default serves."""
_RULES = 1
"""Version of the conversion of GGUF files; with another one a file is converted again."""
LARGE = 1_000_000_000
"""Number of weights from which a GGUF file's dense form is kept in bfloat16.

float32 needs twice the disk space and twice the memory for conversion, without a gain in accuracy:
bfloat16 rounds by 0.2 %, a 4-bit file by 7 %, and most large models are released in bfloat16.
Smaller models stay in float32, since committed results depend on their exact bits. The rule depends
only on the file, so a file gives the same weights for any type loaded.
"""
_CHUNK = 4096
"""Rows of an output layer compared at a time."""


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

    The dense form of a GGUF file of ``LARGE`` weights or more is kept in bfloat16. Loaded as
    float32, its weights have bfloat16's values.

    Raises:
        UsageError: the dtype is unknown, or the GGUF architecture has no conversion.
        ReproError: the model cannot be fetched or read; the message lists the attempts.
    """
    require_choice("dtype", dtype, BYTES)
    name = transformers_name(name)
    from transformers import AutoTokenizer

    with explained(name):
        model = _complete_model(name, dtype=dtype)
        tokenizer = AutoTokenizer.from_pretrained(name)
    return Pretrained(model.eval(), tokenizer)


def transformers_name(name: str) -> str:
    """Return the directory or hub name for transformers, after converting a GGUF file if needed.

    Raises:
        UsageError: the model's terms were not accepted, or its GGUF file has no conversion.
        ReproError: the model cannot be fetched or read.
    """
    if name in {dataset.name for dataset in DATA_SETS}:
        return str(of_catalogue(name))
    if not name.lower().endswith(".gguf"):
        return name
    if not Path(name).exists():
        raise UsageError(f"model {name}: there is no such file")
    return str(converted(Path(name)))


def of_catalogue(name: str) -> Path:
    """Return the directory of the catalogue's model ``name``, fetching it if needed.

    Raises:
        UsageError: its terms were not accepted.
        ReproError: the model cannot be fetched; the message lists the models in the caches.
    """
    try:
        files = cache.load(name)
    except ReproError as error:
        raise type(error)(f"{error} ({_at_hand()})") from error
    (sha256,) = (dataset.content[KEY].sha256 for dataset in DATA_SETS if dataset.name == name)
    return converted(files[KEY], sha256)


def converted(gguf: Path, sha256: str | None = None) -> Path:
    """Return the directory of the dense model of ``gguf``, converting it if needed.

    The weights are stored in float32, or in bfloat16 if there are ``LARGE`` or more.

    Args:
        gguf: the file.
        sha256: its hash, if known; the file must have it before it is converted.

    Raises:
        UsageError: the architecture or the tokenizer has no conversion, or the rotary positions are
            scaled.
        ReproError: the file cannot be read or has another hash, or the result cannot be stored.
    """
    header = read_header(gguf)
    _require_convertible(gguf, header)
    dtype: Dtype = "bfloat16" if header.elements >= LARGE else "float32"
    named = sha256 or sha256_of(gguf)
    # no suffix for float32, so that models converted before there was bfloat16 are found
    suffix = "" if dtype == "float32" else f"-{dtype}"
    if sha256 is None:  # the catalogue's models were compared with an independent reader
        suffix += f"-{_RULES}-transformers-{version('transformers')}"
    directory = _converted() / f"{named[:16]}{suffix}"
    if directory.is_dir():  # without a lock, so that a cache may be read-only
        return directory
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(directory.with_name(f"{directory.name}.lock")):
            if not directory.is_dir():
                if sha256 is not None and sha256_of(gguf) != sha256:
                    raise ReproError(
                        f"{gguf} is damaged: its SHA-256 is not {sha256}; repro data verify finds "
                        "the set, and repro data fetch NAME replaces it"
                    )
                _convert(gguf, directory, header, dtype)
    except OSError as error:
        raise ReproError(
            f"cannot store the converted {gguf.name} in {directory.parent}: {error}; set "
            "REPRO_CACHE_DIR to a writable directory with free space"
        ) from error
    return directory


def _converted() -> Path:
    """Return the directory of all converted models."""
    return cache_dir() / "models"


def _require_convertible(gguf: Path, header: Header) -> None:
    """Check that transformers computes the same outputs as the file's model.

    Raises:
        UsageError: transformers does not read the architecture, the kind of positions or the
            splitting of texts.
    """
    known = (*ARCHITECTURES, *UNTESTED_ARCHITECTURES)
    way_out = "give the model as a directory of transformers (config.json and safetensors) instead"
    if header.architecture not in known:
        raise UsageError(
            f"{gguf}: architecture {header.architecture!r}: must be one of {', '.join(known)}; "
            f"{way_out}"
        )
    scaling = header.of_architecture("rope.scaling.type")
    for name in ("rope.scaling.factor", "rope.scale_linear"):
        factor = header.of_architecture(name)
        if scaling is None and factor not in {None, 0, 1}:
            scaling = f"{name} = {factor}"  # llama.cpp takes a factor without a type as linear
    factors = sorted(name for name in header.tensors if name.startswith("rope_"))
    if scaling not in {None, "none"} or factors:
        raise UsageError(
            f"{gguf}: its rotary positions are scaled ({factors[0] if factors else scaling}), and "
            "transformers leaves the scaling out when it reads GGUF, so that every result would "
            f"differ; {way_out}"
        )
    split = header.metadata.get("tokenizer.ggml.pre")
    if header.metadata.get("tokenizer.ggml.model") == "gpt2" and split not in PRE_TOKENIZERS:
        raise UsageError(
            f"{gguf}: its tokenizer splits texts by the rule {split!r}, and transformers would "
            f"split them as GPT-2 does, into other tokens; {way_out}"
        )


def _overrides(header: Header) -> dict[str, Any]:
    """Return the settings that transformers fails to read from the file."""
    read = header.of_architecture
    settings: dict[str, Any] = {}
    match header.architecture:
        case "gpt2":
            settings["n_positions"] = read("context_length")
        case "qwen3":
            settings["head_dim"] = read("attention.key_length")
        case "qwen2moe" | "qwen3moe":
            settings["moe_intermediate_size"] = read("expert_feed_forward_length")
            settings["shared_expert_intermediate_size"] = read("expert_shared_feed_forward_length")
        case "nemotron" | "phi3" | "stablelm" | "starcoder2":
            settings["rope_parameters"] = _rotary(header)
    return {name: value for name, value in settings.items() if value is not None}


def _rotary(header: Header) -> dict[str, Any] | None:
    """Return the settings of rotary positions: their base, and the rotated part of a head."""
    base, rotated, width, heads = (
        header.of_architecture(name)
        for name in (
            "rope.freq_base",
            "rope.dimension_count",
            "embedding_length",
            "attention.head_count",
        )
    )
    if base is None:
        return None
    rotary: dict[str, Any] = {"rope_type": "default", "rope_theta": base}
    if isinstance(rotated, int) and isinstance(width, int) and isinstance(heads, int) and heads > 0:
        head = header.of_architecture("attention.key_length") or width // heads
        rotary["partial_rotary_factor"] = rotated / head if isinstance(head, int) else 1.0
    return rotary


def gguf_config(gguf: Path) -> dict[str, Any]:
    """Return the configuration that transformers reads from a GGUF file, as in ``config.json``.

    Raises:
        ReproError: the file is damaged, or of an architecture that is not converted.
    """
    header = read_header(gguf)
    _require_convertible(gguf, header)
    with _alone(gguf) as place:
        found: dict[str, Any] = _config(place, header).to_dict()
    return found


@contextmanager
def _alone(gguf: Path) -> Iterator[Path]:
    """Yield a link to the file in a directory of its own, to be converted by transformers.

    transformers takes a tokenizer, or adapters, from the files beside a GGUF file.

    Raises:
        ReproError: transformers cannot convert it.
    """
    with tempfile.TemporaryDirectory(prefix="repro-gguf-") as directory:
        link = Path(directory) / "model.gguf"
        link.symlink_to(gguf.absolute())
        try:
            yield link
        except (ReproError, OSError, MemoryError):  # say what it is, or are no fault of the file
            raise
        except Exception as error:  # with wrong metadata, transformers and gguf fail in many ways
            reason = " ".join(f"{error}".split()) or type(error).__name__
            raise ReproError(f"{gguf}: transformers cannot convert it ({reason})") from error


def _config(gguf: Path, header: Header) -> "PreTrainedConfig":
    """Return the configuration of the model with exactly the weights of the file."""
    from transformers import AutoConfig

    config: PreTrainedConfig = AutoConfig.from_pretrained(
        gguf.parent, gguf_file=gguf.name, **_overrides(header)
    )
    _require_same_weights(config, header)
    return config


def _convert(gguf: Path, directory: Path, header: Header, dtype: Dtype) -> None:
    from transformers import AutoTokenizer, GgufConfig

    with _alone(gguf) as link:
        source: dict[str, Any] = {"gguf_file": link.name}
        model = _complete_model(
            link.parent,
            config=_config(link, header),
            # else transformers may keep the quantised blocks, which cannot be trained
            quantization_config=GgufConfig(gguf_file=link.name, dequantize=True),
            dtype=dtype,
            **source,
        )
        _tie_output_layer(model, header)
        with new_directory(directory) as whole:
            model.save_pretrained(whole)
            del model  # the tokenizer needs memory, too
            AutoTokenizer.from_pretrained(link.parent, **source).save_pretrained(whole)


def _require_same_weights(config: "PreTrainedConfig", header: Header) -> None:
    """Check that the model described by the metadata has as many weights as the file.

    transformers skips tensors with unknown names, and replaces missing metadata by defaults, which
    may describe a model of many gigabytes. Nothing is allocated here.

    Raises:
        ValueError: the model has more or fewer weights than the file.
    """
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        untyped: Any = AutoModelForCausalLM
        model = untyped.from_config(config)
    parameters = dict(model.named_parameters(remove_duplicate=False))
    buffers = [tensor for name, tensor in model.state_dict().items() if name not in parameters]
    described = sum(tensor.numel() for tensor in [*model.parameters(), *buffers])
    stored = header.elements
    if config.tie_word_embeddings and "output.weight" in header.tensors:
        stored -= header.tensors["output.weight"].elements
    if described != stored:
        raise ValueError(
            f"its tensors have {stored:,} weights, and the model that its metadata describe has "
            f"{described:,}"
        )


def _tie_output_layer(model: "PreTrainedModel", header: Header) -> None:
    """Tie the output layer to the embedding again if the file stores one matrix twice.

    Some files store a tied matrix separately for each of its two uses, quantised in two ways. The
    copies then differ only by quantisation, and the more precise one is kept for both uses. A
    matrix quantised to b bits is off by about 2^(1 - b) of its norm (measured: 0.075 at 4.5 bits).
    The limit is twice this, and at most a quarter. Independently trained matrices differ by 1 or
    more.
    """
    output = header.tensors.get("output.weight")
    embedding = header.tensors.get("token_embd.weight")
    if output is None or embedding is None or model.config.tie_word_embeddings:
        return
    untyped: Any = model  # these methods have no annotations
    layers = untyped.get_output_embeddings(), untyped.get_input_embeddings()
    bits = min(output.bits, embedding.bits)
    if output.shape != embedding.shape or _distance(*layers) > min(2 ** (2 - bits), 0.25):
        return
    kept = layers[0 if output.bits >= embedding.bits else 1].weight
    for layer in layers:
        layer.weight = kept
    model.config.tie_word_embeddings = True


def _distance(one: Any, other: Any) -> float:  # noqa: ANN401 - layers, untyped in transformers
    """Return the norm of the difference of two layers' weights, divided by the norm of ``one``."""
    pairs = zip(one.weight.detach().split(_CHUNK), other.weight.detach().split(_CHUNK), strict=True)
    difference = size = 0.0
    for rows, others in pairs:
        difference += float((rows.double() - others.double()).square().sum())
        size += float(rows.double().square().sum())
    return math.sqrt(difference / size) if size else math.inf


@contextmanager
def explained(name: str) -> Iterator[None]:
    """Turn errors of transformers in the block into an error that says how to get ``name``.

    Raises:
        UsageError: ``name`` is a path, and it does not exist.
        ReproError: the block failed, since the model is gated, absent or cannot be read.
    """
    from huggingface_hub.errors import GatedRepoError

    if names_a_path(name) and not Path(name).exists():
        raise UsageError(f"model {name}: there is no such file or directory")
    try:
        yield
    except (ReproError, MemoryError):
        raise  # the files are in order
    except Exception as error:  # with damaged files, transformers fails in many ways
        if is_out_of_memory(error):
            raise
        if isinstance(error.__cause__, GatedRepoError):
            raise ReproError(
                f"{name} is gated: accept its terms at https://huggingface.co/{name} and give a "
                "token of that account, by `hf auth login` or in HF_TOKEN"
            ) from error
        reason = " ".join(str(error).split())
        if Path(name).parent == _converted():
            msg = f"the converted model {name} is damaged ({reason}); remove the directory"
            raise ReproError(msg) from error
        raise ReproError(
            f"no causal language model {name!r}: {reason}; give a directory, a .gguf file, a name "
            f"on the hub, or one of {', '.join(dataset.name for dataset in DATA_SETS)} "
            f"({_at_hand()})"
        ) from error


def _at_hand() -> str:
    """Return a sentence on the models in the caches and on how to get others."""
    from huggingface_hub import constants, scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        found = scan_cache_dir(constants.HF_HUB_CACHE).repos
    except CacheNotFound:
        found = frozenset()
    fetched = [dataset.name for dataset in DATA_SETS if cache.is_cached(dataset)]
    of_hub = sorted(repo.repo_id for repo in found if repo.repo_type == "model")
    return (
        f"in the cache: {', '.join(fetched) or 'none'}; repro data fetch NAME gets one; in the "
        f"hub's cache: {', '.join(of_hub) or 'none'}; hf download NAME gets one"
    )


def _complete_model(name: str | Path, **options: Any) -> Any:  # noqa: ANN401 - its options, untyped
    """Load a model, refusing files from which transformers would leave weights random."""
    from transformers import AutoModelForCausalLM

    loaded: Any = AutoModelForCausalLM.from_pretrained(name, output_loading_info=True, **options)
    model, loading = loaded
    if loading["missing_keys"]:
        missing = sorted(loading["missing_keys"])
        raise ValueError(f"{len(missing)} weights are missing, the first is {missing[0]}")
    return model
