"""Progress lines of long work."""

import pytest

from repro.core import progress


def test_lines_are_at_least_20_seconds_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr(progress.time, "monotonic", lambda: now)
    report = progress.now_and_then("a run")
    for step in range(1, 61):
        now += 1
        report(f"{step} of 60 steps")
    expected = "".join(f"  a run: {step} of 60 steps\n" for step in (20, 40, 60))
    assert capsys.readouterr().err == expected
