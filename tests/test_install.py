"""An installation without a compiler: all works but the engine, which says how to get it."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from repro.artifacts.index import SLUGS
from repro.measurement.records import read_run

pytestmark = [pytest.mark.network, pytest.mark.usefixtures("made_up_mnist")]

ROOT = Path(__file__).parents[1]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with the suite in it; what it depends on is that of the tests."""
    place = tmp_path_factory.mktemp("install")
    source = place / "source"
    shutil.copytree(ROOT / "repro", source / "repro", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, source)
    python = place / "venv/bin/python"
    subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
    without = {**os.environ, "PATH": str(place / "empty"), "PYTHONPATH": ""}
    without.pop("CXX", None)
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--no-deps", source], check=True, env=without
    )
    purelib = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    (Path(purelib) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    if (cmake := Path(sys.executable).with_name("cmake")).is_file():
        (python.parent / "cmake").symlink_to(cmake)  # so that a compiler is all that is missing
    return place


@pytest.fixture
def run(environment: Path, tmp_path: Path) -> Run:
    """Runs the installed command where PATH has no program at all."""

    def command(*arguments: str) -> "subprocess.CompletedProcess[str]":
        variables = {
            **os.environ,
            "PATH": str(environment / "empty"),
            "PYTHONPATH": "",
            "REPRO_ENGINE_DIR": str(tmp_path / "engine"),
            "REPRO_RESULTS": str(tmp_path / "results"),
        }
        variables.pop("CXX", None)
        script = environment / "venv/bin/repro"
        return subprocess.run(
            [script, *arguments], capture_output=True, text=True, check=False,
            env=variables, cwd=tmp_path,
        )  # fmt: skip

    return command


def installed(environment: Path) -> Path:
    (package,) = environment.glob("venv/lib/python*/site-packages/repro")
    return package


def test_the_engine_is_installed_as_sources(environment: Path) -> None:
    package = installed(environment)
    here, there = ROOT / "repro/ondevice/cpp", package / "ondevice/cpp"
    names = {path.relative_to(here) for path in here.rglob("*") if path.is_file()}
    assert {path.relative_to(there) for path in there.rglob("*") if path.is_file()} == names
    assert not [path for path in package.rglob("*") if path.suffix in (".so", ".o", ".pyd")]


def test_the_engine_is_said_to_be_absent(run: Run) -> None:
    info = run("engine", "info")
    assert info.returncode == 1
    assert info.stderr.startswith("repro: error: the on-device engine is not built: run `repro")
    assert "pip install cmake nanobind" in info.stderr
    built = run("engine", "build")
    assert built.returncode == 1
    assert "to build the engine with: it takes a C++20 compiler" in built.stderr
    assert "Traceback" not in info.stderr + built.stderr


def test_artifacts_are_listed_and_run(run: Run) -> None:
    listed = run("list")
    assert listed.returncode == 0, listed.stderr
    assert all(slug in listed.stdout for slug in SLUGS)
    done = run("run", "elasticzo_int8_ablation", "--profile", "smoke")
    assert done.returncode == 0, done.stderr
    records = read_run(Path(done.stdout.strip()))
    assert {record.metrics["trained"]["engine"] for record in records} == {"torch"}
    assert {record.environment.commit for record in records} == {None}


@pytest.mark.parametrize("engine", ["native", "auto"])
def test_an_engine_that_is_asked_for_is_missed(run: Run, engine: str, tmp_path: Path) -> None:
    done = run("run", "elasticzo_fig3", "--profile", "smoke", "--engine", engine)
    assert done.returncode == 1
    assert "run `repro engine build`" in done.stderr
    assert not list(tmp_path.glob("results/*/*"))


def test_fig_4_leaves_the_engine_out_if_asked_to(run: Run, tmp_path: Path) -> None:
    missed = run("run", "elasticzo_fig4", "--profile", "smoke")
    assert missed.returncode == 1
    assert missed.stderr.startswith("repro: error: ")
    assert "or leave the engine's memory out, with --no-engine" in missed.stderr
    assert len(missed.stderr.splitlines()) == 1
    assert not list(tmp_path.glob("results/*/*"))
    short = ("--profile", "smoke", "--methods", "full_zo")
    done = run("run", "elasticzo_fig4", *short, "--no-engine")
    assert done.returncode == 0, done.stderr
    kinds = {record.kind for record in read_run(Path(done.stdout.strip()))}
    assert "measured" in kinds
    assert "engine" not in kinds


def test_fig_7_is_timed_without_it_if_asked_to(run: Run) -> None:
    missed = run("run", "elasticzo_fig7", "--profile", "smoke")
    assert missed.returncode == 1
    assert "or time PyTorch alone, with --engines torch" in missed.stderr
    done = run("run", "elasticzo_fig7", "--profile", "smoke", "--engines", "torch")
    assert done.returncode == 0, done.stderr
