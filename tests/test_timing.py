"""Arms in turns, on a machine whose every step takes as long as the test says."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from repro.measurement import timing
from repro.measurement.timing import in_turns, ratio, ratio_range


class Machine:
    """A clock that goes on by a step's duration, and what was run on it."""

    def __init__(self, duration: Callable[[int], float], monkeypatch: pytest.MonkeyPatch) -> None:
        self.ran: list[str] = []
        self._duration, self._now = duration, 0.0
        monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: self._now))

    def step(self, name: str) -> Callable[[], None]:
        def run() -> None:
            self._now += self._duration(len(self.ran))
            self.ran.append(name)

        return run


def test_every_other_turn_goes_backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(lambda _: 2.0, monkeypatch)
    arms = {name: machine.step(name) for name in "abc"}
    assert in_turns(arms, 3, steps=1, warm_up=1) == {name: [2.0] * 3 for name in "abc"}
    assert "".join(machine.ran) == "aabbcc" + "ccbbaa" + "aabbcc"


def test_a_machine_that_slows_down_favours_no_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step takes a hundredth of the first longer than the one before; the arms are alike."""
    machine = Machine(lambda number: 1 + number / 100, monkeypatch)
    arms = {name: machine.step(name) for name in ("slow", "quick")}
    seconds = in_turns(arms, 4, steps=1, warm_up=0)
    assert ratio(seconds, "slow", "quick") == pytest.approx(1, abs=0.001)
    assert ratio_range(seconds, "slow", "quick") == pytest.approx((1 / 1.01, 1.03 / 1.02))


def test_a_ratio_is_of_the_turns_and_not_of_their_medians() -> None:
    seconds = {"slow": [2.0, 6.0, 9.0], "quick": [1.0, 2.0, 9.0]}
    assert ratio(seconds, "slow", "quick") == 2
    assert ratio_range(seconds, "slow", "quick") == (1, 3)
