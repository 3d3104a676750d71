"""The harness: which profile a run is recorded as."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from repro.artifacts.base import Artifact, Context, Result
from repro.artifacts.index import SLUGS, load
from repro.harness import is_of_profile, run_artifact
from repro.measurement.records import read_run


@dataclass(frozen=True)
class Settings:
    datasets: tuple[str, ...] = ("mnist", "fashion_mnist")
    seeds: tuple[int, ...] = (0, 1, 2)
    epochs: int = 100
    thresholds: tuple[int, ...] = (20, 50)
    device: str = "cpu"
    engine: str = "torch"


def run(config: Settings, context: Context) -> Iterator[Result]:  # noqa: ARG001
    for dataset in config.datasets:
        for seed in config.seeds:
            yield Result("run", {"dataset": dataset}, {"test_accuracy": [0.1, 0.9]}, seed)


PAPER = Settings()
ARTIFACT = Artifact(
    slug="trained",
    paper="elasticzo",
    title="cells",
    run=run,
    profiles={"smoke": replace(PAPER, epochs=1), "quick": replace(PAPER, epochs=5), "paper": PAPER},
    selector_fields=("datasets", "seeds"),
)


@pytest.mark.parametrize(
    ("changes", "profile"),
    [
        ({}, "paper"),
        ({"datasets": ("mnist",), "seeds": (0,)}, "paper"),
        ({"seeds": (2, 0)}, "paper"),
        ({"device": "cuda"}, "paper"),  # elsewhere, but the same experiment
        ({"engine": "native"}, "paper"),  # by other code
        ({"seeds": (0, 3)}, "paper"),  # a further seed of the same runs
        ({"datasets": ("clouds",)}, "custom"),  # a set that the profile does not have
        ({"epochs": 5}, "custom"),  # the quick profile's, but run as paper
        ({"thresholds": (20,)}, "custom"),  # fewer values of a field that selects no runs
        ({"datasets": ("mnist",), "epochs": 99}, "custom"),
    ],
)
def test_a_run_of_some_cells_is_recorded_as_its_profile(
    changes: dict[str, object], profile: str, tmp_path: Path
) -> None:
    config = replace(PAPER, **changes)  # type: ignore[arg-type]
    path = run_artifact(ARTIFACT, "paper", config, tmp_path)
    records = read_run(path)
    assert path.name.startswith(f"{profile}-")
    assert {record.profile for record in records} == {profile}
    assert [record.seed for record in records] == [*config.seeds] * len(config.datasets)


@pytest.mark.parametrize("change", [{"device": "cuda"}, {"engine": "native"}])
def test_where_time_is_the_result_another_device_is_another_run(change: dict[str, str]) -> None:
    timed = replace(ARTIFACT, timed=True)
    assert is_of_profile(timed, "paper", replace(PAPER, seeds=(0,)))
    assert not is_of_profile(timed, "paper", replace(PAPER, **change))  # type: ignore[arg-type]


def test_where_the_engine_is_measured_too_a_run_without_it_is_custom() -> None:
    memory = load("elasticzo_fig5")
    paper = memory.profiles["paper"]
    assert is_of_profile(memory, "paper", paper)
    assert not is_of_profile(memory, "paper", replace(paper, engine=False))  # type: ignore[type-var]


def test_a_stand_in_is_of_the_profile_that_has_what_it_stands_for() -> None:
    table1 = load("elasticzo_table1")
    paper = table1.profiles["paper"]
    assert is_of_profile(table1, "paper", replace(paper, datasets=("shrec11",), seeds=(0,)))  # type: ignore[type-var]
    assert not is_of_profile(
        replace(table1, aliases={}),
        "paper",
        replace(paper, datasets=("shrec11",)),  # type: ignore[type-var]
    )


def test_minutes_on_a_gpu_are_not_minutes_on_two_cores() -> None:
    fig4 = load("mezo_fig4")
    assert is_of_profile(fig4, "quick", fig4.profiles["quick"])
    assert not is_of_profile(fig4, "quick", replace(fig4.profiles["quick"], device="cuda"))  # type: ignore[type-var]


def test_without_a_scope_a_run_of_fewer_cells_is_custom(tmp_path: Path) -> None:
    config = replace(PAPER, seeds=(0,))
    path = run_artifact(replace(ARTIFACT, selector_fields=()), "paper", config, tmp_path)
    assert path.name.startswith("custom-")


def test_no_quick_profile_needs_a_gpu() -> None:
    for slug in SLUGS:
        assert getattr(load(slug).profiles["quick"], "device", "cpu") == "cpu", slug
