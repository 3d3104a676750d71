"""What the search chose is what the tables use."""

from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes

from repro.artifacts.elasticzo_search import figures
from repro.artifacts.elasticzo_search.selection import best, grids, group_of
from repro.artifacts.shared.training_runs import point_of
from repro.core.errors import ReproError
from repro.measurement.records import read_runs
from repro.report.runs import current_runs
from repro.training.hyperparameters import TUNED, family
from repro.training.run import FloatSettings, NetworkRun
from repro.training.task import VISION_TASKS

RESULTS = Path(__file__).parents[1] / "results"


def test_chosen_hyperparameters_are_the_best_of_the_committed_search() -> None:
    every = best(read_runs(current_runs(RESULTS, "elasticzo_search")))
    found = {group: values for group, values in every.items() if group[1] != "int8_star"}
    chosen = {
        (family, precision, method): settings
        for (family, precision), methods in TUNED.items()
        for method, settings in methods.items()
        # NITI from random weights has nothing to search
        if (precision, method) != ("int8", "full_bp") or family.startswith("rotated")
    }
    assert chosen.keys() == found.keys()
    for group, searched in found.items():
        used = {name: getattr(chosen[group], name) for name in searched}
        assert used == searched, group


@pytest.mark.parametrize("task", VISION_TASKS)
def test_a_task_is_trained_by_what_its_own_records_chose(task: str) -> None:
    """The group of a record of the task, as the search writes it, is the task's family."""
    run = NetworkRun(task, "fp32", "cls1", FloatSettings(lr=0.1), 1, 0)
    record: Any = Made(0, 0.5, lr=0.1)
    record.point = point_of(run)
    assert group_of(record)[0] == family(task)


class Made:
    """A record's point and metrics, all that the selection reads."""

    def __init__(
        self, seed: int, accuracy: float, *, diverged: bool = False, epochs: int = 4, **point: Any
    ) -> None:
        self.point = {"dataset": "mnist", "precision": "fp32", "method": "cls1", "clip": 0.1}
        self.point |= {"eps": 0.01} | point
        self.seed = seed
        settings = {"problem": str(point.get("angle")), "epochs": epochs}
        settings |= {name: self.point[name] for name in ("lr", "clip", "eps")}
        self.metrics = {
            "test_accuracy": [0.1, accuracy],
            "diverged": diverged,
            "settings": settings,
        }


def test_best_is_by_the_mean_over_seeds_and_angles() -> None:
    records: Any = [
        Made(0, 0.9, lr=1.0),
        Made(1, 0.5, lr=1.0),
        Made(0, 0.8, lr=2.0),
        Made(1, 0.7, lr=2.0),
        Made(0, 0.6, lr=1.0, angle=30),
        Made(0, 0.2, lr=1.0, angle=45),
        Made(0, 0.3, lr=2.0, angle=30),
        Made(0, 0.4, lr=2.0, angle=45),
    ]
    assert best(records) == {
        ("mnist", "fp32", "cls1"): {"lr": 2.0, "clip": 0.1, "eps": 0.01},
        ("rotated_mnist", "fp32", "cls1"): {"lr": 1.0, "clip": 0.1, "eps": 0.01},
    }
    means = grids(records)["mnist", "fp32", "cls1"]
    assert sorted(means.values()) == pytest.approx([0.7, 0.75])


def test_run_that_diverged_counts_as_nothing_learnt() -> None:
    records: Any = [Made(0, 0.95, diverged=True, lr=1.0), Made(0, 0.2, lr=2.0)]
    assert best(records)["mnist", "fp32", "cls1"]["lr"] == 2.0


def test_runs_that_differ_in_more_than_was_searched_for_are_refused() -> None:
    records: Any = [Made(0, 0.9, lr=1.0), Made(0, 0.8, lr=2.0), Made(1, 0.8, lr=2.0)]
    records[0].metrics["settings"]["batch"] = 64
    with pytest.raises(ReproError, match=r"mnist fp32 cls1 holds runs with batch = 64 and None"):
        best(records)
    assert best(records[1:])["mnist", "fp32", "cls1"]["lr"] == 2.0


def test_of_two_engines_the_one_with_more_runs_counts() -> None:
    records: Any = [Made(0, 0.9, lr=1.0), Made(0, 0.8, lr=2.0), Made(0, 0.95, lr=4.0)]
    records[2].metrics["settings"]["engine"] = "native"
    found = grids(records)["mnist", "fp32", "cls1"]
    assert sorted(found.values()) == pytest.approx([0.8, 0.9])


def test_a_longer_search_takes_the_place_of_a_shorter_one_whatever_that_found() -> None:
    records: Any = [
        Made(0, 0.9, lr=1.0),
        Made(0, 0.6, lr=1.0, epochs=20),
        Made(0, 0.7, lr=2.0, epochs=20),
        Made(0, 0.95, lr=4.0),
        Made(0, 0.5, lr=1.0, method="full_zo"),
    ]
    found = grids(records)
    assert found["mnist", "fp32", "cls1"].keys() == {
        (("lr", lr), ("clip", 0.1), ("eps", 0.01)) for lr in (1.0, 2.0)
    }
    assert best(records)["mnist", "fp32", "cls1"]["lr"] == 2.0
    assert best(records)["mnist", "fp32", "full_zo"]["lr"] == 1.0


def test_records_of_a_search_for_fewer_hyperparameters_are_left_out() -> None:
    smaller: Any = Made(0, 0.99, lr=1.0, epochs=3)
    del smaller.point["eps"]
    found = grids([smaller, Made(0, 0.8, lr=2.0)])
    assert [dict(point)["lr"] for point in found["mnist", "fp32", "cls1"]] == [2.0]


def marked(panel: Axes) -> dict[float, str]:
    """Return the markers round what was chosen, by the accuracies they stand at."""
    return {
        float(line.get_ydata()[0]): str(line.get_marker())
        for line in panel.lines
        if line.get_markersize() == 12
    }


GRID: list[Any] = [
    Made(0, 0.80, lr=0.01),
    Made(0, 0.90, lr=0.02),
    Made(0, 0.85, lr=0.04),
    Made(0, 0.88, lr=0.02, eps=0.03),
    Made(0, 0.92, lr=0.02, eps=0.001),
]


def test_the_choice_is_marked_and_told_apart_at_the_edge_of_what_was_tried() -> None:
    (panel,) = (figure := figures.grid(GRID)).axes
    assert marked(panel) == {90: "o"}  # of the grid, whatever its epsilon
    assert panel.get_title(loc="left") == "MNIST, FP32"
    assert {"the best", "the best, at the\nedge of the grid"} <= {
        text.get_text() for text in figure.legends[0].texts
    }
    (panel,) = (figure := figures.grid(GRID[:2])).axes
    assert marked(panel) == {90: "s"}


def test_every_epsilon_is_labelled_and_the_chosen_marked() -> None:
    (panel,) = figures.epsilon(GRID).axes
    assert marked(panel) == {92: "s"}
    assert best(GRID)["mnist", "fp32", "cls1"]["eps"] == 0.001
    assert [label.get_text() for label in panel.get_xticklabels()] == ["0.001", "0.01", "0.03"]
