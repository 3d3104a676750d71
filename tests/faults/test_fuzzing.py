"""Whatever is in a file, a reader returns or says what is wrong."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faults.fuzzing import READERS, Found, fuzz, try_input

CORPUS = Path(__file__).with_name("corpus")


@pytest.mark.parametrize("name", READERS)
def test_seeds_are_accepted(name: str, tmp_path: Path) -> None:
    reader = READERS[name]
    found = Found()
    for seed in reader.seeds():
        try_input(reader, seed, tmp_path / f"seed{reader.suffix}", found)
    assert found.accepted == found.inputs > 0, found.crashes


@pytest.mark.parametrize("name", READERS)
def test_mutated_files_are_read_or_refused(name: str) -> None:
    found = fuzz(READERS[name], 150, seed=0)
    assert (found.crashes, found.slow) == ([], 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_many_mutated_files_are_read_or_refused(name: str) -> None:
    found = fuzz(READERS[name], 10_000, seed=1)
    assert (found.crashes, found.slow) == ([], 0)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(name: str, tmp_path: Path, content: bytes) -> None:
    found = Found()
    try_input(READERS[name], content, tmp_path / f"any{READERS[name].suffix}", found)
    assert found.crashes == []


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*/*")), ids=lambda path: path.name)
def test_what_once_got_past_a_reader_is_refused(path: Path, tmp_path: Path) -> None:
    reader, found = READERS[path.parent.name.replace("-", " ")], Found()
    try_input(reader, path.read_bytes(), tmp_path / f"kept{reader.suffix}", found)
    assert found.crashes == []
    assert found.refused == 1
