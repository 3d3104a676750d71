"""Every integer layer, forward and backward, bit for bit against float64 and autograd."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F  # noqa: N812

from repro.core.errors import UsageError
from repro.integer.conv import IntegerConv2d, windows
from repro.integer.layers import (
    IntegerFlatten,
    IntegerLinear,
    IntegerMaxOverPoints,
    IntegerMaxPool2d,
    IntegerReLU,
    Selecting,
)
from repro.integer.tensor import IntegerTensor


def int8(*shape: int, seed: int = 0, low: int = -128) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, 128, shape, generator=generator).to(torch.int8)


def batch_first(x: torch.Tensor) -> torch.Tensor:
    """[H, C, W, B] to [B, C, H, W], in float64."""
    return x.permute(3, 1, 0, 2).double()


def same(accumulators: torch.Tensor, expected: torch.Tensor) -> bool:
    return torch.equal(batch_first(accumulators), expected)


conv_shapes = st.tuples(
    st.integers(1, 3), st.integers(1, 4), st.sampled_from([1, 3, 5]), st.integers(0, 4),
    st.integers(5, 9), st.integers(5, 9), st.integers(1, 4),
).filter(lambda s: s[3] < s[2])  # fmt: skip


@given(conv_shapes)
@settings(max_examples=15)
def test_convolution_forward_and_backward(shape: tuple[int, ...]) -> None:
    inputs, outputs, kernel, padding, height, width, batch = shape
    x = int8(height, inputs, width, batch, seed=1)
    weight = int8(outputs, inputs, kernel, kernel, seed=2, low=-127)
    layer = IntegerConv2d(IntegerTensor(weight, -9), padding)
    x64 = batch_first(x).requires_grad_()
    w64 = weight.double().requires_grad_()
    expected = F.conv2d(x64, w64, padding=padding)
    assert same(layer.accumulate(x), expected.detach())

    error = int8(expected.shape[2], outputs, expected.shape[3], batch, seed=3)
    expected.backward(batch_first(error))
    assert torch.equal(layer.weight_gradient(x, error).double(), w64.grad)
    assert same(layer.input_error(error), x64.grad)


def test_weight_gradient_of_a_large_batch_passes_two_to_the_31() -> None:
    x = torch.full((28, 1, 28, 256), 127, dtype=torch.int8)
    layer = IntegerConv2d(IntegerTensor(int8(1, 1, 5, 5, low=-127), -9), 2)
    error = torch.full((28, 1, 28, 256), 127, dtype=torch.int8)
    gradient = layer.weight_gradient(x, error)
    assert gradient.dtype == torch.int64
    assert int(gradient[0, 0, 2, 2]) == 28 * 28 * 256 * 127 * 127 > 2**31


@pytest.mark.parametrize("middle", [(), (5,), (3, 2)])
def test_linear_forward_and_backward(middle: tuple[int, ...]) -> None:
    x, weight = int8(7, *middle, 4, seed=1), int8(3, 7, seed=2, low=-127)
    layer = IntegerLinear(IntegerTensor(weight, -9))
    x64 = x.double().requires_grad_()
    w64 = weight.double().requires_grad_()
    expected = torch.einsum("oi,i...->o...", w64, x64)
    assert torch.equal(layer.accumulate(x).double(), expected.detach())

    error = int8(3, *middle, 4, seed=3)
    expected.backward(error.double())
    assert torch.equal(layer.weight_gradient(x, error).double(), w64.grad)
    assert torch.equal(layer.input_error(error).double(), x64.grad)


@given(st.integers(1, 3), st.integers(3, 9), st.integers(3, 9), st.integers(2, 3))
@settings(max_examples=25)
def test_pooling_takes_the_first_maximum_like_pytorch(
    channels: int, height: int, width: int, kernel: int
) -> None:
    x = int8(height, channels, width, 3) // 60  # few values, so many ties
    layer = IntegerMaxPool2d(kernel)
    y = layer.forward(x)
    pooled, indices = F.max_pool2d(batch_first(x), kernel, return_indices=True)
    assert same(y, pooled)
    error = int8(*y.shape, seed=1)
    size = [3, channels, height, width]
    expected = F.max_unpool2d(batch_first(error), indices, kernel, output_size=size)
    assert same(layer.backward(x, y, error), expected)


def test_maximum_over_points_takes_the_first_maximum() -> None:
    x = int8(6, 10, 4) // 60
    layer = IntegerMaxOverPoints()
    y = layer.forward(x)
    expected, indices = x.double().max(1)
    first = (x == y.unsqueeze(1)).int().argmax(1)
    assert torch.equal(y.double(), expected)
    assert torch.equal(x.gather(1, indices.unsqueeze(1)), x.gather(1, first.unsqueeze(1)))
    error = int8(6, 4, seed=1)
    result = layer.backward(x, y, error)
    assert torch.equal(
        result, torch.zeros_like(x).scatter_(1, first.unsqueeze(1), error.unsqueeze(1))
    )


def test_relu_passes_errors_above_zero_strictly() -> None:
    x = torch.tensor([[-5, 0, 1, 127, -128]], dtype=torch.int8)
    y = IntegerReLU().forward(x)
    assert y.tolist() == [[0, 0, 1, 127, 0]]
    error = torch.tensor([[1, 2, 3, -128, 5]], dtype=torch.int8)
    assert IntegerReLU().backward(x, y, error).tolist() == [[0, 0, 3, -128, 0]]


def test_flatten_has_the_order_of_pytorch() -> None:
    x = int8(2, 3, 4, 5)
    y = IntegerFlatten().forward(x)
    assert torch.equal(y.t().double(), torch.flatten(batch_first(x), 1))
    assert torch.equal(IntegerFlatten().backward(x, y, y), x)


def test_flatten_leaves_features_as_they_are() -> None:
    x = int8(4, 5)
    assert torch.equal(IntegerFlatten().forward(x), x)
    assert torch.equal(IntegerFlatten().backward(x, x, -x), -x)


@pytest.mark.parametrize("layer", [IntegerReLU(), IntegerMaxPool2d(2)])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_selecting_layers_take_accumulators(layer: Selecting, dtype: torch.dtype) -> None:
    x = torch.randint(-(10**6), 10**6, (3, 4, 4, 2), dtype=dtype)
    y = layer.forward(x)
    assert y.dtype == dtype
    assert torch.isin(y, torch.cat([x.flatten(), torch.zeros(1, dtype=dtype)])).all()


@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize("height", [3, 5, 8])
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_windows_are_those_of_pytorchs_unfold(padding: int, height: int, rows: int) -> None:
    x = int8(height, 3, 7, 2)
    unfolded = F.unfold(batch_first(x), 3, padding=padding)  # [B, C k k, H' W']
    size = (height - 2 + 2 * padding, 5 + 2 * padding)
    expected = unfolded.view(2, 3, 3, 3, *size).permute(2, 1, 3, 4, 5, 0)  # [k, C, k, H', W', B]
    seen = []
    for some, window in windows(x, 3, padding, rows):
        by_row = window.double().unflatten(0, (-1, 9))
        for index, row in enumerate(range(some.start, some.stop)):
            mine = by_row[index : index + 3].flatten(0, 1)
            assert torch.equal(mine, expected[:, :, :, row].reshape(27, -1))
            seen.append(row)
        assert len(by_row) == some.stop - some.start + 2
    assert seen == list(range(size[0]))


def test_only_int8_and_whole_exponents_make_an_integer_tensor() -> None:
    with pytest.raises(UsageError, match=r"mantissas of torch\.int32: must be torch\.int8"):
        IntegerTensor(torch.zeros(2, dtype=torch.int32), 0)
    with pytest.raises(UsageError, match=r"exponent = -5\.0: must be a whole number"):
        IntegerTensor(int8(2), -5.0)  # type: ignore[arg-type]
    assert IntegerTensor(int8(2, low=3), -5).dequantise().dtype == torch.float32
    assert IntegerTensor(torch.tensor([-96], dtype=torch.int8), -5).dequantise().tolist() == [-3.0]
