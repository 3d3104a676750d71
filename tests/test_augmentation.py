"""Augmentation of point clouds, against NumPy and against runs that were interrupted."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from repro.core.errors import UsageError
from repro.core.names import Engine, MethodName
from repro.data.points.augmentation import JITTER, JITTER_LIMIT, augment, jitter, turn
from repro.training import build as build_module
from repro.training.build import build_learner
from repro.training.checkpoint import Checkpoint
from repro.training.learners import FloatLearner
from repro.training.loop import Curve, Epochs, Training, train
from repro.training.run import FloatSettings, NetworkRun
from repro.training.split import CloudAugmentation, SplitBatches
from repro.training.store import CheckpointStore
from repro.training.task import Arrays
from repro.training.trainer import TrainingTask, train_run

POINTS = 16


def generator(seed: int = 0, device: str = "cpu") -> torch.Generator:
    return torch.Generator(device).manual_seed(seed)


def some_clouds(count: int = 6, points: int = POINTS, device: str = "cpu") -> Tensor:
    return torch.randn(count, points, 3, generator=generator(9)).to(device)


@pytest.mark.parametrize("vertical", [1, 2])
def test_turning_is_a_rotation_about_the_vertical_axis(vertical: int) -> None:
    clouds = some_clouds()
    before, after = clouds.numpy(), turn(clouds, generator(), vertical).numpy()
    np.testing.assert_array_equal(after[..., vertical], before[..., vertical])
    np.testing.assert_allclose(
        np.linalg.norm(after, axis=2), np.linalg.norm(before, axis=2), rtol=1e-5
    )
    across = [axis for axis in range(3) if axis != vertical]
    angles = []
    for one, other in zip(before, after, strict=True):  # each as complex numbers in its plane
        flat = (points[:, across].astype(np.float64) @ [1, 1j] for points in (one, other))
        old, new = flat
        ratio = new / old
        np.testing.assert_allclose(ratio, ratio[0], atol=1e-4)  # all points by the same angle
        assert abs(ratio[0]) == pytest.approx(1, abs=1e-5)
        angles.append(np.angle(ratio[0]))
    assert len(set(np.round(angles, 3))) == len(clouds)  # each cloud by an angle of its own


def test_angles_cover_the_whole_circle_evenly() -> None:
    clouds = torch.zeros(4000, 1, 3)
    clouds[:, 0, 0] = 1
    turned = turn(clouds, generator(), 2)[:, 0].numpy()
    angles = np.arctan2(turned[:, 1], turned[:, 0])
    counts, _ = np.histogram(angles, bins=8, range=(-math.pi, math.pi))
    assert np.abs(counts - 500).max() < 5 * math.sqrt(500)


def test_jitter_is_clipped_gaussian_noise() -> None:
    clouds = some_clouds(64, 1024)
    noise = (jitter(clouds, generator()) - clouds).double().numpy()
    assert noise.std() == pytest.approx(JITTER, rel=0.01)
    assert abs(noise.mean()) < 1e-4
    assert np.abs(noise).max() <= JITTER_LIMIT + 1e-6
    assert np.abs(noise).max() > 4 * JITTER


def test_the_points_of_each_cloud_come_in_an_order_of_their_own() -> None:
    upright = torch.arange(POINTS).float() * 10  # kept by turning, and hardly moved by jitter
    clouds = torch.stack([torch.zeros(POINTS), torch.zeros(POINTS), upright], dim=1).repeat(3, 1, 1)
    heights = (augment(clouds, generator(), 2)[..., 2] / 10).round().numpy()
    np.testing.assert_array_equal(np.sort(heights, axis=1), np.tile(np.arange(POINTS), (3, 1)))
    assert len({tuple(row) for row in heights}) == 3


def test_the_batch_itself_is_left_as_it_was() -> None:
    clouds = some_clouds()
    before = clouds.clone()
    augment(clouds, generator(), 2)
    assert torch.equal(clouds, before)


def test_an_epoch_has_the_same_numbers_whatever_came_before() -> None:
    clouds = some_clouds()
    whole, resumed = CloudAugmentation(5, 2), CloudAugmentation(5, 2)
    whole.start_epoch(0)
    first, second = whole(clouds), whole(clouds)
    assert not torch.equal(first, second)
    whole.start_epoch(1)
    third = whole(clouds)
    resumed.start_epoch(1)
    assert torch.equal(resumed(clouds), third)
    assert not torch.equal(third, first)
    other = CloudAugmentation(6, 2)
    other.start_epoch(1)
    assert not torch.equal(other(clouds), third)


@pytest.mark.gpu
def test_a_gpu_augments_where_the_clouds_are() -> None:
    clouds = some_clouds(device="cuda")
    found = augment(clouds, generator(0, "cuda"), 2)
    assert found.is_cuda
    assert torch.equal(found, augment(clouds, generator(0, "cuda"), 2))
    turned = turn(clouds, generator(0, "cuda"), 2)
    assert torch.equal(turned[..., 2], clouds[..., 2])
    torch.testing.assert_close(turned.norm(dim=2), clouds.norm(dim=2))


def cell(
    method: MethodName, engine: Engine, epochs: int = 3, augmentation: Any = "pointnet"
) -> NetworkRun:
    return NetworkRun(
        "shapes40",
        "fp32",
        method,
        FloatSettings(lr=0.01, batch=5),
        epochs,
        0,
        points=POINTS,
        engine=engine,
        augmentation=augmentation,
    )


@pytest.fixture
def few_clouds(monkeypatch: pytest.MonkeyPatch) -> None:
    clouds, labels = some_clouds(12).numpy(), np.arange(12, dtype=np.uint8)
    items = Arrays(clouds, labels, clouds[:4], labels[:4])
    monkeypatch.setattr(build_module, "load", lambda *_, **__: items)


def curves(cell: NetworkRun, directory: Path) -> dict[str, Any]:
    metrics = train_run(TrainingTask(cell, CheckpointStore(directory), {}))
    return {name: metrics[name] for name in ("test_loss", "test_accuracy", "train_loss")}


@pytest.mark.parametrize("by", ["torch", "native"])
@pytest.mark.parametrize("method", ["full_zo", "cls1", "full_bp"])
@pytest.mark.usefixtures("engine", "few_clouds")
def test_a_resumed_augmented_run_equals_an_uninterrupted_one(
    method: MethodName, by: Engine, tmp_path: Path
) -> None:
    long = cell(method, by)
    whole = curves(long, tmp_path / "whole")
    short, store = cell(method, by, epochs=1), CheckpointStore(tmp_path / "parts")
    train_run(TrainingTask(short, store, {}))
    state = store.checkpoint(short).read()
    assert state is not None
    store.checkpoint(long).path.write_bytes(
        state
    )  # as if the long run had been killed after an epoch
    assert store.progress(long).epochs == 1
    assert curves(long, tmp_path / "parts") == whole
    assert curves(long, tmp_path / "again") == whole
    plain = curves(cell(method, by, augmentation="none"), tmp_path / "plain")
    assert plain["test_loss"][0] == whole["test_loss"][0]
    assert plain["test_loss"][-1] != whole["test_loss"][-1]


@pytest.mark.usefixtures("few_clouds")
def test_both_passes_of_a_step_see_the_same_clouds_and_evaluation_the_original(
    tmp_path: Path,
) -> None:
    learner, split = build_module.build(cell("full_zo", "torch"))
    assert isinstance(learner, FloatLearner)
    seen: list[tuple[bool, Tensor]] = []
    learner.model.register_forward_pre_hook(
        lambda model, inputs: seen.append((model.training, inputs[0].clone()))
    )
    data = SplitBatches(split, 5, 0, CloudAugmentation(0, 2))
    duration = Epochs(1, data.steps_per_epoch)
    train(Training(learner, data, duration, Curve.epoch_metrics), Checkpoint(tmp_path / "state.pt"))
    passes = [clouds for training, clouds in seen if training]
    assert len(passes) == 2 * 3  # two passes of three minibatches
    for plus, minus in zip(passes[::2], passes[1::2], strict=True):
        assert torch.equal(plus, minus)
    original = {tuple(row) for row in split.train_inputs.flatten(0, 1).tolist()}
    assert all(tuple(row) not in original for x in passes for row in x.flatten(0, 1).tolist())
    evaluated = [clouds for training, clouds in seen if not training]
    assert all(tuple(row) in original for x in evaluated for row in x.flatten(0, 1).tolist())


@pytest.mark.parametrize("problem", ["mnist", "shrec11"])
def test_what_has_no_vertical_axis_is_not_augmented(problem: str) -> None:
    message = rf"augmentation = 'pointnet' of {problem}: .* vertical axis.*use 'none'"
    with pytest.raises(UsageError, match=message):
        NetworkRun(problem, "fp32", "cls1", FloatSettings(lr=1), 1, 0, augmentation="pointnet")


def test_an_unknown_augmentation_is_refused() -> None:
    with pytest.raises(UsageError, match="augmentation = 'flip': must be one of none, pointnet"):
        cell("cls1", "torch", augmentation="flip")


def test_the_engine_takes_an_augmented_batch(engine: Any) -> None:  # noqa: ARG001 - builds it
    augmentation = CloudAugmentation(0, 2)
    learners = [build_learner(cell("full_bp", by)) for by in ("torch", "native")]
    losses = []
    for learner in learners:
        augmentation.start_epoch(0)
        losses.append(learner.step((augmentation(some_clouds()), torch.arange(6))).loss)
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
