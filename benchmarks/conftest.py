"""Every benchmark carries its environment; memory is never measured in the process that times."""

import statistics
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from repro.measurement import environment
from repro.measurement.timing import Step, in_turns
from repro.ondevice.build import ToolsMissingError, build, load

THREADS = 2

sys.path.insert(0, str(Path(__file__).parent))  # for the steps that benchmarks share


@pytest.fixture(autouse=True)
def _threads_and_environment(benchmark: Any) -> None:
    torch.set_num_threads(min(THREADS, torch.get_num_threads()))
    benchmark.extra_info["environment"] = msgspec.to_builtins(environment.capture())


@pytest.fixture
def timed(benchmark: Any) -> Callable[..., dict[str, list[float]]]:
    """Return a function that times arms in turns, as ``in_turns``, and keeps their medians.

    With ``--benchmark-disable`` each arm does a single step.
    """

    def run(arms: Mapping[str, Step], **given: int) -> dict[str, list[float]]:
        once = {"turns": 1, "steps": 1, "warm_up": 0}
        turns = given if benchmark.enabled else once
        found: dict[str, list[float]] = {}
        benchmark.pedantic(lambda: found.update(in_turns(arms, **turns)), rounds=1)
        benchmark.extra_info["seconds"] = {n: statistics.median(s) for n, s in found.items()}
        return found

    return run


@pytest.fixture(scope="session")
def engine() -> Any:
    """Return the on-device engine, built if it is not there; skip if nothing can build it."""
    try:
        build()
    except ToolsMissingError as error:
        pytest.skip(str(error))
    return load()
