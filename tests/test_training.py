"""The training loop: deterministic, resumable, honest about divergence."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repro.core.errors import UsageError
from repro.methods.backprop import Backprop
from repro.methods.elasticzo import ElasticZO
from repro.training.cell import Cell, FloatSettings, IntegerSettings
from repro.training.checkpoint import Checkpoint
from repro.training.float_learner import FloatLearner
from repro.training.loop import Curves, Split, train
from repro.training.seeds import derived_seed

CLASSES = 3


def blobs(items: int = 96) -> Split:
    """Three clouds of points, well apart: any method learns them."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(items) % CLASSES
    inputs = torch.randn(items, 4, generator=generator)
    inputs[torch.arange(items), labels] += 4
    half = items // 2
    return Split(inputs[:half], labels[:half], inputs[half:], labels[half:], monitored=16)


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


def run(method: str, path: Path, epochs: int, **changes: Any) -> tuple[Curves, FloatLearner]:
    made = learner(method, **changes)
    curves = train(made, blobs(), epochs=epochs, batch=7, seed=3, checkpoint=Checkpoint(path))
    return curves, made


def without_time(curves: Curves) -> dict[str, Any]:
    return {name: value for name, value in curves.as_metrics().items() if name != "seconds"}


@pytest.mark.parametrize("method", ["sgd", "adam", "0", "2", "3"])
def test_resumed_run_equals_an_uninterrupted_one(method: str, tmp_path: Path) -> None:
    whole, trained = run(method, tmp_path / "whole.pt", epochs=5)
    run(method, tmp_path / "parts.pt", epochs=2)
    run(method, tmp_path / "parts.pt", epochs=3)
    resumed, again = run(method, tmp_path / "parts.pt", epochs=5)
    assert without_time(resumed) == without_time(whole)
    for one, other in zip(trained.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)
    assert whole.epochs == 5
    assert len(whole.test_accuracy) == 6
    assert whole.test_accuracy[-1] > whole.test_accuracy[0]


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
    curves = train(
        made, blobs(), epochs=4, batch=8, seed=0, checkpoint=Checkpoint(tmp_path / "run.pt")
    )
    assert curves.diverged
    assert curves.epochs == 0
    assert len(curves.test_accuracy) == 1
    json.dumps(curves.as_metrics(), allow_nan=False)


def test_training_loss_is_of_the_monitored_items_at_the_final_weights(tmp_path: Path) -> None:
    curves, made = run("3", tmp_path / "run.pt", epochs=1)
    split = blobs()
    with torch.no_grad():
        logits = made.model(split.train_inputs[:16]).double()
        expected = -torch.log_softmax(logits, 1)[range(16), split.train_labels[:16]].mean()
        right = (made.model(split.eval_inputs).argmax(1) == split.eval_labels).double().mean()
    assert curves.train_loss[-1] == pytest.approx(float(expected), rel=1e-5)
    assert curves.test_accuracy[-1] == float(right)


SCRIPT = """
import json, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
import test_training as t
path, epochs = Path(sys.argv[1]), int(sys.argv[2])
curves, _ = t.run("2", path, epochs)
print(json.dumps(t.without_time(curves)))
"""


@pytest.mark.slow
def test_run_killed_at_any_moment_goes_on(tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parent)))
    start: Callable[[Path], list[str]] = lambda path: [  # noqa: E731
        sys.executable, str(script), str(path), "40"
    ]  # fmt: skip
    whole = subprocess.run(
        start(tmp_path / "whole.pt"), check=True, capture_output=True, text=True
    ).stdout
    path = tmp_path / "killed.pt"
    with subprocess.Popen(start(path), stdout=subprocess.DEVNULL) as process:
        while not path.exists():
            time.sleep(0.001)
        time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    state = Checkpoint(path).load()
    assert state is not None
    assert 0 < Curves(**state["curves"]).epochs < 40
    resumed = subprocess.run(start(path), check=True, capture_output=True, text=True).stdout
    assert json.loads(resumed) == json.loads(whole)


def test_uses_of_a_seed_are_independent_and_stable() -> None:
    seeds = {derived_seed(seed, use) for seed in range(50) for use in range(3)}
    assert len(seeds) == 150
    assert all(0 <= seed < 2**32 for seed in seeds)
    assert derived_seed(0, 0) == derived_seed(0, 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FloatSettings(lr=0), "learning rate lr = 0"),
        (lambda: FloatSettings(lr=1, batch=0), "batch size B = 0"),
        (lambda: IntegerSettings(r_max=0), "r_max = 0"),
        (lambda: Cell("mnits", "fp32", "cls1", FloatSettings(lr=1), 1, 0), "problem = 'mnits'"),
        (lambda: Cell("mnist", "fp32", "cls1", FloatSettings(lr=1), 0, 0), "epochs = 0"),
        (lambda: Cell("mnist", "int8", "cls1", FloatSettings(lr=1), 1, 0), "does not go with"),
        (lambda: Cell("mnist", "fp16", "cls1", FloatSettings(lr=1), 1, 0),  # type: ignore[arg-type]
         "precision = 'fp16'"),
    ],
)  # fmt: skip
def test_cells_that_cannot_be_run_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()
