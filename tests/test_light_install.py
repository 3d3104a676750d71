"""The methods need PyTorch alone; what is published can be built, checked and installed."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FIXED = (
    "pytest-benchmark", "torch", "torchvision", "transformers", "datasets", "memray", "seaborn",
    "nbconvert",
)  # fmt: skip

IMPORTS = """
import importlib, pkgutil, repro.core, repro.methods, light
for package in (repro.core, repro.methods):
    for module in pkgutil.iter_modules(package.__path__):
        if module.name != "huggingface":
            importlib.import_module(f"{package.__name__}.{module.name}")
"""

TRAINS = """
import light, pathlib, tempfile, torch
from repro.methods.backprop import Backprop
from repro.methods.elasticzo import ElasticZO
from repro.methods.fzoo import FZOO
from repro.methods.log import StepLog, replay
from repro.methods.mezo import MeZO
from repro.methods.sparse import SparseNoise, thresholds_of
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)).eval()
start = [p.detach().clone() for p in model.parameters()]
loss = lambda: model(torch.ones(2, 3)).square().mean()
mezo = MeZO(model.named_parameters(), lr=0.1, eps=1e-3)
mezo.step(loss)
path = pathlib.Path(tempfile.mkdtemp()) / "run.json"
mezo.log.save(path)
replay(StepLog.load(path), start)
assert all(map(torch.equal, start, model.parameters()))
FZOO(model.parameters(), lr=1e-4, eps=1e-3).step(loss)
ElasticZO(model, "2", lr=0.1, eps=1e-3, restore="exact").step(loss)
sparse = SparseNoise(thresholds_of(model.parameters(), 0.5))
MeZO(model.parameters(), lr=0.1, eps=1e-3, noise=sparse).step(loss)
Backprop(model.parameters(), lr=0.1).step(loss)
"""

COMMAND = """
import light, sys
from repro.__main__ import main
sys.argv[0] = "repro"
sys.exit(main())
"""


def run(
    code: str, *arguments: str, packages: Iterable[str] = (), cwd: Path = ROOT
) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    variables = {**os.environ, "PYTHONPATH": path, "LIGHT_WITH": " ".join(packages)}
    variables.pop("REPRO_RESULTS", None)
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False,
        env=variables, cwd=cwd,
    )  # fmt: skip


@pytest.mark.parametrize("code", [IMPORTS, TRAINS])
def test_the_methods_need_pytorch_alone(code: str) -> None:
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_other_packages_are_absent_in_these_tests() -> None:
    for module in ("transformers", "rich", "msgspec", "pytest", "scipy"):
        done = run(f"import light, {module}")
        assert f"No module named '{module}'" in done.stderr


def test_a_command_says_what_it_misses() -> None:
    done = run(COMMAND, "list")
    assert done.returncode == 1
    assert done.stderr.startswith("repro: error: msgspec is not installed, and this command needs")
    assert "pip install '.[suite]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_the_ledger_and_the_planner_need_the_extra_plan_alone(tmp_path: Path) -> None:
    packages = brought("plan", known=extras())
    assert not packages & {"torch", "transformers", "pandas", "scipy", "tyro"}
    claims = run(COMMAND, "claims", "--json", packages=packages, cwd=tmp_path)
    assert claims.returncode == 0, claims.stderr
    summary = json.loads((ROOT / "repro/report/summary.json").read_text(encoding="utf-8"))
    assert json.loads(claims.stdout) == summary["claims"]
    for command in (["list"], ["claim", "A4"], ["plan", "--budget", "16GB", "--model", "gpt2"]):
        done = run(COMMAND, *command, packages=packages, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    missed = run(COMMAND, "run", "elasticzo_fig4", packages=packages, cwd=tmp_path)
    assert missed.returncode == 1
    assert missed.stderr.startswith("repro: error: tyro is not installed, and this command needs")
    assert len(missed.stderr.splitlines()) == 1


def test_the_engine_s_command_starts_with_its_extra_alone() -> None:
    packages = brought("engine", known=extras())
    assert not packages & {"torch", "transformers", "tyro"}
    shown = run(COMMAND, "engine", "--help", packages=packages)
    assert shown.returncode == 0, shown.stderr
    imported = run("import light, repro.ondevice.low_rank, repro.ondevice.build", packages=packages)
    assert imported.returncode == 0, imported.stderr


def extras() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {"": project["dependencies"], **project["optional-dependencies"]}


def brought(extra: str, *, known: dict[str, list[str]]) -> set[str]:
    """Return the names of the packages that an extra brings."""
    found: set[str] = set()
    for requirement in known[extra]:
        if own := re.fullmatch(r"zo-repro\[(.+)\]", requirement):
            for other in own[1].split(","):
                found |= brought(other, known=known)
        else:
            found.add(re.split(r"[^\w.-]", requirement)[0])
    return found


def test_the_usual_set_up_brings_every_package_that_the_suite_is_built_on() -> None:
    known = extras()
    tox = (ROOT / "tox.ini").read_text(encoding="utf-8")
    for environment in ("suite", "sweep"):
        section = re.search(rf"\[testenv:{environment}\](.+?)\n\[", tox, re.DOTALL)
        assert section is not None
        listed = re.search(r"extras =\n((?:    \w+\n)+)", section[1])
        assert listed is not None
        packages = brought("", known=known)
        for extra in listed[1].split():
            packages |= brought(extra, known=known)
        assert packages >= set(FIXED), environment
    assert brought("", known=known) == {"torch", "numpy"}


def test_the_version_has_an_entry_in_the_changelog() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = r"^## \[(.+?)\] - (?:\d{4}-\d{2}-\d{2}|unreleased)$"
    assert re.findall(heading, changelog, re.MULTILINE)[0] == project["version"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {project['version']}\n" in citation


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel and the sdist of the sources, and the tools that made them."""
    place = tmp_path_factory.mktemp("built")
    source = place / "source"
    shutil.copytree(ROOT / "repro", source / "repro", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy2(ROOT / name, source)
    subprocess.run([sys.executable, "-m", "venv", place / "tools"], check=True)
    python = place / "tools/bin/python"
    install = [python, "-m", "pip", "install", "--quiet", "build", "twine"]
    subprocess.run(install, check=True)
    make = [python, "-m", "build", "--outdir", place / "dist", source]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
    return place


@pytest.mark.network
def test_the_wheel_and_the_sdist_pass_twine(built: Path) -> None:
    files = sorted((built / "dist").iterdir())
    assert [file.suffix for file in files] == [".whl", ".gz"]
    check = [built / "tools/bin/python", "-m", "twine", "check", "--strict", *files]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2
    with zipfile.ZipFile(files[0]) as wheel:
        names = wheel.namelist()
    assert "repro/py.typed" in names
    assert any(name.endswith(".hpp") for name in names)
    assert not [name for name in names if name.startswith(("tests", "results", "benchmarks"))]
    with tarfile.open(files[1]) as sdist:
        assert "CHANGELOG.md" in {Path(name).name for name in sdist.getnames()}


@pytest.fixture(scope="module")
def python(built: Path) -> Path:
    """Python with the wheel; ``light`` hides installed packages that the wheel does not need."""
    (wheel,) = (built / "dist").glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", built / "venv"], check=True)
    python = built / "venv/bin/python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", wheel], check=True)
    (site,) = (built / "venv/lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    shutil.copy2(ROOT / "tests/light.py", site)
    return python


FROM_THE_WHEEL = "import light, repro; assert 'venv' in repro.__file__, repro.__file__\n"


@pytest.mark.network
def test_the_guides_run_from_the_installed_wheel(python: Path, tmp_path: Path) -> None:
    guide = (ROOT / "docs/methods.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    script = tmp_path / "guide.py"
    script.write_text(FROM_THE_WHEEL + "\n".join(examples), encoding="utf-8")
    done = subprocess.run(
        [python, script], capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.network
def test_the_ledger_is_in_the_installed_wheel(python: Path, tmp_path: Path) -> None:
    packages = " ".join(brought("plan", known=extras()))
    done = subprocess.run(
        [python, "-c", FROM_THE_WHEEL + COMMAND, "claims", "--json"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": "", "LIGHT_WITH": packages},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads((ROOT / "repro/report/summary.json").read_text(encoding="utf-8"))
    assert json.loads(done.stdout) == summary["claims"]
