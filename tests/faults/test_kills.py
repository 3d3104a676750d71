"""Commands that are killed at random moments are completed as if nothing had happened."""

import random
import signal
from pathlib import Path
from typing import Any

import pytest

from faults.commands import COMMANDS
from faults.count import COUNTS, DOCUMENT, document, read_counts
from faults.kills import Count, expected, try_once
from faults.sessions import leftovers
from repro.core.leftovers import temporary_file


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_command_is_completed_by_itself(
    name: str, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_ENGINE_DIR", str(Path(engine.__file__).parents[1]))
    count, moments = Count(), random.Random(0)
    wanted = expected(COMMANDS[name])
    for number in (signal.SIGKILL, signal.SIGINT, signal.SIGTERM):
        try_once(COMMANDS[name], number, wanted, moments, count)
    bad = ("lost", "differing", "leftovers", "orphans", "noisy")
    assert {kind: getattr(count, kind) for kind in bad} == dict.fromkeys(bad, 0), count.heard
    assert count.tries == 3


def test_leftovers_are_found_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    left = {".x.jsonl.repro-tmp-abcd1234", ".y.pt.repro-tmp-wxyz_789"}
    for name in (*left, ".hidden", "x.repro-tmp-abcd1234", ".x.previous"):
        (tmp_path / "deep" / name).touch()
    assert {path.name for path in leftovers(tmp_path)} == left
    # and a file in the middle of a write
    with temporary_file(tmp_path / "written") as (_, written):
        assert {path.name for path in leftovers(tmp_path)} == {*left, written.name}


def test_the_document_has_the_counts_and_no_others() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert document(text, read_counts()) == text, f"run tests/faults/count.py: {COUNTS} is newer"


def test_the_tables_add_up() -> None:
    row = {
        "tries": 2, "kills": 5, "lost": 0, "differing": 1, "unclear": 0, "leftovers": 0,
        "orphans": 0, "noisy": 0,
    }  # fmt: skip
    fuzzed = {"inputs": 1000, "accepted": 1, "refused": 999, "unhandled": 0, "slow": 0}
    counts = {"kills": {"a SIGINT": row, "b SIGKILL": row}, "fuzz": {"zip": fuzzed}}
    text = document(DOCUMENT.read_text(encoding="utf-8"), counts)
    assert "| **all** |  | 4 | 10 | 0 | 2 | 0 | 0 | 0 | 0 |" in text
    assert "| zip | 1,000 | 1 | 999 | 0 | 0 |" in text
    assert document(text, counts) == text
