"""SHREC11 and shapes40."""

import hashlib
import os
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import trimesh

from repro.core.errors import UsageError
from repro.data.base import BadContentError
from repro.data.catalog import load_set
from repro.data.points import shapes40, shrec11
from repro.data.points.solids import KINDS
from repro.data.preview import draw_clouds, draw_samples


@pytest.fixture
def shrec(tmp_path: Path) -> Path:
    """One training and one test mesh a class, in the layout of the mirror."""
    text = trimesh.creation.cone(1, 3).export(file_type="obj")
    for name in shrec11.CLASSES:
        for split in ("train", "test"):
            path = tmp_path / "shrec_16" / name / split / "T1.obj"
            path.parent.mkdir(parents=True)
            path.write_text(f"# {name} {split}\n{text}")
    return tmp_path


def test_shrec11_samples_every_mesh_in_order_of_class(shrec: Path) -> None:
    content = shrec11.read_meshes(shrec)
    assert np.asarray(content["train_points"]).shape == (30, 1024, 3)
    np.testing.assert_array_equal(content["test_labels"], np.arange(30))


def test_shrec11_hash_is_over_sorted_paths_and_contents(shrec: Path) -> None:
    digest = hashlib.sha256()
    for name in sorted(path.as_posix() for path in shrec.rglob("*.obj")):
        relative = name.removeprefix(f"{shrec.as_posix()}/")
        digest.update(relative.encode() + b"\0" + Path(name).read_bytes())
    assert shrec11.hash_meshes(shrec) == digest.hexdigest()
    with pytest.raises(BadContentError, match=f"is {digest.hexdigest()}, must be 4515ed79"):
        shrec11.read_verified(shrec)


def test_shapes40_has_forty_kinds_in_order() -> None:
    assert tuple(KINDS) == shapes40.CLASSES
    assert list(KINDS) == sorted(KINDS)
    assert len(KINDS) == 40


def test_shapes40_is_repeatable_and_short_splits_are_prefixes() -> None:
    long, short = shapes40.make(train=45, test=3), shapes40.make(train=10, test=1)
    points = np.asarray(long["train_points"])
    np.testing.assert_array_equal(points[:10], short["train_points"])
    np.testing.assert_array_equal(long["train_labels"], np.arange(45) % 40)
    np.testing.assert_allclose(points.mean(axis=1), 0, atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(points, axis=2).max(axis=1), 1, atol=1e-4)
    assert not np.array_equal(points[0], points[40])
    assert not np.array_equal(points[0], np.asarray(long["test_points"])[0])


def test_shapes40_first_clouds_are_the_pinned_ones() -> None:
    """A prefix of the whole set, whose hash takes 20 s; another trimesh must give the same."""
    points = np.asarray(shapes40.make(train=40, test=1)["train_points"])
    assert hashlib.sha256(points.tobytes()).hexdigest().startswith("9a2b22e939cd25af")


@pytest.mark.slow
def test_shapes40_is_the_pinned_set() -> None:
    dataset = load_set("shapes40")
    content = shapes40.make()
    for key, spec in dataset.content.items():
        assert spec.digest(content[key]) == spec.sha256


@pytest.mark.slow
def test_shrec11_is_the_pinned_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = os.environ.get("REPRO_DATA_MIRROR")
    if mirror is None or not (Path(mirror) / "shrec11").is_dir():
        pytest.skip("needs REPRO_DATA_MIRROR with shrec11")
    from repro.data import cache

    monkeypatch.setenv("REPRO_DATA_DIR", str(tmp_path))
    cache.fetch("shrec11")
    cache.verify("shrec11")


def test_a_picture_shows_clouds_of_every_class(tmp_path: Path) -> None:
    content = shapes40.make(train=40, test=1)
    points, labels = np.asarray(content["train_points"]), np.asarray(content["train_labels"])
    draw_clouds(points, labels, shapes40.CLASSES).savefig(tmp_path / "shapes40.png")
    picture = matplotlib.image.imread(tmp_path / "shapes40.png")
    cells = [np.array_split(row, 10, axis=1) for row in np.array_split(picture, 4)]
    assert all((cell[..., :3] < 0.9).any() for row in cells for cell in row)


def test_sets_of_text_have_no_picture(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="boolq has no picture"):
        draw_samples("boolq", tmp_path / "boolq.png")
    with pytest.raises(UsageError, match=r"format of the picture = 'jpg': must be one of png"):
        draw_samples("shapes40", tmp_path / "shapes40.jpg")
