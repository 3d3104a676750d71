"""The training loop: deterministic, resumable, honest about divergence."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from repro.core import atomic
from repro.core.errors import ReproError, UsageError
from repro.core.names import Precision
from repro.data.batches import batches
from repro.integer.elasticzo_int8 import ElasticZOInt8
from repro.integer.network import IntegerNetwork
from repro.integer.schedule import Schedule
from repro.methods.backprop import Backprop
from repro.methods.elasticzo import ElasticZO
from repro.methods.step_info import DivergedError
from repro.models.lenet5 import lenet5
from repro.training import build as build_module
from repro.training import learners
from repro.training.build import build
from repro.training.checkpoint import Checkpoint
from repro.training.learners import FloatLearner, IntegerLearner
from repro.training.loop import (
    Curve,
    Epochs,
    EqualParts,
    Labelled,
    NetworkLearner,
    Position,
    Training,
    train,
)
from repro.training.run import NOISE, FloatSettings, IntegerSettings, NetworkRun, derived_seed
from repro.training.split import Split, SplitBatches
from repro.training.task import Arrays

CLASSES = 3


def blobs(items: int = 96) -> Split:
    """Three clouds of points, well apart: any method learns them."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(items) % CLASSES
    inputs = torch.randn(items, 4, generator=generator)
    inputs[torch.arange(items), labels] += 4
    half = items // 2
    return Split(inputs[:half], labels[:half], inputs[half:], labels[half:], monitored=slice(16))


def learner(method: str, **changes: Any) -> FloatLearner:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, CLASSES))
    optimizer: Any
    if method in ("sgd", "adam"):
        optimizer = Backprop(model.parameters(), lr=0.1, rule=method)  # type: ignore[arg-type]
    else:
        optimizer = ElasticZO(model, int(method), lr=0.05, eps=1e-2, clip=1.0, seed=5)
    settings = {"prepare": lambda x: x, "decay": 0.8, "decay_every": 2} | changes
    return FloatLearner(model, optimizer, **settings)


def run(method: str, path: Path, epochs: int, **changes: Any) -> tuple[Curve, FloatLearner]:
    made = learner(method, **changes)
    return trained(made, path, epochs, batch=7, seed=3), made


def trained(
    made: NetworkLearner,
    path: Path,
    epochs: int,
    *,
    batch: int = 8,
    seed: int = 0,
    split: Split | None = None,
) -> Curve:
    data = SplitBatches(split or blobs(), batch, seed)
    duration = Epochs(epochs, data.steps_per_epoch)
    return train(Training(made, data, duration, Curve.epoch_metrics), Checkpoint(path))


def without_time(curve: Curve) -> dict[str, Any]:
    return {name: value for name, value in curve.epoch_metrics().items() if name != "seconds"}


@pytest.mark.parametrize("method", ["sgd", "adam", "0", "2", "3"])
def test_resumed_run_equals_an_uninterrupted_one(method: str, tmp_path: Path) -> None:
    whole, uninterrupted = run(method, tmp_path / "whole.pt", epochs=5)
    run(method, tmp_path / "parts.pt", epochs=2)
    run(method, tmp_path / "parts.pt", epochs=3)
    resumed, again = run(method, tmp_path / "parts.pt", epochs=5)
    assert without_time(resumed) == without_time(whole)
    for one, other in zip(uninterrupted.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert whole.epochs == 5
    assert len(whole.accuracy) == 6
    assert whole.accuracy[-1] > whole.accuracy[0]


@pytest.mark.parametrize("step", [0, 1, 3, 4, 6, 11])
def test_a_run_resumes_within_an_epoch_with_the_next_minibatch(step: int) -> None:
    whole, resumed = (SplitBatches(blobs(), 13, seed=3) for _ in range(2))  # the last is smaller
    assert whole.steps_per_epoch == 4
    wanted = [whole.batch(number) for number in range(12)]
    for number in range(step, 12):
        for one, other in zip(resumed.batch(number), wanted[number], strict=True):
            assert torch.equal(one, other)


def test_damaged_checkpoint_is_dropped_and_the_run_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    whole, _ = run("sgd", path, epochs=2)
    path.write_bytes(path.read_bytes()[:100])
    assert without_time(run("sgd", path, epochs=2)[0]) == without_time(whole)


def test_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    run("sgd", tmp_path / "run.pt", epochs=2)
    _, made = run("sgd", tmp_path / "run.pt", epochs=2)
    assert made.optimizer.last is None  # no step was done


def test_learning_rate_falls_as_published() -> None:
    made = learner("2", decay=0.8, decay_every=10)
    rates = []
    for epoch in (0, 9, 10, 19, 20, 99):
        made.start_epoch(epoch)
        rates.append(made.optimizer.param_groups[0]["lr"])
    expected = [0.05 * 0.8**n for n in (0, 0, 1, 1, 2, 9)]
    assert rates == pytest.approx(expected, rel=1e-12)


def test_run_that_diverges_ends_there_and_says_so(tmp_path: Path) -> None:
    def poisoned(inputs: Tensor) -> Tensor:
        return inputs * float("nan") if made.model.training else inputs

    made = learner("3", prepare=poisoned)
    curves = trained(made, tmp_path / "run.pt", epochs=4)
    assert curves.divergence.startswith("epoch 1, minibatch 1: step 1: l+ with perturbation seed ")
    assert curves.epochs == 0
    assert len(curves.accuracy) == 1
    json.dumps(curves.epoch_metrics(), allow_nan=False)


def test_divergence_is_told_with_its_place_and_the_last_g(tmp_path: Path) -> None:
    batches = 0

    def poisoned(inputs: Tensor) -> Tensor:
        nonlocal batches
        batches += made.model.training
        return inputs * float("nan") if batches == 10 else inputs  # blobs() has 6 of 8 an epoch

    made = learner("2", prepare=poisoned)
    path = tmp_path / "run.pt"
    curves = trained(made, path, epochs=4)
    seed = made.optimizer.log.entries[-1].seed
    g = made.optimizer.last.estimates[0].projected_gradient
    assert curves.epochs == 1
    found = re.fullmatch(
        r"epoch 2, minibatch 4: step 10: l\+ with perturbation seed (\d+) = nan "
        r"after g = (\S+): .*",
        curves.divergence,
    )
    assert found is not None
    assert found[1] != str(seed)  # it is that of the step that failed
    assert float(found[2]) == pytest.approx(g, rel=1e-5)
    again = trained(made, path, epochs=4)
    assert again == curves


@pytest.mark.parametrize("method", ["sgd", "3"])
def test_run_that_cannot_be_evaluated_at_its_start_is_a_diverged_one(
    method: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.pt"
    for _ in range(2):  # the second one reads what the first one kept
        curves, _ = run(method, path, epochs=2, prepare=lambda x: x * float("inf"))
        assert curves.epoch_metrics()["diverged"]
        assert curves.divergence.startswith(
            "before the first epoch: the loss of 48 evaluated items"
        )
        assert (curves.accuracy, curves.epochs) == ([], 0)


def test_the_error_does_not_promise_buffers_back() -> None:
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, CLASSES))
    made = FloatLearner(
        model,
        ElasticZO(model, 2, lr=0.1, eps=1e-2),
        prepare=lambda x: x * float("nan"),
        decay=1,
        decay_every=1,
    )
    with pytest.raises(DivergedError, match="running statistics of batch norm, stay changed"):
        made.step(next(batches(*blobs_of_training(), 8)))
    assert model[0].running_mean.isnan().all()  # type: ignore[union-attr,operator]
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def blobs_of_training() -> tuple[Tensor, Tensor]:
    return blobs().train_inputs, blobs().train_labels


@pytest.mark.parametrize("limit", [7, 500])
def test_items_are_evaluated_a_few_at_a_time(limit: int, tmp_path: Path) -> None:
    made, sizes = learner("3"), []
    evaluate = made.evaluate

    def seen(batch: Labelled) -> tuple[float, int]:
        sizes.append(len(batch[1]))
        return evaluate(batch)

    made.evaluate = seen  # type: ignore[method-assign]
    split = replace(blobs(), evaluated_at_once=limit)
    curves = trained(made, tmp_path / "run.pt", 1, seed=3, split=split)
    assert max(sizes) == min(limit, 48)
    with torch.no_grad():
        logits = made.model(split.eval_inputs)
    right = int((logits.argmax(1) == split.eval_labels).sum())
    assert curves.accuracy[-1] == right / 48
    expected = float(nn.functional.cross_entropy(logits, split.eval_labels))
    assert curves.loss[-1] == pytest.approx(expected, rel=1e-5)


def test_clouds_are_evaluated_32_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clouds, labels = np.zeros((3, 1024, 3), np.float32), np.zeros(3, np.uint8)
    images = np.zeros((3, 28, 28), np.uint8)
    for problem, inputs, limit in (("shapes40", clouds, 32), ("mnist", images, 500)):
        items = Arrays(inputs, labels, inputs, labels)
        monkeypatch.setattr(build_module, "load", lambda *_, items=items, **__: items)
        _, split = build(NetworkRun(problem, "fp32", "full_bp", FloatSettings(lr=1), 1, 0))
        assert split.evaluated_at_once == limit


@pytest.mark.parametrize(
    ("precision", "settings", "expected"),
    [
        ("int8", IntegerSettings(), ("float", "plus", "clip", "v2", 15, 1)),
        ("int8_star", IntegerSettings(), ("integer", "plus", "clip", "v2", 15, 1)),
        ("int8_star", IntegerSettings(sign="exact"), ("exact", "plus", "clip", "v2", 15, 1)),
        (
            "int8",
            IntegerSettings(
                activations="minus", restore="exact", shift_policy="v1", r_max=31, b_zo=3
            ),
            ("float", "minus", "exact", "v1", 31, 3),
        ),
    ],
)
def test_choices_of_an_integer_cell_reach_its_method(
    precision: Precision,
    settings: IntegerSettings,
    expected: tuple[str | int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    images, labels = np.zeros((3, 28, 28), np.uint8), np.zeros(3, np.uint8)
    items = Arrays(images, labels, images, labels)
    monkeypatch.setattr(build_module, "load", lambda *_, **__: items)
    made, _ = build(NetworkRun("mnist", precision, "cls1", settings, 1, 0))
    assert isinstance(made, IntegerLearner)
    method = made.method
    policy = method.network.policy.version
    assert (
        method.sign, method.activations, method.restore, policy, method.r_max, method.b_zo
    ) == expected  # fmt: skip


def test_choices_and_seeds_of_a_float_cell_reach_its_method() -> None:
    settings = FloatSettings(lr=0.02, eps=3e-3, clip=0.7, activations="mean")
    made = [
        build_module.build_learner(NetworkRun("mnist", "fp32", "cls1", settings, 1, seed))
        for seed in (0, 1)
    ]
    for seed, learner in enumerate(made):
        assert isinstance(learner, FloatLearner)
        method = learner.optimizer
        assert isinstance(method, ElasticZO)
        assert (method.eps, method.clip, method.activations) == (3e-3, 0.7, "mean")
        assert [group["lr"] for group in method.param_groups] == [0.02]
        assert method.seed == derived_seed(seed, NOISE)
    weights = [learner.model.state_dict()["fc2.weight"] for learner in made]  # type: ignore[attr-defined]
    assert not torch.equal(*weights)


def test_each_seed_has_its_own_order_and_augmentation(monkeypatch: pytest.MonkeyPatch) -> None:
    clouds, labels = np.zeros((8, 4, 3), np.float32), np.arange(8, dtype=np.uint8)
    clouds[:, :, 0] = np.arange(8)[:, None]
    items = Arrays(clouds, labels, clouds, labels)
    monkeypatch.setattr(build_module, "load", lambda *_, **__: items)
    monkeypatch.setattr(build_module, "build_learner", lambda _: SimpleNamespace(counts=dict))
    settings = FloatSettings(lr=1, batch=8)
    seen = []
    for seed in (0, 1, 0):
        run = NetworkRun(
            "shapes40", "fp32", "cls1", settings, 1, seed, points=4, augmentation="pointnet"
        )
        inputs, order = build_module.network_training(run, lambda _: {}).data.batch(0)
        seen.append((order, inputs[order.argsort()]))
    assert torch.equal(seen[0][0], seen[2][0])
    assert torch.equal(seen[0][1], seen[2][1])
    assert not torch.equal(seen[0][0], seen[1][0])
    assert not torch.equal(seen[0][1], seen[1][1])


def test_signs_are_counted_by_the_rules_that_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    method = ElasticZOInt8(IntegerNetwork.random(lenet5(bias=False), seed=0), "fc3")
    learner = IntegerLearner(method, -5, Schedule(1), count_signs=True)
    learner.start_epoch(0)
    for float_, integer, exact in ((1, 1, -1), (1, 0, 1), (-1, 1, 1), (1, 0, -1), (1, -1, 1)):
        given = {"float": float_, "integer": integer, "exact": exact}
        monkeypatch.setattr(
            learners, "compare", lambda rule, *_, given=given: SimpleNamespace(sign=given[rule])
        )
        learner._count_signs(None, None, None)  # type: ignore[arg-type]
    assert learner.counts()["signs"] == [
        {
            "steps": 5,
            "integer_is_float": 1,
            "exact_is_float": 2,
            "integer_is_exact": 1,
            "integer_is_zero": 2,
        }
    ]


@pytest.mark.parametrize("items", [1, 999, 1000, 1001, 9_843])
def test_monitored_clouds_are_spread_over_sets_that_are_sorted_by_class(items: int) -> None:
    labels = np.sort(np.arange(items) % 40)
    some = labels[build_module.evenly(items)]
    assert min(items, 500) <= len(some) <= 1000
    shares = np.bincount(some, minlength=40) / len(some), np.bincount(labels, minlength=40) / items
    assert np.abs(shares[0] - shares[1]).max() < 2 / len(some)


def test_training_loss_is_of_the_monitored_items_at_the_final_weights(tmp_path: Path) -> None:
    curves, made = run("3", tmp_path / "run.pt", epochs=1)
    split = blobs()
    with torch.no_grad():
        logits = made.model(split.train_inputs[:16]).double()
        expected = -torch.log_softmax(logits, 1)[range(16), split.train_labels[:16]].mean()
        right = (made.model(split.eval_inputs).argmax(1) == split.eval_labels).double().mean()
    assert curves.train_loss[-1] == pytest.approx(float(expected), rel=1e-5)
    assert curves.accuracy[-1] == float(right)


def test_resumed_sign_counts_equal_those_of_an_uninterrupted_run(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(-14, 91, (24, 1, 28, 28), generator=generator).to(torch.int8)
    labels = torch.arange(24) % 10
    split = Split(images[:16], labels[:16], images[16:], labels[16:])

    def counted(name: str, epochs: int) -> tuple[Curve, IntegerLearner]:
        network = IntegerNetwork.random(lenet5(bias=False), seed=0)
        method = ElasticZOInt8(network, "fc3", sign="integer")
        made = IntegerLearner(method, -5, Schedule(3), count_signs=True)
        return trained(made, tmp_path / name, epochs, split=split), made

    expected, whole = counted("whole.pt", 3)
    counted("parts.pt", 1)
    curves, resumed = counted("parts.pt", 3)
    assert without_time(curves) == without_time(expected)
    assert resumed.counts() == whole.counts()
    assert [now["steps"] for now in resumed.counts()["signs"]] == [2, 2, 2]
    restores, total = resumed.counts()["restores"], resumed.method.restores
    assert [now["weights"] for now in restores] == [2 * (150 + 2400 + 94_080 + 10_080)] * 3
    assert sum(now["inexact"] for now in restores) == total.inexact > 0
    weights = [made.method.network.parameters for made in (whole, resumed)]
    assert torch.equal(*weights)


@pytest.mark.parametrize(("evaluations", "steps"), [(50, 50), (100, 100), (50, 100), (3, 7)])
def test_equal_parts_of_the_steps_end_where_they_should(evaluations: int, steps: int) -> None:
    duration = EqualParts(evaluations, steps, seconds=0.0)
    curve, due = Curve(steps=[0], seconds=[0.0]), []
    for at in (Position(steps=step) for step in range(1, steps + 1)):
        assert duration.is_over(at) == (at.steps == steps)
        if duration.is_due(at, curve):
            curve.steps.append(at.steps)
            curve.seconds.append(0.0)
            due.append(at.steps)
    assert due == [math.ceil(part * steps / evaluations) for part in range(1, evaluations + 1)]


def test_uses_of_a_seed_are_independent_and_stable() -> None:
    seeds = {derived_seed(seed, use) for seed in range(50) for use in range(3)}
    assert len(seeds) == 150
    assert all(0 <= seed < 2**32 for seed in seeds)
    assert (derived_seed(0, 0), derived_seed(41, 2)) == (2968811710, 634230174)  # as recorded runs


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FloatSettings(lr=0), "lr = 0"),
        (lambda: FloatSettings(lr=1, batch=0), "batch = 0"),
        (lambda: IntegerSettings(r_max=0), "r_max = 0"),
        (lambda: IntegerSettings(r_max=1), "r_max = 1"),
        (lambda: IntegerSettings(r_max=128), "r_max = 128"),
        (lambda: IntegerSettings(b_zo=9), "b_zo = 9"),
        (lambda: IntegerSettings(p_zero=7.0), "p_zero = 7.0"),
        (lambda: IntegerSettings(p_zero=1 - 1e-9), "p_zero = 0.999"),
        (lambda: IntegerSettings(restore="none"), "restore = 'none'"),  # type: ignore[arg-type]
        (lambda: IntegerSettings(shift_policy="v3"),  # type: ignore[arg-type]
         "shift_policy = 'v3'"),
        (lambda: IntegerSettings(activations="mean"),  # type: ignore[arg-type]
         "activations = 'mean'"),
        (lambda: IntegerSettings(sign="floor"), "sign = 'floor'"),  # type: ignore[arg-type]
        (lambda: FloatSettings(lr=1, eps=0), "eps = 0"),
        (lambda: FloatSettings(lr=1, clip=math.inf), "clip = inf"),
        (lambda: FloatSettings(lr=1, activations="both"),  # type: ignore[arg-type]
         "activations = 'both'"),
        (lambda: FloatSettings(lr=1, rule="rmsprop"), "rule = 'rmsprop'"),  # type: ignore[arg-type]
        (lambda: NetworkRun("mnist", "fp32", "cls1", FloatSettings(lr=1), 1, -1), "seed = -1"),
        (lambda: NetworkRun("mnist", "fp32", "cls1", FloatSettings(lr=1, rule="adam"), 1, 0),
         "rule 'adam' with cls1"),
        (lambda: NetworkRun("shapes40", "int8", "cls1", IntegerSettings(), 1, 0),
         "shapes40 in int8"),
        (lambda: NetworkRun("shapes40", "fp32", "cls1", FloatSettings(lr=1), 1, 0, points=1025),
         "points = 1025: the clouds have 1024"),
        (lambda: NetworkRun("mnist", "fp32", "cls1", FloatSettings(lr=1), 1, 0, points=9),
         "points = 9 of mnist"),
        (lambda: NetworkRun("mnist", "fp32", "cls1", FloatSettings(lr=1), 1, 0, train_items=0),
         "train_items = 0"),
        (lambda: NetworkRun("mnist", "fp32", "cls1", FloatSettings(lr=1), 1, 0,
                      start=NetworkRun("mnist", "int8", "full_bp", IntegerSettings(), 1, 0)),
         "cannot start from the weights of mnist int8 full_bp seed 0"),
        (lambda: NetworkRun("mnits", "fp32", "cls1", FloatSettings(lr=1), 1, 0),
         "task = 'mnits'"),
        (lambda: NetworkRun("mnist", "fp32", "cls1", FloatSettings(lr=1), 0, 0), "epochs = 0"),
        (lambda: NetworkRun("mnist", "int8", "cls1", FloatSettings(lr=1), 1, 0),
         "use FloatSettings for fp32 only"),
        (lambda: NetworkRun("mnist", "int8", "cls1", IntegerSettings(sign="exact"), 1, 0),
         "sign in int8 = 'exact': must be one of float"),
        (lambda: NetworkRun("mnist", "int8_star", "cls1", IntegerSettings(sign="float"), 1, 0),
         "sign in int8_star = 'float': must be one of integer, exact"),
        (lambda: NetworkRun("mnist", "fp16", "cls1", FloatSettings(lr=1), 1, 0),  # type: ignore[arg-type]
         "precision = 'fp16'"),
        (lambda: NetworkRun("mnist", "fp32", "cls1", FloatSettings(lr=1), 1, 0, signs=True),
         "signs are not estimated by cls1 in fp32"),
        (lambda: NetworkRun("mnist", "int8", "full_bp", IntegerSettings(), 1, 0, signs=True),
         "signs are not estimated by full_bp in int8"),
    ],
)  # fmt: skip
def test_cells_that_cannot_be_run_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


def test_a_full_disk_is_told_and_the_state_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = Checkpoint(tmp_path / "state.pt")
    checkpoint.save({"epoch": 1})

    def full(_descriptor: int, _mode: str, *, closefd: bool) -> Any:
        assert not closefd  # it is locked until the file has its name
        return Path("/dev/full").open("wb")

    monkeypatch.setattr(atomic.os, "fdopen", full)  # type: ignore[attr-defined]
    with pytest.raises(ReproError, match="No space left on device"):
        checkpoint.save({"epoch": 2, "weights": torch.zeros(1_000_000)})
    assert checkpoint.load() == {"epoch": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["state.pt"]
