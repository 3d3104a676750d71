import numpy as np
import pytest
import torch

from repro.core.errors import UsageError
from repro.data.batches import batches, normalise, to_tensors


def numbered(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(count, dtype=torch.uint8), torch.arange(count)


def test_an_epoch_has_every_item_once_and_each_with_its_label() -> None:
    inputs, labels = numbered(100)
    shuffled = list(batches(inputs, labels, 32, torch.Generator().manual_seed(0)))
    assert [len(chosen) for chosen, _ in shuffled] == [32, 32, 32, 4]
    assert all(torch.equal(chosen, target) for chosen, target in shuffled)
    order = torch.cat([target for _, target in shuffled])
    assert not torch.equal(order, labels)
    assert torch.equal(order.sort().values, labels)


def test_the_generator_decides_the_order() -> None:
    def order(seed: int) -> list[int]:
        generator = torch.Generator().manual_seed(seed)
        return [int(n) for _, target in batches(*numbered(50), 8, generator) for n in target]

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_evaluation_keeps_the_order_and_copies_nothing() -> None:
    inputs, labels = numbered(10)
    chosen = [batch for batch, _ in batches(inputs, labels, 4)]
    assert torch.equal(torch.cat(chosen), inputs)
    assert chosen[0].data_ptr() == inputs.data_ptr()


@pytest.mark.parametrize("size", [0, -1, 2.0, True])
def test_a_batch_size_must_be_a_whole_number(size: int) -> None:
    with pytest.raises(UsageError, match="batch size"):
        next(batches(*numbered(4), size))


def test_normalised_images_have_zero_mean_and_unit_deviation() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (50, 28, 28), dtype=np.uint8)
    images, _ = to_tensors(pixels, np.zeros(50, np.uint8))
    normalised = normalise(images, pixels.mean() / 255, pixels.std() / 255)
    assert normalised.shape == (50, 1, 28, 28)
    assert normalised.dtype == torch.float32
    assert normalised.mean().item() == pytest.approx(0, abs=1e-4)
    assert normalised.std().item() == pytest.approx(1, abs=1e-4)
    assert images.dtype == torch.uint8


def test_read_only_arrays_become_tensors_of_their_own() -> None:
    array = np.arange(4, dtype=np.uint8)
    array.flags.writeable = False
    inputs, labels = to_tensors(array, array)
    inputs += 1
    assert array.tolist() == [0, 1, 2, 3]
    assert labels.dtype == torch.int64
