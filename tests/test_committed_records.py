"""Where the committed records come from can be looked up."""

import re
import subprocess
from pathlib import Path

import pytest

from repro.artifacts.index import SLUGS
from repro.finetuning.saved import model_name
from repro.measurement.records import of_kind, read_run, read_runs
from repro.report.runs import current_runs

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


def test_every_rebuilt_model_has_a_name_of_its_own() -> None:
    runs = [
        record
        for path in ROOT.glob("results/mezo_fig4/*.jsonl")
        for record in of_kind(read_run(path), "run")
        if "log" in record.metrics
    ]
    weights = {
        (model_name(run.metrics["settings"], run.seed, sha), sha)
        for run in runs
        if (sha := run.metrics["final_sha256"])
    }
    assert len(weights) == len({name for name, _ in weights}) == len({sha for _, sha in weights})


@pytest.mark.parametrize("slug", SLUGS)
def test_current_records_name_a_clean_commit_and_the_lock_file(slug: str) -> None:
    for record in read_runs(current_runs(ROOT / "results", slug)):
        commit, dirty = record.code
        assert commit
        assert dirty is False
        assert record.environment.constraints_sha256
