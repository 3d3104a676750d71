"""Mutate small files and read them: whatever is in a file, a reader returns or says what is wrong.

Seeds are made here, so that none is a binary file in the repository; ``corpus`` holds inputs that
once got past a reader, each read again by a test.
"""

import contextlib
import gzip
import io
import json
import random
import struct
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch

from repro.core.errors import ReproError
from repro.data.base import ArraySpec
from repro.data.images.idx import read_idx
from repro.data.points.modelnet40 import CLASSES
from repro.data.points.modelnet40_points import read_file as read_points
from repro.data.sources.archives import copy_member
from repro.data.text.rows import encode_rows, read_rows
from repro.data.text.tasks import get_task
from repro.measurement.records import read_run
from repro.measurement.result_cache import ResultCache
from repro.memory.setting import Setting
from repro.methods.log import StepLog
from repro.methods.step_info import GradientEstimate
from repro.models.gguf_header import read_header
from repro.planner.methods import TRAINING_METHODS
from repro.planner.models import named
from repro.planner.plan import plan_model
from repro.training.store import Checkpoint

SLOW_S = 10
"""Reading a file of a few kilobytes takes milliseconds; under load a hundred times that."""
_RESULTS = Path(__file__).parents[2] / "results"


@dataclass(frozen=True)
class Reader:
    """What is fuzzed."""

    seeds: Callable[[], list[bytes]]
    read: Callable[[Path], object]
    """Of a file; raises ``ReproError`` for what it refuses."""
    suffix: str = ""


@dataclass
class Found:
    """What became of the inputs."""

    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    unhandled: int = 0
    slow: int = 0
    crashes: list[str] = field(default_factory=list)


def fuzz(reader: Reader, inputs: int, seed: int) -> Found:
    """Read so many mutated files."""
    draw, found, seeds = random.Random(seed), Found(), reader.seeds()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / f"input{reader.suffix}"
        for _ in range(inputs):
            content = mutated(draw.choice(seeds), draw)
            try_input(reader, content, path, found)
    return found


def try_input(reader: Reader, content: bytes, path: Path, found: Found) -> None:
    """Read one file and add what happened to ``found``."""
    path.write_bytes(content)
    begin = time.monotonic()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("error")
            reader.read(path)
    except ReproError:
        found.refused += 1
    except Exception as error:  # noqa: BLE001 - whatever gets past a reader is what is looked for
        found.unhandled += 1
        found.crashes.append(f"{type(error).__name__}: {error} of {content[:2000]!r}")
    else:
        found.accepted += 1
    found.inputs += 1
    found.slow += time.monotonic() - begin > SLOW_S


NUMBERS = [0, 1, 0x7F, 0x80, 0xFF, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]
WORDS = [
    b"NaN", b"-Infinity", b"1e999", b"-1", b"0", b"99999999999999999999", b"\\ud800", b"null", b"{",
    b"[" * 2000, b"true", b'"', b"\x00", b"\xff\xfe", b"\n", b"3.5", b"L", b"(", b"|O", b"<c16",
]  # fmt: skip


def mutated(content: bytes, draw: random.Random) -> bytes:
    """Return ``content`` with one to four changes."""
    data = bytearray(content)
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        at = draw.randrange(len(data) + 1)
        change = draw.randrange(7)
        if change == 0 and data:
            data[at % len(data)] ^= 1 << draw.randrange(8)
        elif change == 1:
            number, size = draw.choice(NUMBERS), draw.choice([1, 2, 4, 8])
            order = draw.choice(["little", "big"])
            data[at : at + size] = (number % (1 << 8 * size)).to_bytes(size, order)  # type: ignore[arg-type]
        elif change == 2:
            data[at : at + draw.randrange(4)] = draw.choice(WORDS)
        elif change == 3:
            del data[at : at + draw.choice([1, 4, 32, len(data)])]
        elif change == 4:
            data[at:at] = data[draw.randrange(len(data) + 1) :][: draw.choice([1, 8, 64])]
        elif change == 5:
            data[at : at + 4] = draw.randbytes(4)
        else:
            digits = [i for i, byte in enumerate(data) if 48 <= byte <= 57]
            if digits:
                data[draw.choice(digits)] = draw.choice(b"0123456789-.e")
    return bytes(data)


def _npy(array: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _zips(**members: bytes) -> list[bytes]:
    """Return archives of the same members, unpacked and packed."""
    found = []
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", method) as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        found.append(buffer.getvalue())
    return found


def _written(write: Callable[[Path], object], suffix: str = "") -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / f"seed{suffix}"
        write(path)
        return path.read_bytes()


def _log() -> StepLog:
    log = StepLog(eps=1e-3, perturbations=2, chunk=64)
    for step in range(4):
        log.append(
            [GradientEstimate(step, 1.0, 0.5, 0.25), GradientEstimate(9, 1.0, 0.5, 0.25)], 1e-4
        )
    return log


def _gguf() -> list[bytes]:
    def write(path: Path) -> None:
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_uint32("llama.embedding_length", 8)
        writer.add_array("tokenizer.ggml.tokens", ["a", "b", "c"])
        writer.add_array("tokenizer.ggml.scores", [0.5, 1.5, 2.5])
        writer.add_tensor("token_embd.weight", np.zeros((32, 8), np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()

    return [_written(write, ".gguf")]


def _examples() -> list[bytes]:
    lines = [b'{"question": "is it", "passage": "A b.", "answer": true, "title": "x"}\n'] * 3
    return [b"".join(lines)]


def _read_text(path: Path) -> None:
    rows = read_rows(path.read_bytes(), path.name, ("question", "passage"), "answer")
    encode_rows({**row.values, "answer": row.label} for row in rows)


def _config() -> list[bytes]:
    llama = {
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100,
        "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128,
        "max_position_embeddings": 64, "rope_theta": 10000.0, "attention_bias": False,
    }  # fmt: skip
    return [
        json.dumps({**llama, "model_type": kind, "sliding_window": 32, "head_dim": 16}).encode()
        for kind in ("llama", "mistral", "qwen2", "gemma3_text", "phi3")
    ]


def _plan(path: Path) -> None:
    plan = plan_model(
        named(str(path)), list(TRAINING_METHODS.values()), Setting(), 1e9, shorten=True
    )
    json.dumps(plan.as_dict(), allow_nan=False)


def _state() -> list[bytes]:
    state = {"learner": {"weights": torch.arange(9.0)}, "curves": {"seconds": [1.0]}}
    sound = _written(lambda path: Checkpoint(path).save(state))
    return [sound, _written(partial(torch.save, state))]


def _read_state(path: Path) -> None:
    state = Checkpoint(path).load()
    if state is not None and not torch.equal(state["learner"]["weights"], torch.arange(9.0)):
        msg = "a damaged state was accepted"
        raise AssertionError(msg)


def _record() -> list[bytes]:
    path = min((_RESULTS / "elasticzo_fig2").glob("*.jsonl"), key=lambda path: path.stat().st_size)
    return [path.read_bytes()]


def _read_packed(path: Path) -> None:
    StepLog.unpacked({**_log().settings, "entries": path.read_text("latin1")}, 4)


def _packed() -> list[bytes]:
    return [_log().packed()["entries"].encode()]


def _point(path: Path) -> None:
    store = ResultCache("fuzz", {})
    target = store._path({})
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(path.read_bytes())
    value = store.get({})
    if value is not None:
        value.keys()


def _idx() -> list[bytes]:
    plain = struct.pack(">4B3I", 0, 0, 8, 3, 2, 28, 28) + bytes(2 * 784)
    return [plain, gzip.compress(plain)]


_TASK = b"""template = "{sentence} It was"
train = "train.jsonl"
validation = "validation.tsv"
label = "label"
truncate = "sentence"
[answers]
0 = " bad"
1 = " good"
"""

READERS: Mapping[str, Reader] = {
    "array of the cache": Reader(
        lambda: [_npy(np.arange(24, dtype="<f4").reshape(2, 3, 4))],
        lambda path: ArraySpec((2, 3, 4), "<f4", None).read(path),
        ".npy",
    ),
    "IDX": Reader(_idx, lambda path: read_idx(path.read_bytes(), 3, path.name)),
    "zip": Reader(
        lambda: _zips(part=bytes(range(256)) * 3, other=bytes(99)),
        lambda path: copy_member(path, "part", io.BytesIO(), 10_000),
        ".zip",
    ),
    "points": Reader(
        lambda: _zips(
            **{
                "x.npy": _npy(np.full((2, 1024, 3), 18918, "<i2")),
                "y.npy": _npy(np.zeros(2, np.uint8)),
                "n_train.npy": _npy(np.int64(1)),
                "classes.npy": _npy(np.array(CLASSES)),
            }
        ),
        read_points,
        ".npz",
    ),
    "texts": Reader(_examples, _read_text, ".jsonl"),
    "task file": Reader(lambda: [_TASK], lambda path: get_task(str(path)), ".toml"),
    "step log": Reader(lambda: [_written(_log().save, ".json")], StepLog.load, ".json"),
    "step log in a record": Reader(_packed, _read_packed),
    "records": Reader(_record, read_run, ".jsonl"),
    "checkpoint": Reader(_state, _read_state, ".pt"),
    "point of a run": Reader(lambda: [b'{"key": {}, "value": {"peak": 1}}'], _point),
    "config.json": Reader(_config, _plan, ".json"),
    "GGUF header": Reader(_gguf, read_header, ".gguf"),
}
"""By name."""
