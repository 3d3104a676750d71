"""The same command twice at the same time: both end well, and nothing is mixed."""

from pathlib import Path
from typing import Any

import pytest

from faults.commands import COMMANDS, prepared, records, tree
from faults.kills import expected
from faults.sessions import begun, leftovers

pytestmark = pytest.mark.slow


def both(arguments: list[str], environment: dict[str, str]) -> list[tuple[int, str]]:
    """Run a command twice at once; return status and messages of each."""
    with begun(arguments, environment) as first, begun(arguments, environment) as second:
        said = [process.communicate(timeout=600)[1] for process in (first, second)]
    return [(first.returncode, said[0]), (second.returncode, said[1])]


@pytest.mark.parametrize("name", ["fetch", "report"])
def test_two_at_once_make_what_one_makes(name: str, tmp_path: Path) -> None:
    command = COMMANDS[name]
    wanted = expected(command)
    for status, said in both(command.arguments(tmp_path), prepared(tmp_path)):
        assert status == 0, said
        assert "Traceback" not in said
    assert command.result(tmp_path) == wanted.result
    assert leftovers(tmp_path) == []


def test_two_runs_train_each_cell_once_and_both_record_it(tmp_path: Path) -> None:
    command = COMMANDS["table1-torch"]
    wanted = expected(command)
    ended = both(command.arguments(tmp_path), prepared(tmp_path))
    files = sorted(tmp_path.glob("out/*/*.jsonl"))
    for status, said in ended:
        assert "Traceback" not in said
        # of two files of one second the later is refused, and nothing is overwritten
        assert status == 0 or "exists already" in said
    assert len(files) == sum(status == 0 for status, _ in ended) >= 1
    for number, path in enumerate(files):
        alone = tmp_path / str(number) / "out" / "slug"
        alone.mkdir(parents=True)
        (alone / path.name).write_bytes(path.read_bytes())
        assert records(alone.parent) == wanted.result
    assert leftovers(tmp_path) == []


def test_two_sites_at_once_leave_one_whole_site(tmp_path: Path) -> None:
    def build(place: Path) -> Any:
        results = COMMANDS["report"].arguments(place)[2]
        return ["report", "--results", results, "--html", str(place / "site")]

    environment = prepared(tmp_path)
    with begun([*build(tmp_path)[:3]], environment) as figures:
        figures.communicate(timeout=600)
    for status, said in both(build(tmp_path), environment):
        assert "Traceback" not in said
        assert status == 0, said
    site = tmp_path / "site"
    sums = dict(line.split("  ")[::-1] for line in (site / "SHA256SUMS").read_text().splitlines())
    assert sums == {name: digest for name, digest in tree(site).items() if name != "SHA256SUMS"}
    assert leftovers(tmp_path) == []
