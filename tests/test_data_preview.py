import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from repro.data import preview
from repro.data.catalog import MODULES, load_set
from repro.data.preview import draw_images, draw_samples
from repro.training.task import VISION_TASKS


def test_a_picture_has_a_column_for_each_class_and_a_row_for_each_view(tmp_path: Path) -> None:
    """Each class is a grey level of its own, the second angle darker by a step."""
    labels = np.repeat(np.arange(10, dtype=np.uint8), 3)
    grey = np.broadcast_to(10 * labels[:, None, None], (30, 28, 28)).astype(np.uint8)
    content = {
        "train_labels": labels,
        "train_images_30": grey,
        "train_images_45": grey + np.uint8(100),
        "test_images_30": np.zeros((0, 28, 28), np.uint8),
    }
    draw_images("rotated_mnist", content).savefig(tmp_path / "samples.png", dpi=100)
    picture = imread(tmp_path / "samples.png")[..., 0]
    height, width = picture.shape
    assert (height, width) == (330, 750)
    rows = [round(255 * (1 - picture[30 + 75 * row + 37, 37])) for row in range(4)]
    columns = [round(255 * (1 - picture[67, 75 * column + 37])) for column in range(10)]
    np.testing.assert_allclose(rows, [0, 100, 0, 100], atol=1)
    np.testing.assert_allclose(columns, range(0, 100, 10), atol=1)


@pytest.mark.parametrize(
    "name", [name for name in MODULES if "train_points" in load_set(name).content]
)
def test_clouds_are_drawn_upright_with_the_names_of_their_classes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    draw = preview.draw_clouds

    def kept(*given: Any) -> Figure:
        drawn.append(draw(*given))
        return drawn[-1]

    up = {"modelnet40_hdf5": 1}.get(name, 2)  # as the augmentation of training has it
    task = VISION_TASKS[name]
    assert task.vertical in (up, None)
    points = np.zeros((1, 4, 3), np.float32)
    points[..., up] = 1
    content = {"train_points": points, "train_labels": np.array([task.classes - 1])}
    monkeypatch.setattr(preview, "load", lambda _: content)
    monkeypatch.setattr(preview, "draw_clouds", kept)
    draw_samples(name, tmp_path / "clouds.png")
    (cell,) = drawn[0].axes
    (marks,) = cell.collections
    np.testing.assert_array_equal(np.transpose(marks._offsets3d), [[0, 0, 1]] * 4)  # type: ignore[attr-defined]
    assert cell.get_title() == importlib.import_module(MODULES[name]).CLASSES[-1]


def test_classes_without_names_are_numbered() -> None:
    content = {
        "train_labels": np.arange(3, dtype=np.uint8),
        "train_images": np.zeros((3, 28, 28), np.uint8),
    }
    (axes,) = draw_images("a new set", content).axes
    assert [text.get_text() for text in axes.texts] == ["0", "1", "2"]
