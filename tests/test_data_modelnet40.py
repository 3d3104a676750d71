"""ModelNet40 from small archives and HDF5 files in the real formats, made here."""

import sys
import types
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import trimesh

from repro.core.errors import ReproError
from repro.data import cache, catalog
from repro.data.base import BadContentError, DataSet, mirror
from repro.data.points import modelnet40, modelnet40_hdf5
from repro.data.points.clouds import cloud_specs
from repro.data.points.modelnet40 import CLASSES

Members = dict[str, str]


def off(mesh: trimesh.Trimesh, *, broken_header: bool = False) -> str:
    text = mesh.export(file_type="off")
    return text.replace("OFF\n", "OFF", 1) if broken_header else text


@pytest.fixture
def members() -> Members:
    """Two training shapes and one test shape a class, as the official archive lays them out."""
    box, ball = trimesh.creation.box((1, 2, 3)), trimesh.creation.icosphere(subdivisions=1)
    found = {"__MACOSX/ModelNet40/airplane/train/._airplane_0001.off": "resource fork"}
    for name in CLASSES:
        found[f"ModelNet40/{name}/.DS_Store"] = "folder settings"
        found[f"ModelNet40/{name}/train/{name}_0002.off"] = off(ball)
        found[f"ModelNet40/{name}/train/{name}_0001.off"] = off(box, broken_header=True)
        found[f"ModelNet40/{name}/test/{name}_0003.off"] = off(box)
    return found


def write_zip(path: Path, members: Members) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def test_there_are_forty_classes_in_order() -> None:
    assert len(CLASSES) == 40
    assert list(CLASSES) == sorted(CLASSES)


def test_samples_every_mesh_once_in_order(members: Members, tmp_path: Path) -> None:
    path = write_zip(tmp_path / "ModelNet40.zip", members)
    content = modelnet40.read_archive(path)
    points = np.asarray(content["train_points"])
    assert points.shape == (80, 1024, 3)
    assert points.dtype == np.float32
    assert np.asarray(content["test_points"]).shape == (40, 1024, 3)
    np.testing.assert_array_equal(content["train_labels"], np.repeat(np.arange(40), 2))
    np.testing.assert_array_equal(content["test_labels"], np.arange(40))
    np.testing.assert_allclose(points.mean(axis=1), 0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(points, axis=2).max(axis=1), 1, atol=1e-6)
    spread = points.std(axis=1)
    assert (spread[0::2].max(axis=1) > 2 * spread[0::2].min(axis=1)).all()  # the boxes
    assert (spread[1::2].max(axis=1) < 1.1 * spread[1::2].min(axis=1)).all()  # the balls
    assert not np.array_equal(points[0], points[2])  # every mesh has points of its own
    again = modelnet40.read_archive(path)
    np.testing.assert_array_equal(again["train_points"], points)


def test_only_the_official_archive_is_taken(members: Members, tmp_path: Path) -> None:
    path = write_zip(tmp_path / "ModelNet40.zip", members)
    with pytest.raises(BadContentError, match=r"SHA-256 is [0-9a-f]{64}, must be 42dc3e65"):
        modelnet40.read_verified(path)


@pytest.fixture
def mirrored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Catalogue a set read from a small archive in a mirror, which is returned."""
    source = mirror("modelnet40", lambda path: modelnet40.read_archive(path / modelnet40.ARCHIVE))
    small = DataSet("small40", "A small ModelNet40", "MIT", cloud_specs(80, 40), (source,))
    module = types.ModuleType("small40")
    module.__dict__["DATA_SETS"] = (small,)
    monkeypatch.setitem(sys.modules, "small40", module)
    monkeypatch.setitem(catalog.MODULES, "small40", "small40")
    monkeypatch.setenv("REPRO_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "mirror" / "modelnet40").mkdir(parents=True)
    return tmp_path / "mirror"


def test_sampled_once_then_memory_mapped(members: Members, mirrored: Path) -> None:
    archive = write_zip(mirrored / "modelnet40" / modelnet40.ARCHIVE, members)
    cache.fetch("small40", mirrored)
    archive.unlink()
    points = cache.load("small40")["train_points"]
    assert isinstance(points, np.memmap)
    assert points.shape == (80, 1024, 3)
    cache.verify("small40")


def test_a_missing_mesh_leaves_nothing_in_the_cache(members: Members, mirrored: Path) -> None:
    del members["ModelNet40/vase/test/vase_0003.off"]
    write_zip(mirrored / "modelnet40" / modelnet40.ARCHIVE, members)
    with pytest.raises(ReproError, match=r"test_points: expected shape \(40, 1024, 3\)"):
        cache.fetch("small40", mirrored)
    assert not cache.is_cached(catalog.load_set("small40"))


def write_hdf5(path: Path, **arrays: np.ndarray) -> Path:
    path.parent.mkdir(exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array
    return path


def some_points(count: int) -> np.ndarray:
    return np.random.default_rng(count).normal(size=(count, 2048, 3)).astype(np.float32)


def test_hdf5_files_are_joined_in_order(tmp_path: Path) -> None:
    points = {name: some_points(n) for n, name in enumerate(modelnet40_hdf5.FILES_MD5, start=1)}
    for name, data in points.items():
        labels = np.arange(len(data), dtype=np.uint8)[:, None]
        write_hdf5(tmp_path / name, data=data, label=labels)
    write_hdf5(tmp_path / "ply_data_train5.h5", data=some_points(1))  # not one of the published
    content = modelnet40_hdf5.read_directory(tmp_path)
    trained = np.concatenate([np.arange(n) for n in (1, 2, 3, 4, 5)])
    np.testing.assert_array_equal(content["train_labels"], trained)
    np.testing.assert_array_equal(content["test_labels"], [*range(6), *range(7)])
    second = points["ply_data_train1.h5"][1, :1024]
    expected = second - second.mean(axis=0)
    expected /= np.linalg.norm(expected, axis=1).max()
    np.testing.assert_allclose(np.asarray(content["train_points"])[2], expected, atol=1e-6)


def test_only_the_published_hdf5_files_are_taken(tmp_path: Path) -> None:
    archive = tmp_path / "modelnet40_ply_hdf5_2048.zip"
    members = {f"{modelnet40_hdf5.DIRECTORY}/{name}": name for name in modelnet40_hdf5.FILES_MD5}
    with pytest.raises(BadContentError, match=r"ply_data_train0\.h5: MD5 is .* must be 3176385f"):
        modelnet40_hdf5.read_archive(write_zip(archive, members))
    del members[f"{modelnet40_hdf5.DIRECTORY}/ply_data_test1.h5"]
    with pytest.raises(BadContentError, match=r"2048\.zip: .*/ply_data_test1\.h5: .*no item"):
        modelnet40_hdf5.read_archive(write_zip(archive, members))
