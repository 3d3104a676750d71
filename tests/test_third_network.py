"""A network that no paper has, added as docs/adding.md says."""

from collections import OrderedDict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from repro.artifacts.shared.training_runs import point_of
from repro.core.names import METHODS, MethodName, Precision
from repro.models.networks import NETWORKS
from repro.training.run import FloatSettings, IntegerSettings, NetworkRun
from repro.training.store import CheckpointStore
from repro.training.task import PARTITIONS, VISION_TASKS, VisionTask
from repro.training.trainer import TrainingTask, train_run

TASK = "mnist_by_a_perceptron"


def perceptron(*, bias: bool = True, classes: int) -> nn.Sequential:
    return nn.Sequential(
        OrderedDict(
            flatten=nn.Flatten(),
            fc1=nn.Linear(784, 32, bias=bias),
            relu1=nn.ReLU(),
            fc2=nn.Linear(32, 16, bias=bias),
            relu2=nn.ReLU(),
            fc3=nn.Linear(16, classes, bias=bias),
        )
    )


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    network: Any = "perceptron"  # the types name the networks of the paper
    task = VisionTask("mnist", network, 10, pixels_of="mnist", recorded_as=TASK)
    partitions = {"full_zo": None, "cls2": "fc3", "cls1": "fc2", "full_bp": "fc1"}
    monkeypatch.setitem(NETWORKS, network, perceptron)  # type: ignore[arg-type]
    monkeypatch.setitem(PARTITIONS, network, partitions)
    monkeypatch.setitem(VISION_TASKS, TASK, task)  # type: ignore[arg-type]


def train(run: NetworkRun, directory: Path) -> dict[str, Any]:
    return train_run(TrainingTask(run, CheckpointStore(directory), {"commit": "", "dirty": True}))


@pytest.mark.usefixtures("engine", "made_up_mnist")
@pytest.mark.parametrize("method", METHODS)
def test_it_is_trained_in_integers_to_the_same_bits_by_both_engines(
    method: MethodName, tmp_path: Path
) -> None:
    precision: Precision = "int8" if method == "full_bp" else "int8_star"
    run = NetworkRun(TASK, precision, method, IntegerSettings(batch=12), 3, 0)
    by_torch, by_engine = train(run, tmp_path), train(replace(run, engine="native"), tmp_path)
    assert by_torch["test_loss"] == by_engine["test_loss"]
    assert len(set(by_torch["test_loss"])) > 1  # it moved


@pytest.mark.usefixtures("engine", "made_up_mnist")
@pytest.mark.parametrize("chosen", ["torch", "native"])
def test_backpropagation_in_float32_lowers_its_loss(chosen: Any, tmp_path: Path) -> None:
    run = NetworkRun(TASK, "fp32", "full_bp", FloatSettings(lr=0.02, batch=12), 3, 0, engine=chosen)
    loss = train(run, tmp_path)["train_loss"]
    assert loss[-1] < loss[0]


def test_its_records_are_apart_from_those_of_the_papers_network() -> None:
    run = NetworkRun(TASK, "fp32", "cls1", FloatSettings(lr=0.02), 1, 0)
    assert point_of(run)["dataset"] == TASK
    assert point_of(replace(run, task="mnist"))["dataset"] == "mnist"
