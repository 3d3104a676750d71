"""Every benchmark carries its environment; memory is never measured in the process that times."""

from typing import Any

import msgspec
import pytest
import torch

from repro.measurement import environment

THREADS = 2


@pytest.fixture(autouse=True)
def _threads_and_environment(benchmark: Any) -> None:
    torch.set_num_threads(min(THREADS, torch.get_num_threads()))
    benchmark.extra_info["environment"] = msgspec.to_builtins(environment.capture())
