"""No artifact is half-added: index, packages, claims, tox, results, notebooks, README agree."""

import ast
import configparser
import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
import traceback
from concurrent.futures import Future
from importlib.metadata import packages_distributions
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from repro.artifacts import index
from repro.claims.index import CLAIMS, of_artifact
from repro.cli import main
from repro.measurement import isolation
from repro.measurement.records import PROFILES
from repro.methods.perturbed_weights import PerturbedWeights
from repro.report.claims_table import ClaimRow
from repro.report.markdown import artifact_section
from repro.report.notebooks import assemble, is_stale, template
from repro.report.runs import require_runs

ROOT = Path(__file__).parents[1]


def test_index_names_every_artifact() -> None:
    directory = ROOT / "repro/artifacts"
    packages = {path.parent.name for path in directory.glob("*/__init__.py")}
    modules = {path.stem for path in directory.glob("*.py")}
    assert packages | modules == {*index.SLUGS, "__init__", "base", "index", "shared"}
    assert not packages & modules


def test_the_extras_bring_what_the_package_imports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in ("suite", "hf", "plan", "engine", "ray"):
        wanted += project["optional-dependencies"][extra]
    brought = {re.split(r"[^a-z0-9-]", requirement)[0] for requirement in wanted}
    # brought by those: triton by PyTorch for CUDA, others by transformers, ipykernel and nbconvert
    brought |= {"triton", "ipython", "jupyter-client", "nbclient", "safetensors", "tokenizers"}
    names = packages_distributions()
    for path in (ROOT / "repro").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            imported = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module:
                imported = [node.module]
            for module in {name.partition(".")[0] for name in imported}:
                if module != "repro" and module not in sys.stdlib_module_names:
                    found = {name.lower().replace("_", "-") for name in names.get(module, [module])}
                    assert found & brought, f"{path}: {module}"


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


def test_tox_has_an_environment_for_every_artifact(monkeypatch: pytest.MonkeyPatch) -> None:
    made = SimpleNamespace  # tox itself is not installed here
    for name, holds in {
        "tox.config.loader.memory": {"MemoryLoader": made},
        "tox.config.types": {"Command": lambda arguments: arguments},
        "tox.plugin": {"impl": lambda function: function},
    }.items():
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(**holds))
    toxfile = runpy.run_path(str(ROOT / "toxfile.py"))
    names = {f"repro-{name}" for name in (*index.SLUGS, "fig3", "fig4")}
    assert set(toxfile["tox_extend_envs"]()) == names
    state = SimpleNamespace(
        conf=SimpleNamespace(work_dir=Path("work"), pos_args=lambda _: ("--profile", "smoke"))
    )
    for name in (*names, "test"):
        environment = SimpleNamespace(name=name, loaders=[])
        toxfile["tox_add_env_config"](environment, state)
        slug = {"fig3": "mezo_fig3", "fig4": "mezo_fig4"}.get(name[6:], name[6:])
        run = ["work/suite/bin/repro", "run", slug, "--report", "--profile", "smoke"]
        assert [loader.commands for loader in environment.loaders] == [[run]] * (name != "test")


READING = """
import sys
from pathlib import Path
import matplotlib.pyplot as plt
from repro.artifacts.index import ARTIFACTS
from repro.measurement.records import read_runs
from repro.report.runs import current_runs
for slug, artifact in ARTIFACTS.items():
    if runs := current_runs(Path("results"), slug):
        records = read_runs(runs)
        artifact.findings(records)
        for draw in artifact.figures.values():
            plt.close(draw(records))
print(*(name for name in sys.modules if name in sys.argv))
"""


def test_what_people_read_is_made_without_code_that_trains_or_measures() -> None:
    trains = ["torch", "transformers", "repro.methods", "repro.models", "repro.execution"]
    environment = {**os.environ, "MPLBACKEND": "agg"}
    command = [sys.executable, "-c", READING, *trains]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT, env=environment)
    assert done.stdout.split() == []


@pytest.mark.parametrize("slug", index.SLUGS)
def test_artifact_is_whole(slug: str) -> None:
    artifact = index.load(slug)
    assert artifact.slug == slug
    assert {"smoke", "quick", "paper"} <= set(artifact.profiles) <= set(PROFILES)
    assert artifact.claims == tuple(claim.id for claim in of_artifact(slug))
    assert artifact.captions.keys() == artifact.figures.keys() != set()
    assert template(slug).is_file()
    assert re.search(r"^1\. ", artifact.about or "", re.MULTILINE), "deviations are numbered"


@pytest.mark.parametrize("slug", index.SLUGS)
def test_selector_fields_hold_several_values(slug: str) -> None:
    artifact = index.load(slug)
    for config in artifact.profiles.values():
        assert all(isinstance(getattr(config, name), tuple) for name in artifact.selector_fields)


def test_results_and_notebooks_are_of_the_artifacts() -> None:
    assert {p.name for p in (ROOT / "results").iterdir() if p.is_dir()} == set(index.SLUGS)
    assert {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")} == set(index.SLUGS)


@pytest.mark.parametrize("slug", index.SLUGS)
def test_results_are_committed_with_their_figures(slug: str) -> None:
    directory = ROOT / "results" / slug
    assert list(directory.glob("*.jsonl"))
    for name in index.load(slug).figures:
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


@pytest.mark.parametrize("slug", index.SLUGS)
def test_notebook_answers_first_and_says_how_it_was_made_last(slug: str) -> None:
    artifact = index.load(slug)
    sources = [cell.source for cell in assemble(slug).cells]
    figure = f'notebook_api.figure(artifact.ARTIFACT, "{next(iter(artifact.captions))}", records)'
    claims, counts = f'notebook_api.claims("{slug}")', f'notebook_api.verdicts("{slug}")'
    (conclusion,) = [s for s in sources if s.startswith(("## Conclusion", "## What follows"))]
    shown = [figure, conclusion, "notebook_api.provenance(records)"]
    if any(not CLAIMS[name].same_as for name in artifact.claims):
        shown.insert(0, counts if counts in sources else claims)
    assert sources.count(claims) == (shown[0] != figure)
    places = [sources.index(cell) for cell in shown]
    assert places == sorted(places)
    assert sources.count(figure) == sources.count(shown[-1]) == 1


@pytest.mark.parametrize("slug", index.SLUGS)
def test_ledger_shows_the_recorded_results(slug: str, ledger: list[ClaimRow]) -> None:
    text = (ROOT / "results" / "README.md").read_text(encoding="utf-8")
    own = [row for row in ledger if row.artifact == slug]
    assert artifact_section(ROOT / "results", slug, own) in text


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


class InThisProcess:
    """Takes the place of pebble's pool: what it is given is run here, when it is given."""

    def __init__(self, **_: Any) -> None: ...

    def schedule(self, function: Any, args: list[Any]) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*args))
        return future

    def stop(self) -> None: ...

    def join(self) -> None: ...


@pytest.mark.usefixtures("made_up_mnist")
def test_the_documented_path_of_table_1_is_the_real_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks: list[list[str]] = []
    update = PerturbedWeights.update

    def seen(self: PerturbedWeights, *rates: Any) -> None:
        names = (frame.filename for frame in traceback.extract_stack())
        stacks.append([name for name in names if name.startswith(str(ROOT / "repro"))])
        update(self, *rates)

    monkeypatch.setattr(isolation, "ProcessPool", InThisProcess)
    monkeypatch.setattr(PerturbedWeights, "update", seen)
    table1 = ["--precisions", "fp32", "--methods", "cls1", "--datasets", "mnist", "--epochs", "1"]
    assert main(["run", "elasticzo_table1", *table1, "--out", str(tmp_path)]) == 0
    told = re.findall(r"^\| \d+ \| `(\S+)`", (ROOT / "docs/architecture.md").read_text(), re.M)
    assert len(told) <= 15
    called = list(dict.fromkeys(str(Path(name).relative_to(ROOT)) for name in stacks[0]))
    assert set(called) == set(told[: told.index("repro/methods/perturbed_weights.py")])
