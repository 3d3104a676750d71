"""Free memory: what the machine has left, or the container, whichever is less."""

from pathlib import Path

import pytest

from repro.measurement import device
from repro.measurement.device import free_bytes

MACHINE = "MemTotal:       24105000 kB\nMemFree:        100 kB\nMemAvailable:   2000 kB\n"


@pytest.fixture
def container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the files of cgroup v2 are; the machine has 2000 KiB left."""
    machine = tmp_path / "meminfo"
    machine.write_text(MACHINE)
    monkeypatch.setattr(device, "_MACHINE", machine)
    monkeypatch.setattr(device, "_CONTAINER", tmp_path)
    return tmp_path


def write(container: Path, limit: str, taken: int, inactive: int) -> None:
    (container / "memory.max").write_text(f"{limit}\n")
    (container / "memory.current").write_text(f"{taken}\n")
    (container / "memory.stat").write_text(f"anon 1\ninactive_file {inactive}\nactive_file 7\n")


@pytest.mark.usefixtures("container")
def test_without_a_container_it_is_what_the_machine_has_left() -> None:
    assert free_bytes() == 2000 * 1024


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("max", 2000 * 1024), ("1000000", 1_000_000 - 700_000 + 50_000), ("90000000", 2000 * 1024)],
)
def test_a_container_lends_what_its_limit_leaves_and_files_that_can_go(
    container: Path, limit: str, expected: int
) -> None:
    write(container, limit, taken=700_000, inactive=50_000)
    assert free_bytes() == expected


def test_where_the_system_does_not_tell_it_is_all_there_is(container: Path) -> None:
    (container / "meminfo").write_text("MemTotal:       24105000 kB\n")
    assert free_bytes() > 2000 * 1024
    (container / "meminfo").unlink()
    assert free_bytes() > 2000 * 1024
