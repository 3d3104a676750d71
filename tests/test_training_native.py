"""Cells trained by the on-device engine: in integers the same as PyTorch's, in float32 others."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from repro.core.errors import UsageError
from repro.core.names import MethodName, Precision
from repro.integer.elasticzo_int8 import ElasticZOInt8
from repro.ondevice.integer import NativeElasticZOInt8
from repro.training import run as run_module
from repro.training.build import build_learner
from repro.training.learners import NativeLearner
from repro.training.run import FloatSettings, IntegerSettings, NetworkRun
from repro.training.store import CheckpointStore
from repro.training.trainer import TrainingTask, train_run

pytestmark = pytest.mark.usefixtures("engine", "made_up_mnist")

RATES = FloatSettings(lr=0.02, batch=12, decay_every=1)
EVALUATED = ("test_loss", "test_accuracy", "train_loss", "restores", "diverged")


def integers(
    method: MethodName = "cls1", precision: Precision = "int8", **changes: Any
) -> NetworkRun:
    return NetworkRun("mnist", precision, method, IntegerSettings(batch=12), 3, 0, **changes)


def floats(method: MethodName = "cls1", **changes: Any) -> NetworkRun:
    return NetworkRun("mnist", "fp32", method, RATES, 3, 0, **changes)


def run(cell: NetworkRun, directory: Path) -> dict[str, Any]:
    return train_run(
        TrainingTask(cell, CheckpointStore(directory), {"commit": "b" * 40, "dirty": True})
    )


def state(cell: NetworkRun, directory: Path) -> dict[str, Any]:
    loaded = CheckpointStore(directory).checkpoint(cell).load()
    assert loaded is not None
    return loaded


def native(cell: NetworkRun) -> NetworkRun:
    return replace(cell, engine="native")


@pytest.mark.parametrize(
    "cell",
    [
        integers("full_zo"),
        integers("full_zo", "int8_star"),
        integers("cls2", "int8_star"),
        integers("cls1"),
        integers("full_bp"),
        replace(integers("cls1"), settings=IntegerSettings(activations="minus", restore="exact")),
        replace(integers("full_zo", "int8_star"), settings=IntegerSettings(r_max=7, p_zero=0.33)),
        integers("cls1", start=integers("full_bp")),
        replace(integers("cls1", start=integers("full_bp")), seed=5),
        integers("full_zo", "int8_star", signs=True),
        integers("cls1", "int8_star", signs=True, start=integers("full_bp")),
    ],
    ids=lambda cell: cell.label(),
)
def test_an_integer_cell_is_the_same_by_both_engines(cell: NetworkRun, tmp_path: Path) -> None:
    by_torch = run(cell, tmp_path / "torch")
    by_engine = run(native(cell), tmp_path / "native")
    assert by_torch["trained"]["engine"] == "torch"
    assert by_engine["trained"]["engine"] == "native"
    for name in by_torch.keys() - {"seconds", "trained"}:
        assert by_engine[name] == by_torch[name], name
    states = state(cell, tmp_path / "torch"), state(native(cell), tmp_path / "native")
    weights = [found["learner"].pop("network") for found in states]
    assert torch.equal(weights[0]["parameters"], weights[1]["parameters"])
    assert weights[0]["exponents"] == weights[1]["exponents"]
    assert states[0]["learner"] == states[1]["learner"]
    assert states[0]["at"]["steps"] == states[1]["at"]["steps"]


@pytest.mark.parametrize("method", ["full_zo", "cls1"])
def test_counting_signs_changes_no_weight_of_the_engine(method: MethodName, tmp_path: Path) -> None:
    cell = native(replace(integers(method, "int8_star"), epochs=8))
    alone, watched = run(cell, tmp_path), run(replace(cell, signs=True), tmp_path)
    signs = watched.pop("signs")
    for name in EVALUATED:
        assert watched[name] == alone[name], name
    assert [epoch["steps"] for epoch in signs] == [3] * 8  # of 32 images, 12 at a time
    assert sum(epoch["integer_is_zero"] for epoch in signs) > 0  # ties, too


@pytest.mark.parametrize("trainer", ["torch", "native"])
@pytest.mark.parametrize("method", ["full_zo", "full_bp"])
def test_a_float_run_is_the_beginning_of_a_longer_one(
    method: MethodName, trainer: Any, tmp_path: Path
) -> None:
    """So an accuracy of the paper can be compared at a number of epochs that it may have used."""
    short = replace(floats(method), engine=trainer, epochs=11)  # past the decay at epoch 10
    parts = run(short, tmp_path / "parts")
    whole = run(replace(short, epochs=13), tmp_path / "whole")
    for name in ("test_accuracy", "test_loss", "train_loss"):
        assert len(whole[name]) == len(parts[name]) + 2
        assert whole[name][: len(parts[name])] == parts[name], name


@pytest.mark.parametrize("first", ["torch", "native"])
def test_no_engine_takes_over_the_integer_runs_of_the_other(first: Any, tmp_path: Path) -> None:
    """Both give the same bits, unless one is faulty."""
    cell = integers(start=integers("full_bp"))
    second = "native" if first == "torch" else "torch"
    found = [run(replace(cell, engine=engine), tmp_path) for engine in (first, second)]
    assert [one["trained"]["engine"] for one in found] == [first, second]
    for name in EVALUATED:
        assert found[0][name] == found[1][name], name


@pytest.mark.parametrize("first", ["torch", "native"])
def test_an_integer_cell_that_was_stopped_goes_on_by_the_other_engine(
    first: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run(integers(), tmp_path / "whole")
    for engine in (first, "native" if first == "torch" else "torch"):
        kind = NativeElasticZOInt8 if engine == "native" else ElasticZOInt8
        step, left = kind.step, iter(range(4))

        def stopped(self: Any, *batch: Any, step: Any = step, left: Any = left) -> Any:
            if next(left, None) is None:
                raise KeyboardInterrupt
            return step(self, *batch)

        with monkeypatch.context() as patch:  # in the second epoch, then in the third
            patch.setattr(kind, "step", stopped)
            with pytest.raises(KeyboardInterrupt):
                run(replace(integers(), engine=engine), tmp_path / "parts")
    found = run(replace(integers(), engine=first), tmp_path / "parts")
    assert found["trained"]["engine"] == first
    for name in EVALUATED:
        assert found[name] == expected[name]


def test_a_float_cell_goes_on_where_it_was_and_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = native(floats())
    expected = run(cell, tmp_path / "whole")
    assert expected["trained"]["engine"] == "native"
    by_torch = run(floats(), tmp_path / "whole")
    assert by_torch["test_loss"][0] == pytest.approx(expected["test_loss"][0], abs=1e-6)
    assert by_torch["test_loss"][1:] != pytest.approx(expected["test_loss"][1:], abs=1e-6)
    steps = []
    step = NativeLearner.step

    def killed(self: NativeLearner, batch: Any) -> Any:
        steps.append(None)
        if len(steps) == 5:  # in the second epoch
            raise KeyboardInterrupt
        return step(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(NativeLearner, "step", killed)
        with pytest.raises(KeyboardInterrupt):
            run(cell, tmp_path / "parts")
    found = run(cell, tmp_path / "parts")
    for name in EVALUATED[:3]:
        assert found[name] == expected[name]


def test_float_cells_descend_alike_by_both_engines(tmp_path: Path) -> None:
    """Full BP has no noise: what is left is roundings."""
    by_torch, by_engine = (
        run(cell, tmp_path) for cell in (floats("full_bp"), native(floats("full_bp")))
    )
    for name in ("test_loss", "train_loss"):
        assert by_engine[name] == pytest.approx(by_torch[name], abs=1e-5)
    assert by_engine["test_accuracy"] == by_torch["test_accuracy"]


def test_fine_tuning_by_the_engine_begins_with_weights_that_adam_has_made(tmp_path: Path) -> None:
    adam = replace(floats("full_bp"), settings=FloatSettings(lr=1e-3, rule="adam", batch=12))
    before = run(adam, tmp_path)
    tuned = run(native(replace(floats(), seed=3, start=adam)), tmp_path)
    assert tuned["test_loss"][0] == pytest.approx(before["test_loss"][-1], abs=1e-6)
    assert tuned["test_loss"][1] != tuned["test_loss"][0]


def test_a_run_that_diverges_is_marked_by_the_engine(tmp_path: Path) -> None:
    wild = native(replace(floats("full_bp"), settings=FloatSettings(lr=1e30, batch=12)))
    found = run(wild, tmp_path)
    assert found["diverged"]
    assert "epoch 1, " in found["divergence"]


def test_learning_rate_falls_in_the_engine() -> None:
    learner: Any = build_learner(native(floats()))
    for epoch, lr in enumerate((0.02, 0.016, 0.0128)):
        learner.start_epoch(epoch)
        assert learner.optimizer.param_groups[0]["lr"] == pytest.approx(lr)


@pytest.mark.parametrize("trainer", ["torch", "native"])
def test_frozen_batch_norm_keeps_the_initial_statistics(trainer: Any) -> None:
    settings = replace(RATES, batch_norm="frozen", initial_weights="he")
    cell = NetworkRun("shapes40", "fp32", "cls1", settings, 1, 0, points=16, engine=trainer)
    learner: Any = build_learner(cell)
    clouds = torch.randn(6, 16, 3, generator=torch.Generator().manual_seed(0))
    before = {name: value.clone() for name, value in learner.model.state_dict().items()}
    for _ in range(2):
        learner.step((clouds, torch.arange(6)))
        learner.evaluate((clouds, torch.arange(6)))
    for name, value in learner.model.state_dict().items():
        is_statistic = "running" in name or "tracked" in name
        assert torch.equal(value, before[name]) == is_statistic, name


def test_he_weights_have_the_published_deviation() -> None:
    cell = NetworkRun("shapes40", "fp32", "full_bp", replace(RATES, initial_weights="he"), 1, 0)
    model = build_learner(cell).model  # type: ignore[attr-defined]
    layers = {name: module for name, module in model.named_children() if name.startswith("fc")}
    assert len(layers) == 8
    for name, layer in layers.items():
        assert not layer.bias.any(), name
        weights = layer.weight.detach().double()
        expected = (2 / layer.in_features) ** 0.5
        # five standard errors of a normal sample's deviation, about expected / sqrt(2 n)
        within = 5 * expected / (2 * weights.numel()) ** 0.5
        assert weights.square().mean().sqrt() == pytest.approx(expected, abs=within), name


def test_the_key_of_a_cell_has_the_engine_that_trains_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = CheckpointStore(tmp_path).checkpoint
    assert key(native(integers())) != key(integers())
    assert key(native(floats())) != key(floats())
    started = floats(start=floats("full_bp"))
    assert key(replace(started, start=native(floats("full_bp")))) != key(started)
    by_torch = asdict(started)
    for part in (by_torch, by_torch["start"]):
        del part["engine"], part["augmentation"]
        del part["settings"]["batch_norm"], part["settings"]["initial_weights"]
        part["problem"] = part.pop("task")
    assert started.as_dict() == by_torch  # as before there were these settings
    frozen = replace(floats(), settings=replace(RATES, batch_norm="frozen", initial_weights="he"))
    settings = frozen.as_dict()["settings"]
    assert (settings["batch_norm"], settings["initial_weights"]) == ("frozen", "he")
    assert key(frozen) != key(floats())
    cells = [floats(), native(floats()), native(integers())]
    before = [key(cell) for cell in cells]
    monkeypatch.setattr(run_module, "module_path", lambda: Path("other sources") / "_engine.so")
    after = [key(cell) for cell in cells]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False, False]


@pytest.mark.parametrize("method", ["full_zo", "cls1", "full_bp"])
def test_pointnet_is_trained_with_its_running_statistics(method: MethodName) -> None:
    cell = NetworkRun("shapes40", "fp32", method, RATES, 1, 0, points=16)
    learners = [build_learner(cell), build_learner(native(cell))]
    generator = torch.Generator().manual_seed(0)
    clouds = torch.randn(12, 16, 3, generator=generator)
    for learner in learners:
        for _ in range(3):
            learner.step((clouds, torch.arange(12)))
        loss, _ = learner.evaluate((clouds, torch.arange(12)))
        assert loss == pytest.approx(12 * 3.7, rel=0.3)  # ln 40 and a little
    states = [learner.state_dict()["model"] for learner in learners]
    assert states[0].keys() == states[1].keys()
    start = build_learner(cell).state_dict()["model"]
    for name, value in states[0].items():
        found = states[1][name]
        if method == "full_bp":
            near = 1e-4
        else:  # the noise is another
            near = 0.2
            assert torch.equal(found, start[name]) == torch.equal(value, start[name]), name
        torch.testing.assert_close(found.double(), value.double(), rtol=near, atol=near)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda **native: floats(device="cuda", **native), "on the host, not on cuda"),
        (
            lambda **native: replace(
                floats("full_bp", **native), settings=FloatSettings(lr=1e-3, rule="adam")
            ),
            "no Adam",
        ),
        (
            lambda **native: NetworkRun(
                "mnist", "int8", "cls1", IntegerSettings(shift_policy="v1"), 1, 0, **native
            ),
            "no shift policy v1",
        ),
        (
            lambda **native: NetworkRun(
                "mnist", "int8_star", "cls1", IntegerSettings(sign="exact"), 1, 0, **native
            ),
            "no rule 'exact'",
        ),
    ],
)
def test_cells_that_the_engine_cannot_train_are_refused_with_the_way_out(
    make: Callable[..., NetworkRun], reason: str
) -> None:
    assert reason in make().why_not_native()  # PyTorch trains it
    with pytest.raises(UsageError, match=f"seed 0 on the on-device engine: .*{reason}.*--engine"):
        make(engine="native")


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(UsageError, match="engine = 'jax': must be one of torch, native"):
        floats(engine="jax")
