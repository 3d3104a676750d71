"""Shared fixtures: every test has a cache directory of its own, and Ctrl-C means Ctrl-C."""

import gc
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from hypothesis import HealthCheck, settings

from made_up import write_mnist
from repro.ondevice.build import ToolsMissingError, build, load

if TYPE_CHECKING:
    from repro.report.claims_table import ClaimRow

# the machine may do much else
settings.register_profile("repro", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repro")


@pytest.fixture(scope="module", autouse=True)
def _frozen() -> None:
    """Leave what earlier tests imported and kept out of garbage collection.

    A measurement of memory collects garbage often, which takes longer with each module in use.
    """
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests marked ``gpu`` where there is none."""
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def pytest_sessionfinish() -> None:
    """Let Python free everything at its end; some libraries report what is left."""
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def _one_fork_server() -> Iterator[None]:
    """The fork server of all tests in a process imports at once what any of them measures."""
    from repro.measurement import isolation

    measured = ("repro.finetuning.fine_tune", "repro.memory.measured", "repro.training.trainer")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(isolation, "COSTLY", [*isolation.COSTLY, *measured])
        yield


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def _interrupts() -> Iterator[None]:
    """A shell's background job starts with SIGINT ignored, and Python leaves it so."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _left_as_found() -> Iterator[None]:
    """The number of threads is as before, and no figure is open."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close("all")


@pytest.fixture(scope="session")
def ledger() -> "list[ClaimRow]":
    """All statements, judged from the committed records."""
    from repro.report.claims_table import claim_rows

    return claim_rows(Path(__file__).parents[1] / "results")


@pytest.fixture
def one_thread() -> None:
    """PyTorch computes on one thread, so that equal arithmetic gives equal bits."""
    torch.set_num_threads(1)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Isolated tasks are done in this process, which has the made-up data set."""
    from repro.artifacts.shared import subprocesses

    def run(function: Any, tasks: Sequence[Any], **_: Any) -> Iterator[Any]:
        return ((task, function(task)) for task in tasks)

    monkeypatch.setattr(subprocesses, "run_isolated", run)


@pytest.fixture
def made_up_mnist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MNIST in the cache is 32 + 16 images, each class a bar in another place."""
    write_mnist(tmp_path / "data")
    monkeypatch.setenv("REPRO_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture
def kept_prompts(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The generated prompts and their tokens are kept from test to test."""
    kept = tmp_path_factory.getbasetemp() / "kept_prompts"
    (tmp_path / "cache").mkdir()
    for name in ("data", "tokens"):
        (kept / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "cache" / name).symlink_to(kept / name)


@pytest.fixture(scope="session")
def engine(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The on-device engine, built once for each state of its sources."""
    kept = getattr(pytestconfig, "cache", None)  # absent with -p no:cacheprovider
    own = tmp_path_factory.mktemp("engine") if kept is None else kept.mkdir("engine")
    directory = os.environ.get("REPRO_ENGINE_DIR") or str(own)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_ENGINE_DIR", directory)
        try:
            build()
        except ToolsMissingError as error:
            pytest.skip(str(error))
        yield load()
