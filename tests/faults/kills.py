"""Kill a command at random moments, complete it, and compare with an uninterrupted run."""

import random
import re
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults.commands import Command, prepared
from faults.sessions import begun, leftovers, orphans

KILLS_OF_A_TRY = 3
MOST_S = 600
"""The longest that a command may take; the longest of ``COMMANDS`` takes a minute when idle."""


@dataclass
class Count:
    """What became of the tries."""

    tries: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    """By name of the signal; a command that ended before its signal was not killed."""
    lost: int = 0
    """Tries that the same command did not complete."""
    differing: int = 0
    unclear: int = 0
    """Tries in which no signal came in time."""
    leftovers: int = 0
    """Temporary files that a completed try still had."""
    orphans: int = 0
    """Kills after which a process of the command went on."""
    noisy: int = 0
    """Interrupts and terminations that said more than one line, or had another exit status."""
    heard: list[str] = field(default_factory=list)
    """What the noisy ones said."""


@dataclass(frozen=True)
class Expected:
    """What an uninterrupted run gives, and how long it takes."""

    result: Any
    seconds: float


def expected(command: Command) -> Expected:
    """Run ``command`` once from beginning to end."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        begin = time.monotonic()
        status, said = _complete(command, place, prepared(place))
        if status != 0:
            raise RuntimeError(said)
        return Expected(command.result(place), time.monotonic() - begin)


def try_once(
    command: Command,
    number: signal.Signals,
    wanted: Expected,
    moments: random.Random,
    count: Count,
) -> None:
    """Kill ``command`` a few times, complete it and add what happened to ``count``."""
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        environment = prepared(place)
        killed = 0
        for _ in range(KILLS_OF_A_TRY):
            killed += _killed(command, place, environment, number, moments, wanted, count)
        status, _ = _complete(command, place, environment)
        count.tries += 1
        count.unclear += killed == 0
        count.lost += status != 0
        count.leftovers += len(leftovers(place))
        if status == 0:
            count.differing += command.result(place) != wanted.result


def _killed(
    command: Command,
    place: Path,
    environment: dict[str, str],
    number: signal.Signals,
    moments: random.Random,
    wanted: Expected,
    count: Count,
) -> bool:
    """Begin ``command`` and end it by a signal; return whether that came in time."""
    with begun(command.arguments(place), environment) as process:
        deadline = time.monotonic() + moments.uniform(0.02, wanted.seconds)
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        if process.poll() is not None:
            if process.returncode == 0:  # its result is there: the next one begins anew
                _forget(place)
            return False
        process.send_signal(number)
        process.wait()
        count.orphans += bool(orphans(process.pid))
        _, said = process.communicate()
    if process.returncode == 0:  # the signal came after its last act
        _forget(place)
        return False
    count.kills[number.name] += 1
    if number != signal.SIGKILL:
        lines = [line for line in said.splitlines() if not _PROGRESS.match(line)]
        early = "repro/__main__.py" not in said  # before the first line of the suite
        one = len(lines) == 1 and process.returncode == 128 + number
        if not one and not (early and process.returncode != 128 + number):
            count.noisy += 1
            count.heard.append(f"{number.name}, status {process.returncode}: {said}")
    return True


_PROGRESS = re.compile(r"training: |mezo_fig|measured|simulated|yesno-facts: |.*, seed \d+: ")
"""Lines of progress, and the results of training runs."""


def _forget(place: Path) -> None:
    for path in place.glob("out/*/*.jsonl"):
        path.unlink()


def _complete(command: Command, place: Path, environment: dict[str, str]) -> tuple[int, str]:
    with begun(command.arguments(place), environment) as process:
        _, said = process.communicate(timeout=MOST_S)
        return process.returncode, said


def tries(
    command: Command, number: signal.Signals, moments: random.Random, most: int
) -> Iterator[Count]:
    """Yield the count after each of ``most`` tries."""
    wanted, count = expected(command), Count()
    for _ in range(most):
        try_once(command, number, wanted, moments, count)
        yield count
