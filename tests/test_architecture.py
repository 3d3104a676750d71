"""No artifact is half-added: index, packages, claims, tox, results, notebooks, README agree."""

import configparser
import json
import re
from pathlib import Path

import pytest

from repro.artifacts import index
from repro.measurement.records import PROFILES
from repro.report.markdown import artifact_section
from repro.report.notebooks import is_stale, template
from repro.report.runs import require_runs

ROOT = Path(__file__).parents[1]


def test_index_names_every_package() -> None:
    packages = {path.parent.name for path in (ROOT / "repro/artifacts").glob("*/__init__.py")}
    assert packages == set(index.SLUGS)
    assert len(set(index.SLUGS)) == len(index.SLUGS)


def test_no_environment_of_tox_adds_to_the_shared_one() -> None:
    sections = configparser.ConfigParser()
    sections.read(ROOT / "tox.ini")
    for name in sections.sections():
        assert "pip install" not in sections[name].get("commands", ""), name
    assert "ray" not in sections["testenv:suite"]["extras"].split()
    assert "ray" in sections["testenv:sweep"]["extras"].split()


def test_every_slow_test_runs_each_night() -> None:
    nightly = (ROOT / ".github" / "workflows" / "nightly.yml").read_text()
    assert 'tox -e test -- -m "slow and not network"' in nightly
    others = nightly.replace("--ignore tests/", "") + (ROOT / "tox.ini").read_text()
    for name in re.findall(r"--ignore (tests/\w+\.py)", nightly):
        assert name in others, name


def test_tox_has_an_environment_for_every_artifact() -> None:
    sections = configparser.ConfigParser()
    sections.read(ROOT / "tox.ini")
    (section,) = [name for name in sections.sections() if name.startswith("testenv:repro-")]
    names = re.fullmatch(r"testenv:repro-\{(.*)\}", section)
    assert names is not None
    assert set(names[1].split(",")) == {*index.SLUGS, "fig3", "fig4"}
    for slug in index.SLUGS:
        assert f"repro run {slug} --report " in sections[section]["commands"]


@pytest.mark.parametrize("slug", index.SLUGS)
def test_artifact_is_whole(slug: str) -> None:
    artifact = index.load(slug)
    assert artifact.slug == slug
    assert {"smoke", "quick", "paper"} <= set(artifact.profiles) <= set(PROFILES)
    parts = {path.stem for path in (ROOT / "repro/artifacts" / slug).glob("*.py")}
    assert {"run", "figures"} <= parts
    assert ("findings" in parts) == bool(artifact.claims)
    assert template(slug).is_file()
    assert re.search(r"^1\. ", _docstring(slug), re.MULTILINE), "deviations are numbered"


@pytest.mark.parametrize("slug", index.SLUGS)
def test_scope_names_fields_that_hold_several_values(slug: str) -> None:
    artifact = index.load(slug)
    for config in artifact.profiles.values():
        assert all(isinstance(getattr(config, name), tuple) for name in artifact.scope)


@pytest.mark.parametrize("slug", index.SLUGS)
def test_results_are_committed_with_their_figures(slug: str) -> None:
    directory = ROOT / "results" / slug
    assert list(directory.glob("*.jsonl"))
    for name in index.load(slug).figures():
        assert (directory / "figures" / f"{name}.svg").is_file()
        assert (directory / "figures" / f"{name}.png").is_file()
    assert {p.name for p in (ROOT / "results").iterdir() if p.is_dir()} == set(index.SLUGS)


@pytest.mark.parametrize("slug", index.SLUGS)
def test_notebook_is_as_new_as_its_records(slug: str) -> None:
    runs = require_runs(ROOT / "results", slug)
    assert not is_stale(slug, ROOT / "notebooks" / f"{slug}.ipynb", runs)
    notebook = json.loads((ROOT / "notebooks" / f"{slug}.ipynb").read_text())
    _, *code = (cell for cell in notebook["cells"] if cell["cell_type"] == "code")  # imports first
    assert all(cell["outputs"] for cell in code)
    assert {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")} == set(index.SLUGS)


@pytest.mark.parametrize("slug", index.SLUGS)
def test_notebook_says_how_its_records_were_made_where_it_shows_it(slug: str) -> None:
    text = template(slug).read_text(encoding="utf-8")
    assert "How the records were made:\n\n```python\nview.provenance(records)\n```\n" in text
    assert len(re.findall("were made:", text)) == 1


@pytest.mark.parametrize("slug", index.SLUGS)
def test_ledger_shows_the_recorded_results(slug: str) -> None:
    ledger = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    assert artifact_section(ROOT / "results", slug) in ledger


def test_constraints_name_no_host_and_pin_every_hash() -> None:
    lock = (ROOT / "constraints.txt").read_text()
    assert "://" not in lock
    pinned = re.findall(r"^[a-z0-9._-]+==\S+", lock, re.MULTILINE | re.IGNORECASE)
    assert len(pinned) > 50
    assert lock.count("--hash=sha256:") >= len(pinned)


def test_readme_commands_are_those_ci_runs() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, environment in (("run", "repro-fig3"), ("test", "test")):
        found = re.search(rf"<!-- command: {name} -->\n```sh\n(.+)\n```", readme)
        assert found is not None
        assert found[1].endswith(f"tox -e {environment}")


def _docstring(slug: str) -> str:
    from importlib import import_module

    return import_module(f"repro.artifacts.{slug}").__doc__ or ""
