"""A clock that is set back, as on a board without a battery, changes no result."""

import os
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from repro.core.leftovers import remove_leftovers, temporary_file, tidy
from repro.training.store import Checkpoint


@pytest.fixture
def set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """``time.time`` is in 1970; files that are there are from the future."""
    monkeypatch.setattr(time, "time", lambda: 1000.0)


@pytest.mark.usefixtures("set_back")
def test_old_states_are_kept_rather_than_lost(tmp_path: Path) -> None:
    directory, other = tmp_path / "cells" / "now", tmp_path / "cells" / "before"
    for store in (directory, other):
        Checkpoint(store / "state.pt").save({"epoch": 1})
    tidy(directory)
    for store in (directory, other):
        assert Checkpoint(store / "state.pt").load() == {"epoch": 1}


@pytest.mark.usefixtures("set_back")
def test_a_living_writer_s_file_is_left_alone_and_a_leftover_is_not(tmp_path: Path) -> None:
    leftover = tmp_path / ".other.repro-tmp-abcd1234"
    leftover.touch()
    with temporary_file(tmp_path / "state") as (_, mine):
        remove_leftovers(tmp_path, ".+")
        assert mine.exists()
        assert not leftover.exists()


def test_a_state_from_the_future_is_gone_on_from(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "state.pt")
    checkpoint.save({"epoch": 1})
    future = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
    os.utime(checkpoint.path, (future, future))
    checkpoint.save({"epoch": 2})
    assert checkpoint.load() == {"epoch": 2}
