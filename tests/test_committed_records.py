"""Where the committed records come from can be looked up."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COMMIT = re.compile(rb'"commit":"([0-9a-f]{40})"')


def git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no clone")
    return done.stdout.decode()


def test_every_commit_that_a_record_names_is_in_the_history() -> None:
    if git("rev-parse", "--is-shallow-repository").strip() == "true":
        pytest.skip("a shallow clone has no history")
    history = set(git("rev-list", "HEAD").split())
    for path in ROOT.glob("results/*/*.jsonl"):
        named = {found.decode() for found in COMMIT.findall(path.read_bytes())}
        assert named
        assert named <= history, path.name
