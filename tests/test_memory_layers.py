"""Layer tables against shapes worked out by hand and against the outputs of real passes."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from repro.core.errors import UsageError
from repro.core.partition import partition_index
from repro.memory.layers import layer_table
from repro.models.lenet5 import lenet5
from repro.models.pointnet import pointnet


def test_lenet5_by_the_arithmetic_of_its_layers() -> None:
    table = {layer.name: layer for layer in layer_table(lenet5(), (1, 28, 28))}
    outputs = {
        "conv1": 6 * 28 * 28, "relu1": 6 * 28 * 28, "pool1": 6 * 14 * 14,
        "conv2": 16 * 14 * 14, "relu2": 16 * 14 * 14, "pool2": 16 * 7 * 7, "flatten": 0,
        "fc1": 120, "relu3": 120, "fc2": 84, "relu4": 84, "fc3": 10,
    }  # fmt: skip
    parameters = {
        "conv1": 6 * 25 + 6, "conv2": 16 * 6 * 25 + 16, "fc1": 784 * 120 + 120,
        "fc2": 120 * 84 + 84, "fc3": 84 * 10 + 10,
    }  # fmt: skip
    assert {name: layer.outputs for name, layer in table.items()} == outputs
    assert {n: layer.parameters for n, layer in table.items() if layer.parameters} == parameters
    assert {name for name, layer in table.items() if layer.accumulates} == parameters.keys()
    assert table["fc1"].inputs == 784
    assert (sum(outputs.values()), sum(parameters.values())) == (18_058, 107_786)
    # what the paper says of the tails
    assert parameters["fc3"] == 850
    assert parameters["fc2"] + parameters["fc3"] == 11_014


def test_without_biases_only_parameters_differ() -> None:
    with_biases, without = (layer_table(lenet5(bias=b), (1, 28, 28)) for b in (True, False))
    assert sum(layer.parameters for layer in without) == 107_550
    assert [layer.outputs for layer in without] == [layer.outputs for layer in with_biases]
    assert sum(layer.outputs for layer in without if layer.accumulates) == 8_054


@pytest.mark.parametrize("points", [1, 64, 1024])
def test_pointnet_by_the_arithmetic_of_its_layers(points: int) -> None:
    table = layer_table(pointnet(), (points, 3))
    widths = (64, 64, 64, 128, 1024)
    head = 1024 + 2 * 512 + 2 * 256 + 40
    assert sum(layer.outputs for layer in table) == 3 * points * sum(widths) + head
    assert sum(layer.parameters for layer in table) == 818_088
    kinds = [layer.kind for layer in table]
    assert kinds[:3] == ["linear", "batch norm", "ReLU"]
    assert kinds.count("batch norm") == 5


def test_pointnet_of_the_paper_has_the_elements_behind_its_figure() -> None:
    assert sum(layer.outputs for layer in layer_table(pointnet(), (1024, 3))) == 4_131_368


@given(st.lists(st.integers(1, 40), min_size=2, max_size=6), st.booleans())
def test_any_perceptron(widths: list[int], bias: bool) -> None:
    layers = [nn.Linear(a, b, bias=bias) for a, b in pairwise(widths)]
    table = layer_table(nn.Sequential(*layers), (widths[0],))
    assert [layer.inputs for layer in table] == widths[:-1]
    assert [layer.outputs for layer in table] == widths[1:]
    assert [layer.parameters for layer in table] == [a * b + b * bias for a, b in pairwise(widths)]


def test_tracing_computes_nothing_and_leaves_the_model_alone() -> None:
    model = pointnet()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    layer_table(model, (64, 3))
    assert model.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_nested_sequences_are_taken_apart_and_named_as_torch_names_them() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(3, 5), nn.ReLU()), nn.Sequential(nn.Linear(5, 2)))
    names = [layer.name for layer in layer_table(model, (3,))]
    assert names == ["0.0", "0.1", "1.0"]
    assert partition_index("1", names) == partition_index("1.0", names) == 2
    assert partition_index("0", names) == 0


def test_a_tied_weight_counts_once() -> None:
    first, second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    second.weight = first.weight
    assert [row.parameters for row in layer_table(nn.Sequential(first, second), (4,))] == [16, 0]


def test_in_place_activations_count_as_the_paper_counts_them() -> None:
    plain, in_place = (
        layer_table(nn.Sequential(nn.Linear(3, 5), nn.ReLU(inplace=i)), (3,)) for i in (False, True)
    )
    assert plain == in_place


def test_a_layer_of_another_kind_keeps_its_output() -> None:
    table = layer_table(nn.Sequential(nn.Linear(3, 5), nn.GELU(), nn.Dropout()), (3,))
    assert [(layer.kind, layer.outputs) for layer in table[1:]] == [("other", 5)] * 2


def test_what_cannot_be_traced_is_refused() -> None:
    with pytest.raises(UsageError, match=r"Linear: must be an nn.Sequential"):
        layer_table(nn.Linear(2, 2), (2,))
    with pytest.raises(UsageError, match=r"layer fc1 .* does not take a sample of shape \[400\]"):
        layer_table(lenet5(), (1, 20, 20))
    with pytest.raises(UsageError, match=r"layer 1 \(BatchNorm2d"):
        layer_table(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm2d(4)), (4,))
    with pytest.raises(UsageError, match="size of a sample = 0"):
        layer_table(lenet5(), (1, 0, 28))


def test_a_partition_that_is_not_there_is_refused() -> None:
    names = [layer.name for layer in layer_table(lenet5(), (1, 28, 28))]
    assert partition_index(12, names) == 12
    for wrong in (13, -1, True):
        with pytest.raises(UsageError, match=f"= {wrong!r}: must be a whole number from 0 to 12"):
            partition_index(wrong, names)
    with pytest.raises(
        UsageError, match=r"'fc9' names no layer; did you mean fc.* There are: conv1"
    ):
        partition_index("fc9", names)
