"""What the other answers change: pairs of runs, their differences, and what the pages quote."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from made_up import made
from repro.artifacts import elasticzo_int8_ablation as choices
from repro.artifacts.elasticzo_int8_ablation import (
    DEFAULTS,
    effects,
    restored,
    shares,
)
from repro.core.errors import ReproError
from repro.measurement.records import Record

ROOT = Path(__file__).parents[1]


def run(
    accuracy: Sequence[float], *, seed: int = 0, method: str = "full_zo", epochs: int = 2,
    restores: Sequence[tuple[int, int]] = (), dataset: str = "mnist", **answer: Any,
) -> Record:  # fmt: skip
    point = {"dataset": dataset, "method": method, **DEFAULTS, **answer}
    metrics = {
        "test_accuracy": [0.1, *accuracy],
        "diverged": False,
        "restores": [{"inexact": n, "weights": total} for n, total in restores],
        "settings": {"epochs": epochs, "r_max": 15, **answer},
    }
    return made(point, metrics, profile="quick", seed=seed)


V1 = {"shift_policy": "v1"}
EXACT = {"restore": "exact"}


def test_difference_is_taken_seed_by_seed_and_epoch_by_epoch() -> None:
    records = [
        run([0.50, 0.60]),
        run([0.40, 0.70], seed=1),
        run([0.90, 0.90], seed=2),  # has no counterpart
        run([0.52, 0.61], **V1),
        run([0.48, 0.68], seed=1, **V1),
        run([0.10, 0.10], method="cls1", **V1),
    ]
    (effect,) = effects(records)
    (other,) = effect.others
    assert (effect.axis.name, other.value) == ("shift policy", "v1")
    assert effect.gain_by_epoch(other) == pytest.approx([(2 + 8) / 2, (1 - 2) / 2])
    last = effect.gain(other)  # of +1 and -2: mean -0.5, standard error 1.5, t(1) = 12.706
    assert (last.mean, last.n_seeds) == (pytest.approx(-0.5), 2)
    assert last.interval == pytest.approx(12.706 * 1.5, rel=1e-4)
    (row,) = choices.accuracy_table(records).to_dict("records")
    assert (row["default (%)"], row["other (%)"]) == ("v2 73.33", "v1 64.50")
    assert (row["difference (points)"], row["lowest, highest"]) == ("-0.50 ± 19.06", "-0.50, +5.00")


def test_every_answer_is_held_against_the_default_of_its_own_method_and_set() -> None:
    integer, exact = {"precision": "int8_star"}, {"precision": "int8_star", "sign": "exact"}
    records = [
        run([0.3, 0.5]),
        run([0.2, 0.3], **integer),
        run([0.2, 0.4], **exact),
        run([0.7, 0.8], method="cls1"),
        run([0.7, 0.9], method="cls1", activations="minus"),
        run([0.1, 0.2], dataset="fashion_mnist"),
        run([0.1, 0.1], dataset="fashion_mnist", **EXACT),
    ]
    found = [
        (e.row["dataset"], e.row["method"], other.value, e.gain_by_epoch(other)[-1])
        for e in effects(records)
        for other in e.others
    ]
    assert found == [
        ("mnist", "cls1", "minus", pytest.approx(10)),
        ("mnist", "full_zo", "integer", pytest.approx(-20)),
        ("mnist", "full_zo", "exact", pytest.approx(-10)),
        ("fashion_mnist", "full_zo", "exact", pytest.approx(-10)),
    ]


def test_runs_that_differ_in_more_than_the_answer_are_not_compared() -> None:
    records = [run([0.3, 0.5]), run([0.3], epochs=1, **V1)]
    with pytest.raises(ReproError, match="with epochs = 2 by the defaults and 1 with shift_policy"):
        effects(records)


RESTORES = [
    run([0.3, 0.5], restores=[(1, 100), (0, 300)]),
    run([0.3, 0.5], restores=[(3, 100), (4, 300)], seed=1),
    run([0.3, 0.5], restores=[(20, 100), (10, 100)], **EXACT),
    run([0.3, 0.5], restores=[(9, 10), (9, 10)], method="cls1", **V1),
]


def test_share_of_clipped_weights_is_of_all_weights_perturbed() -> None:
    by_answer = dict(restored(RESTORES))
    assert list(by_answer) == ["clip", "exact"]
    by_epoch, whole = shares(by_answer["clip"])
    assert by_epoch == pytest.approx([100 * 4 / 200, 100 * 4 / 600])
    assert whole == pytest.approx(1.0)
    table = choices.clipped_weights_table(RESTORES)
    assert list(table["first epoch (%)"]) == ["2.000", "20.000"]
    assert list(table["last epoch (%)"]) == ["0.667", "10.000"]
    assert list(table["all epochs (%)"]) == ["1.000", "15.000"]


def test_figures_draw_the_records() -> None:
    figure = choices.draw_accuracy(RESTORES)
    (panel,) = figure.axes
    assert list(panel.lines[0].get_ydata()) == pytest.approx([30, 50])
    assert list(panel.lines[0].get_xdata()) == [1, 2]
    assert [text.get_text() for text in panel.get_legend().texts] == ["clip (default)", "exact"]
    assert panel.get_title(loc="left") == "MNIST, Full ZO\nrestore (quick)"
    figure = choices.draw_restores(RESTORES)
    (panel,) = figure.axes
    assert [next(iter(line.get_ydata())) for line in panel.lines] == pytest.approx([2.0, 20.0])
