import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torchvision.transforms import InterpolationMode
from torchvision.transforms.functional import rotate as torchvision_rotate

from repro.data.images.rotated import SIZE, make, tuning_images
from repro.data.images.rotation import rotate

Images = npt.NDArray[np.uint8]


def random_images(count: int = 3, height: int = 28, width: int = 28) -> Images:
    return np.random.default_rng(0).integers(0, 256, (count, height, width), dtype=np.uint8)


@given(st.floats(-180, 180))
def test_agrees_with_torchvision_to_a_grey_level(degrees: float) -> None:
    images = random_images()
    expected = torchvision_rotate(
        torch.from_numpy(images).unsqueeze(1).double(), degrees, InterpolationMode.BILINEAR
    )
    difference = np.abs(rotate(images, degrees) - expected.squeeze(1).numpy())
    assert difference.max() < 1


@pytest.mark.parametrize("quarter", [0, 1, 2, 3])
def test_quarter_turns_are_exact(quarter: int) -> None:
    images = random_images()
    turned = np.rot90(images, quarter, axes=(1, 2))
    np.testing.assert_array_equal(rotate(images, 90 * quarter), turned)


def test_outside_is_black_and_the_centre_stays() -> None:
    white = np.full((1, 29, 29), 255, np.uint8)
    turned = rotate(white, 45)[0]
    assert turned[0, 0] == turned[0, -1] == turned[-1, 0] == turned[-1, -1] == 0
    assert turned[14, 14] == 255


def test_the_rotated_set_takes_the_same_images_at_both_angles() -> None:
    random = np.random.default_rng(1)
    base = {
        f"{split}_{kind}": random.integers(0, 256 if kind == "images" else 10, shape, np.uint8)
        for split in ("train", "test")
        for kind, shape in (("images", (2000, 28, 28)), ("labels", (2000,)))
    }
    made = make(base)
    for split in ("train", "test"):
        indices = made[f"{split}_indices"]
        assert len(np.unique(indices)) == SIZE
        np.testing.assert_array_equal(made[f"{split}_labels"], base[f"{split}_labels"][indices])
        for angle in (30, 45):
            expected = rotate(base[f"{split}_images"][indices], angle)
            np.testing.assert_array_equal(made[f"{split}_images_{angle}"], expected)


def test_images_to_tune_on_are_none_of_the_rotated_set_s() -> None:
    images = np.zeros((3000, 28, 28), np.uint8)
    images[:, 14, 14], images[:, 14, 15] = np.divmod(np.arange(3000), 256)  # each its own number
    base = {f"{split}_images": images for split in ("train", "test")}
    base |= {f"{split}_labels": np.arange(3000) for split in ("train", "test")}
    tuned, labels = tuning_images(base, 30)
    assert len(np.unique(labels)) == len(tuned) == SIZE
    assert not set(labels) & set(make(base)["train_labels"])
    np.testing.assert_array_equal(tuned, rotate(images[labels], 30))
