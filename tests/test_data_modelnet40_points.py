"""ModelNet40 as one file of 16-bit clouds: a small file in its format, and the real one."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repro.core.errors import ReproError, UsageError
from repro.data import cache
from repro.data.base import BadContentError
from repro.data.catalog import load_set
from repro.data.points.modelnet40 import CLASSES
from repro.data.points.modelnet40_points import FILE, UNIT, read_file

TRAIN = 3


def clouds(count: int) -> np.ndarray:
    """Return random clouds of zero centroid and unit radius, in units of 1/32767."""
    points = np.random.default_rng(count).normal(size=(count, 1024, 3))
    points -= points.mean(axis=1, keepdims=True)
    points /= np.linalg.norm(points, axis=2).max(axis=1)[:, None, None]
    return np.round(points * UNIT).astype(np.int16)


def fields() -> dict[str, Any]:
    labels = np.array([0, 39, 5, 2, 2], np.uint8)
    return {
        "x": clouds(5),
        "y": labels,
        "n_train": np.int64(TRAIN),
        "classes": np.array(CLASSES),
        "names": np.array([f"{CLASSES[label]}_{n:04}" for n, label in enumerate(labels)]),
    }


def write(path: Path, **changed: Any) -> Path:
    arrays = fields() | changed
    with path.open("wb") as stream:
        np.savez_compressed(
            stream, **{n: value for n, value in arrays.items() if value is not None}
        )
    return path


def test_splits_and_coordinates_are_those_of_the_file(tmp_path: Path) -> None:
    write(tmp_path / FILE)
    content = read_file(tmp_path / FILE)
    source = fields()
    expected = source["x"] / 32767  # in float64
    for split, part in (("train", slice(None, TRAIN)), ("test", slice(TRAIN, None))):
        points = np.asarray(content[f"{split}_points"])
        assert points.dtype == np.float32
        np.testing.assert_array_equal(points, expected[part].astype(np.float32))
        np.testing.assert_array_equal(content[f"{split}_labels"], source["y"][part])
        np.testing.assert_allclose(np.linalg.norm(points, axis=2).max(axis=1), 1, atol=1e-4)


def test_labels_follow_our_order_of_classes(tmp_path: Path) -> None:
    other = list(reversed(CLASSES))
    labels = 39 - fields()["y"]
    content = read_file(write(tmp_path / FILE, classes=np.array(other), y=labels))
    found = np.concatenate([content["train_labels"], content["test_labels"]])  # type: ignore[arg-type]
    np.testing.assert_array_equal(found, fields()["y"])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"x": None},
            r"modelnet40_1024_i16\.npz: x cannot be read .*replace it by the published file",
        ),
        ({"n_train": None}, "no item named 'n_train.npy' .*truncated, or another file"),
        ({"y": np.array([{}] * 5, object)}, "y cannot be read .*Object arrays"),
        ({"y": np.array([0, 40, 5, 2, 2], np.uint8)}, "index 40 is out of bounds"),
        ({"x": clouds(5).astype(np.float64)}, "Cannot cast"),
        ({"n_train": np.arange(2)}, "only .* can be converted"),
        ({"classes": np.array(["couch", *CLASSES[1:]])}, "not in tuple"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(BadContentError, match=message):
        read_file(write(tmp_path / FILE, **changed))


def test_a_truncated_or_damaged_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / FILE)
    whole = path.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", b"text"):
        path.write_bytes(damaged)
        with pytest.raises(
            BadContentError, match=r"npz: the list of arrays cannot be read .*truncated"
        ):
            read_file(path)
    with zipfile.ZipFile(write(path)) as archive:
        at = archive.getinfo("x.npy").header_offset + 5000
    path.write_bytes(whole[:at] + bytes(100) + whole[at + 100 :])
    with pytest.raises(BadContentError, match=r"npz: x cannot be read .*truncated"):
        read_file(path)


def test_the_set_is_fetched_from_a_mirror_only_and_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("REPRO_DATA_MIRROR", raising=False)
    command = r"repro data fetch modelnet40_points --mirror DIR --accept-terms"
    with pytest.raises(UsageError, match=command):
        cache.load("modelnet40_points")
    (tmp_path / "modelnet40_points").mkdir()
    write(tmp_path / "modelnet40_points" / FILE)
    with pytest.raises(ReproError, match=r"train_points: expected shape \(9843, 1024, 3\)"):
        cache.fetch("modelnet40_points", tmp_path, accept_terms=True)
    assert not cache.is_cached(load_set("modelnet40_points"))


@pytest.mark.slow
def test_the_real_file_has_the_official_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = os.environ.get("REPRO_DATA_MIRROR")
    if mirror is None or not (Path(mirror) / "modelnet40_points").is_dir():
        pytest.skip("needs REPRO_DATA_MIRROR with modelnet40_points")
    monkeypatch.setenv("REPRO_DATA_DIR", str(tmp_path))
    target = cache.fetch("modelnet40_points", accept_terms=True)
    assert json.loads((target / cache.MANIFEST).read_text())["source"] == "mirror"
    content = cache.load("modelnet40_points")
    with np.load(Path(mirror) / "modelnet40_points" / FILE) as file:
        integers, labels, names = file["x"], file["y"], file["names"]
    points = np.concatenate([content["train_points"], content["test_points"]])
    assert np.abs(points * 32767.0 - integers).max() < 2e-3  # float32 near 32767
    assert [CLASSES[label] for label in labels] == [n.rpartition("_")[0] for n in names]
    counts = np.bincount(content["test_labels"], minlength=40)
    assert counts.sum() == 2468
    assert set(counts) == {20, 50, 86, 100}  # the official test split takes these from each class
    assert np.abs(np.linalg.norm(points, axis=2).max(axis=1) - 1).max() < 1e-4
    assert np.abs(points.mean(axis=1, dtype=np.float64)).max() < 1e-4
