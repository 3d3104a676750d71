"""Damaged and forged files: one clear error that names the file, never a library's exception."""

import base64
import gzip
import io
import json
import lzma
import resource
import struct
import subprocess
import sys
import textwrap
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch

from repro.core.errors import ReproError, UsageError
from repro.data.base import ArraySpec, BadContentError
from repro.data.images.idx import read_idx
from repro.data.sources.archives import copy_member, gunzip
from repro.data.text.rows import read_rows
from repro.methods.log import StepLog
from repro.methods.step_info import GradientEstimate
from repro.models.gguf_header import read_header
from repro.planner.configurations import architecture
from repro.planner.models import named
from repro.training.store import Checkpoint

GIB = 2**30


def outcome(read: Callable[[Path], Any], path: Path) -> tuple[Any, str]:
    """Return what ``read`` returns, or its error as text."""
    try:
        return read(path), ""
    except ReproError as error:
        return None, str(error)


def zip_of(content: bytes, **options: Any) -> bytearray:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **options) as archive:
        archive.writestr("part", content)
    return bytearray(buffer.getvalue())


def set_field(archive: bytearray, local: int, central: int, value: bytes) -> bytes:
    """Change a field in a member's local header and in the central directory."""
    for signature, offset in ((b"PK\x03\x04", local), (b"PK\x01\x02", central)):
        at = archive.index(signature) + offset
        archive[at : at + len(value)] = value
    return bytes(archive)


def damaged_stream() -> bytes:
    archive = zip_of(bytes(range(256)) * 40, compression=zipfile.ZIP_DEFLATED)
    archive[40:60] = b"\xff" * 20
    return bytes(archive)


def name_that_is_no_text() -> bytes:
    """In the local header alone: its name is said to be UTF-8 and is not."""
    archive = zip_of(b"x" * 99)
    archive[6:8] = struct.pack("<H", 0x800)
    archive[30] = 0x96
    return bytes(archive)


DAMAGED_ZIPS: dict[str, Callable[[], bytes]] = {
    "an unsupported method": lambda: set_field(zip_of(b"x" * 99), 8, 10, struct.pack("<H", 99)),
    "encrypted": lambda: set_field(zip_of(b"x" * 99), 6, 8, struct.pack("<H", 1)),
    "strong encryption": lambda: set_field(zip_of(b"x" * 99), 6, 8, struct.pack("<H", 0x41)),
    "patched data": lambda: set_field(zip_of(b"x" * 99), 6, 8, struct.pack("<H", 0x20)),
    "a future version": lambda: set_field(zip_of(b"x" * 99), 4, 6, struct.pack("<H", 99)),
    "a damaged stream": damaged_stream,
    "bz2 that is none": lambda: set_field(zip_of(b"x" * 99), 8, 10, struct.pack("<H", 12)),
    "lzma that is none": lambda: set_field(zip_of(b"x" * 99), 8, 10, struct.pack("<H", 14)),
    "a name that is no text": name_that_is_no_text,
    "a wrong checksum": lambda: set_field(zip_of(b"x" * 99), 14, 16, b"abcd"),
    "a truncated directory": lambda: bytes(zip_of(b"x" * 99))[:-30],
    "no archive": lambda: b"PK\x05\x06" + b"\xff" * 18,
    "nothing": lambda: b"",
}


@pytest.mark.parametrize("what", DAMAGED_ZIPS)
def test_a_damaged_archive_is_named(what: str, tmp_path: Path) -> None:
    path = tmp_path / "set.zip"
    path.write_bytes(DAMAGED_ZIPS[what]())
    with pytest.raises(BadContentError, match=r"set\.zip: part: truncated or damaged"):
        copy_member(path, "part", io.BytesIO(), 1000)


def test_a_member_s_size_is_checked_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "set.zip"
    path.write_bytes(zip_of(b"x" * 1001, compression=zipfile.ZIP_DEFLATED))
    output = io.BytesIO()
    with pytest.raises(BadContentError, match=r"set\.zip: part: .*1,001 bytes, at most 1,000 "):
        copy_member(path, "part", output, 1000)
    assert output.getvalue() == b""
    copy_member(path, "part", output, 1001)
    assert output.getvalue() == b"x" * 1001
    with pytest.raises(BadContentError, match=r"set\.zip: other: .*no item named"):
        copy_member(path, "other", output, 1000)


def test_a_full_disk_is_no_damaged_archive(tmp_path: Path) -> None:
    path = tmp_path / "set.zip"
    path.write_bytes(zip_of(b"x" * 1001))
    with Path("/dev/full").open("wb", buffering=0) as full, pytest.raises(OSError, match="space"):
        copy_member(path, "part", full, 1001)
    with pytest.raises(FileNotFoundError):
        copy_member(tmp_path / "absent.zip", "part", io.BytesIO(), 1001)


def test_a_member_that_declares_too_little_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "set.zip"
    archive = zip_of(bytes(10**6), compression=zipfile.ZIP_DEFLATED)
    path.write_bytes(set_field(archive, 22, 24, struct.pack("<I", 100)))
    with pytest.raises(BadContentError, match="part: truncated or damaged"):
        copy_member(path, "part", io.BytesIO(), 100)


def test_gzip_is_unpacked_up_to_its_limit_and_no_further() -> None:
    data = gzip.compress(b"x" * 1000)
    assert gunzip(data, 1000, "file") == b"x" * 1000
    with pytest.raises(BadContentError, match="file: unpacks to more than the allowed 999 bytes"):
        gunzip(data, 999, "file")
    for cut in (5, len(data) - 1, len(data) - 9):
        with pytest.raises(BadContentError, match="file: truncated or corrupt gzip"):
            gunzip(data[:cut], 1000, "file")


BOMBS = """
    import resource, sys
    from pathlib import Path
    sys.path.insert(0, {root!r})
    import {module} as module
    from repro.core.errors import ReproError
    path = Path(sys.argv[1])
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        {call}
    except ReproError as error:
        print(error)
    else:
        print("accepted")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used)
"""
"""Prints the error, then how many KiB the peak of the memory has grown."""


def growth(module: str, call: str, path: Path) -> tuple[str, int]:
    code = BOMBS.format(root=str(Path(__file__).parents[1]), module=module, call=call)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    said, kibibytes = done.stdout.splitlines()
    return said, int(kibibytes) * 1024


def bomb_of_images() -> bytes:
    """A gzip of 1 GiB whose IDX header says just that."""
    packing = zlib.compressobj(1, wbits=31)
    header = struct.pack(">4B3I", 0, 0, 8, 3, GIB // 784, 28, 28)
    body = [packing.compress(header)]
    body += [packing.compress(bytes(2**20)) for _ in range(GIB // 2**20)]
    return b"".join([*body, packing.flush()])


def bomb_of_arrays(name: str) -> bytes:
    """An npz file whose array of 1 GiB is a megabyte."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(f"{name}.npy", "w", force_zip64=True) as member,
    ):
        np.lib.format.write_array_header_1_0(
            member, {"descr": "|u1", "fortran_order": False, "shape": (GIB,)}
        )
        for _ in range(GIB // 2**20):
            member.write(bytes(2**20))
    return buffer.getvalue()


def bomb_of_entries() -> bytes:
    """A log whose 1 GiB of entries is a megabyte."""
    packing = zlib.compressobj(1)
    body = [packing.compress(bytes(2**20)) for _ in range(GIB // 2**20)]
    entries = base64.b64encode(b"".join([*body, packing.flush()])).decode()
    return json.dumps(log_of(1).packed() | {"entries": entries}).encode()


def array_that_declares(name: str, length: int) -> bytes:
    """An npz file whose array has one byte and says that it has more."""
    header, buffer = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (length,)}
    )
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(f"{name}.npy", header.getvalue() + b"x")
    return buffer.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "call", "make"),
    [
        ("repro.data.images.idx", "module.read_idx(path.read_bytes(), 3, 'x')", bomb_of_images),
        ("repro.methods.log", "module.StepLog.load(path)", bomb_of_entries),
        (
            "repro.data.points.modelnet40_points",
            "module.read_file(path)",
            lambda: array_that_declares("x", GIB),
        ),
        (
            "repro.data.points.modelnet40_points",
            "module.read_file(path)",
            lambda: array_that_declares("x", 2**60),
        ),
        (
            "repro.data.points.modelnet40_points",
            "module.read_file(path)",
            lambda: bomb_of_arrays("x"),
        ),
    ],
)
def test_what_expands_to_a_gibibyte_takes_a_fraction_of_it(
    module: str, call: str, make: Callable[[], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(make())
    assert path.stat().st_size < 8 * 2**20
    said, grown = growth(module, call, path)
    assert said != "accepted"
    assert grown < GIB / 3


def log_of(steps: int) -> StepLog:
    log = StepLog(eps=1e-3, perturbations=1, chunk=None)
    for step in range(steps):
        log.append([GradientEstimate(step, 1.0, 0.5, 0.25)], 1e-4)
    return log


def test_a_record_s_log_has_as_many_entries_as_the_run_had_steps() -> None:
    stored = log_of(5).packed()
    assert StepLog.unpacked(stored, 5).entries == log_of(5).entries
    with pytest.raises(ReproError, match="more than 80 bytes of entries"):
        StepLog.unpacked(stored, 4)
    bomb = base64.b64encode(zlib.compress(bytes(20 * 10**6), 9)).decode()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ReproError, match="more than 100 bytes of entries"):
        StepLog.unpacked({**stored, "entries": bomb}, 5)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 10_000  # KiB


@pytest.mark.parametrize(
    "changed",
    [
        {"eps": float("nan")},
        {"eps": -1.0},
        {"chunk": -4},
        {"x": 1},
        {"perturbations": 1.0},
        {"groups": [[1, 0.0, 0.0]]},
        {"groups": [[0, 1e-3, 0.0]]},
        {"groups": [[1, 1e-3, -1.0]]},
    ],
)
def test_a_log_with_impossible_settings_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ReproError, match="not a log of zeroth-order steps"):
        StepLog.unpacked({**log_of(2).packed(), **changed})


NPY = np.arange(24, dtype="<f4").reshape(2, 3, 4)
SPEC = ArraySpec((2, 3, 4), "<f4", None)


def npy(array: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, **options)
    return buffer.getvalue()


def with_header(text: str) -> bytes:
    header = text.encode("latin1").ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + NPY.tobytes()


BAD_ARRAYS = {
    "no end of a bracket": with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3,"),
    "no end of a string": with_header("{'descr': '<f4"),
    "no type": with_header("{'descr': 'zz', 'fortran_order': False, 'shape': (2, 3, 4), }"),
    "a huge shape": with_header(
        f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({10**30}, 3, 4), }}"
    ),
    "a huge shape without items": with_header(
        f"{{'descr': '<f4', 'fortran_order': False, 'shape': (0, {10**21}, 4), }}"
    )[: -NPY.nbytes],
    "a negative shape": with_header(
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3, 4), }"
    ),
    "deep brackets": with_header("(" * 100),
    "a long integer of Python 2": with_header(
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3, 4), }"
    ),
    "objects": with_header("{'descr': '|O', 'fortran_order': False, 'shape': (2, 3, 4), }"),
    "a header alone": npy(NPY)[:128],
    "half a header": npy(NPY)[:60],
    "too short": npy(NPY)[:-1],
    "too long": npy(NPY) + b"x",
    "nothing": b"",
    "another type": npy(NPY.astype("<i4")),
    "another byte order": npy(NPY.astype(">f4")),
    "another shape": npy(NPY.reshape(2, 4, 3)),
    "another number of axes": npy(NPY.reshape(2, 12)),
    "more items": npy(np.concatenate([NPY, NPY])),
    "another order": npy(np.asfortranarray(NPY)),
    "a NaN": npy(np.where(NPY == 5, np.nan, NPY).astype("<f4")),
    "an infinity": npy(np.where(NPY == 5, -np.inf, NPY).astype("<f4")),
}


@pytest.mark.parametrize("what", BAD_ARRAYS)
def test_a_bad_array_of_the_cache_is_named(what: str, tmp_path: Path) -> None:
    path = tmp_path / "train.npy"
    path.write_bytes(BAD_ARRAYS[what])
    with pytest.raises(BadContentError, match=r"train\.npy: "):
        SPEC.read(path)


def test_a_sound_array_of_the_cache_is_read(tmp_path: Path) -> None:
    path = tmp_path / "train.npy"
    SPEC.write(NPY, path)
    found = SPEC.read(path)
    np.testing.assert_array_equal(found, NPY)
    assert not found.flags.writeable


def damaged_npz(content: bytes) -> list[bytes]:
    """The file, with a few bytes changed in each of many places."""
    found = []
    for at in range(0, len(content), max(1, len(content) // 150)):
        changed = bytearray(content)
        changed[at] ^= 0xFF
        found.append(bytes(changed))
        found.append(content[:at])
    return found


def test_a_damaged_step_log_is_named_or_read_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "steps.json"
    log_of(40).save(path)
    whole = path.read_bytes()
    for at in range(len(whole)):
        for content in (whole[:at], whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]):
            path.write_bytes(content)
            found, error = outcome(StepLog.load, path)
            assert found is None
            assert str(path) in error


def test_json_that_is_nested_too_deep_is_no_row() -> None:
    with pytest.raises(BadContentError, match="file:1: not JSON"):
        read_rows(b"[" * 100_000 + b"\n", "file", ("text",), "label")


def state() -> dict[str, Any]:
    return {"learner": {"weights": torch.arange(50.0)}, "curves": {"seconds": [1.0, 2.0]}}


def test_no_damage_of_a_checkpoint_passes(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "state.pt")
    checkpoint.save(state())
    content = checkpoint.path.read_bytes()
    found = checkpoint.load()
    assert found is not None
    assert torch.equal(found["learner"]["weights"], torch.arange(50.0))
    for changed in damaged_npz(content):  # a changed weight, too
        checkpoint.path.write_bytes(changed)
        assert checkpoint.load() is None
        assert not checkpoint.path.exists()


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to"),
    ],
)
def test_a_state_that_the_memory_cannot_hold_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: RuntimeError
) -> None:
    checkpoint = Checkpoint(tmp_path / "state.pt")
    checkpoint.save(state())
    content = checkpoint.path.read_bytes()

    def full(*_: Any, map_location: str, **__: Any) -> None:
        assert map_location == "cpu"  # also if this machine has a GPU, which may be full
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(torch, "load", full)
        with pytest.raises(RuntimeError) as raised, checkpoint.explained():
            checkpoint.load()
        assert raised.value is error
    assert checkpoint.path.read_bytes() == content


@pytest.mark.parametrize("content", [[1, 2], {"x": 1}, torch.zeros(3), None])
def test_what_another_program_has_saved_is_no_state(content: Any, tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    torch.save(content, path)
    assert Checkpoint(path).load() is None


@pytest.mark.parametrize("error", [KeyError("learner"), TypeError("x"), RuntimeError("size")])
def test_a_state_of_another_run_is_named(error: Exception, tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "state.pt")

    def take_over() -> None:
        with checkpoint.explained():
            raise error

    with pytest.raises(ReproError, match=r"state\.pt: not a checkpoint of .*; remove the file"):
        take_over()


LLAMA = {
    "model_type": "mistral", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 100,
    "max_position_embeddings": 64, "sliding_window": 32,
}  # fmt: skip


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize("key", ["sliding_window", "rope_theta", "hidden_size"])
def test_a_configuration_without_finite_numbers_is_refused(
    key: str, value: str, tmp_path: Path
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**LLAMA, key: "HERE"}).replace('"HERE"', value))
    with pytest.raises(UsageError, match=r"config\.json: not JSON .*is not a finite number"):
        named(str(path))


@pytest.mark.parametrize("value", [0, -1, 1.5, "8", [8], True, 10**400, 2**40])
@pytest.mark.parametrize("key", [k for k in LLAMA if k != "model_type"] + ["head_dim"])
def test_a_size_that_no_model_has_is_refused(key: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"{key}.*must be|a value has the wrong type"):
        architecture({**LLAMA, key: value})


def test_layers_beyond_any_model_are_refused_at_once() -> None:
    begin = time.monotonic()
    with pytest.raises(UsageError, match="must be a whole number from 1 to 65536"):
        architecture({**LLAMA, "num_hidden_layers": 2**30})
    assert time.monotonic() - begin < 10


def gguf_file(path: Path, entries: int) -> Path:
    """A file with an array of bytes in its metadata, as a damaged type or length makes one."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_array("tokenizer.ggml.token_type", np.zeros(4, np.int32).tolist())
    writer.add_tensor("token_embd.weight", np.zeros((32, 8), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    content = bytearray(path.read_bytes())
    at = content.index(b"tokenizer.ggml.token_type") + len("tokenizer.ggml.token_type") + 4
    content[at : at + 12] = struct.pack("<IQ", int(gguf.GGUFValueType.UINT8), entries)
    content[at + 12 : at + 28] = bytes(entries)
    path.write_bytes(content + bytes(64))  # the tensor begins later now
    return path


def test_an_array_longer_than_any_vocabulary_is_refused(tmp_path: Path) -> None:
    assert read_header(gguf_file(tmp_path / "x.gguf", 4 * 32)).arrays == {
        "tokenizer.ggml.token_type": 128
    }
    with pytest.raises(ReproError, match=r"'tokenizer.ggml.token_type' has 129 entries"):
        read_header(gguf_file(tmp_path / "x.gguf", 4 * 32 + 1))


def test_a_tensor_of_a_type_without_a_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = gguf_file(tmp_path / "x.gguf", 4)
    read_header(path)
    monkeypatch.delitem(gguf.GGML_QUANT_SIZES, gguf.GGMLQuantizationType.F32)
    with pytest.raises(ReproError, match=r"x\.gguf.*gguf cannot read"):
        read_header(path)


def test_an_idx_file_of_another_set_is_refused() -> None:
    content = struct.pack(">4B3I", 0, 0, 8, 3, 2, 28, 28) + bytes(2 * 784)
    assert read_idx(content, 3, "x").shape == (2, 28, 28)
    with pytest.raises(BadContentError, match="x: truncated or corrupt gzip"):
        read_idx(b"\x1f\x8b" + lzma.compress(content), 3, "x")
