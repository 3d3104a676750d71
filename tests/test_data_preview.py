from pathlib import Path

import numpy as np
from matplotlib.image import imread

from repro.data.preview import draw_images


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


def test_classes_without_names_are_numbered() -> None:
    content = {
        "train_labels": np.arange(3, dtype=np.uint8),
        "train_images": np.zeros((3, 28, 28), np.uint8),
    }
    (axes,) = draw_images("a new set", content).axes
    assert [text.get_text() for text in axes.texts] == ["0", "1", "2"]
