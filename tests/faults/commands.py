"""Commands to end in the middle, and what an uninterrupted run of each would have made."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from made_up import write_mnist
from repro.measurement.records import read_run

ROOT = Path(__file__).parents[2]
_TIMES = {"seconds", "cpu_seconds", "trained"}
"""Metrics that differ from run to run."""
TABLE1 = ["--profile", "smoke", "--datasets", "mnist", "--seeds", "0"]
"""Of ``elasticzo_table1``: eleven training runs."""
STEPS_OF_FIG4 = ["--profile", "smoke", "--bp-steps", "60", "--zo-forwards", "240"]
"""Of ``mezo_fig4``, whose runs else last a given time, so that no two make the same steps."""
TINY_FIG3 = [
    *("--profile", "smoke", "--simulate-contexts", "--simulate-layers", "--measure-layers"),
    *("--measure-contexts", "16", "--measure-context", "16", "--measure-hidden", "32"),
    *("--measure-heads", "4", "--measure-vocabulary", "64"),
]


@dataclass(frozen=True)
class Command:
    """A command whose result is in a directory that it is given."""

    name: str
    arguments: Callable[[Path], list[str]]
    """From the directory."""
    result: Callable[[Path], Any]
    """What is to be equal, however often the command was ended."""


def records(directory: Path) -> Any:
    """Return the results of the run in ``directory``, without dates and times.

    A kill between the writing of the records and the end of the command makes the next command
    write them once more. They must then be the same; runs that differ are all returned.
    """
    found = [_results(path) for path in sorted(directory.glob("*/*.jsonl"))]
    return found[0] if all(one == found[0] for one in found) else found


def _results(path: Path) -> list[tuple[str, ...]]:
    return sorted(
        (
            record.kind,
            json.dumps(record.point, sort_keys=True),
            repr(record.seed),
            json.dumps(
                {n: v for n, v in record.metrics.items() if n not in _TIMES}, sort_keys=True
            ),
        )
        for record in read_run(path)
    )


def tree(directory: Path) -> dict[str, str]:
    """Return the hash of every file below ``directory``."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def _table1(engine: str) -> Callable[[Path], list[str]]:
    options = [*TABLE1, "--epochs", "12", "--engine", engine]
    return lambda place: ["run", "elasticzo_table1", *options, "--out", str(place / "out")]


_COPIED = ("elasticzo_fig2", "elasticzo_int8_sign")


def _copied_results(place: Path) -> Path:
    """Return a directory with the records of two artifacts, and without figures."""
    copy = place / "results"
    for slug in _COPIED:
        if not (copy / slug).exists():
            shutil.copytree(
                ROOT / "results" / slug, copy / slug, ignore=shutil.ignore_patterns("figures")
            )
    return copy


def _without_records(directory: Path) -> dict[str, str]:
    return {n: digest for n, digest in tree(directory).items() if not n.endswith(".jsonl")}


COMMANDS = {
    command.name: command
    for command in (
        Command("table1-native", _table1("native"), lambda place: records(place / "out")),
        Command("table1-torch", _table1("torch"), lambda place: records(place / "out")),
        Command(
            "fig3",
            lambda place: ["run", "mezo_fig3", *TINY_FIG3, "--out", str(place / "out")],
            lambda place: records(place / "out"),
        ),
        Command(
            "fig4",
            lambda place: ["run", "mezo_fig4", *STEPS_OF_FIG4, "--out", str(place / "out")],
            lambda place: records(place / "out"),
        ),
        Command(
            "report",
            lambda place: ["report", "--results", str(_copied_results(place))],
            lambda place: _without_records(place / "results"),
        ),
        Command(
            "notebooks",
            lambda place: [
                *("notebooks", *_COPIED, "--results", str(_copied_results(place))),
                *("--out", str(place / "notebooks")),
            ],
            lambda place: tree(place / "notebooks"),
        ),
        Command(
            "site",
            lambda place: [
                *("report", "--results", str(_copied_results(place))),
                *("--notebooks", str(ROOT / "notebooks"), "--documents", str(ROOT)),
                *("--html", str(place / "site")),
            ],
            lambda place: tree(place / "site"),
        ),
        Command(
            "fetch",
            lambda _: ["data", "fetch", "yesno-facts"],
            lambda place: tree(place / "data" / "yesno-facts-8fe468ab4e56"),
        ),
    )
}
"""By name."""


def prepared(place: Path) -> dict[str, str]:
    """Make ``place`` ready for a command; return the variables that keep all it writes there."""
    write_mnist(place / "data")
    engines = os.environ.get("REPRO_ENGINE_DIR")
    return {
        "REPRO_CACHE_DIR": str(place / "cache"),
        "REPRO_DATA_DIR": str(place / "data"),
        "OMP_NUM_THREADS": "1",
        **({"REPRO_ENGINE_DIR": engines} if engines else {}),
    }
