"""``repro new`` in a copy of the suite: what it writes works, and nothing else is to be done."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from repro.cli import main
from repro.commands.new import _registered

ROOT = Path(__file__).parents[1]
CLAIM = """
CLAIMS = (
    *CLAIMS,
    Claim("A99", "mezo", "9", "mezo_fig9", "The square of 2", 4, "x", "analytic"),
)
"""


@pytest.mark.parametrize(
    ("slug", "before"),
    [("mezo_fig9", "    mezo_step_time,\n"), ("foo_fig1", "    elasticzo_fig7,\n")],
)
def test_an_artifact_is_registered_last_of_its_paper_or_of_all(slug: str, before: str) -> None:
    index = (ROOT / "repro/artifacts/index.py").read_text(encoding="utf-8")
    changed = _registered(index, slug, slug.partition("_")[0])
    assert f"{before}    {slug},\n" in changed
    assert changed.count(f"    {slug},\n") == 2  # it is imported, too
    assert changed.replace(f"    {slug},\n", "") == index
    compile(changed, "index.py", "exec")


@pytest.mark.slow
def test_a_new_artifact_touches_at_most_five_files(tmp_path: Path) -> None:
    names = ("repro", "tests", "toxfile.py", "tox.ini", "pyproject.toml", ".github")
    for name in names:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, tmp_path / name)
    before = contents(tmp_path)

    def python(*arguments: str) -> str:
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "MPLBACKEND": "agg"}
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    python("-m", "repro", "new", "mezo_fig9")
    with (tmp_path / "repro/claims/mezo.py").open("a") as claims:
        claims.write(CLAIM)
    after = contents(tmp_path)
    assert {name for name in after if after[name] != before.get(name)} == {
        "repro/artifacts/index.py",
        "repro/artifacts/mezo_fig9.py",
        "repro/artifacts/mezo_fig9.md",
        "repro/claims/mezo.py",
        "tests/test_mezo_fig9.py",
    }
    assert "mezo_fig9" in python("-m", "repro", "list")
    said = python("-m", "repro", "run", "mezo_fig9", "--profile", "smoke", "--report", "--out", "o")
    assert "A99" in said
    about_code = "index_names or tox_has or (mezo_fig9 and (whole or selector or says_how))"
    python("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_mezo_fig9.py")
    python("-m", "pytest", "-q", "tests/test_architecture.py", "-k", about_code)
    python("-m", "ruff", "check", "--no-cache", "repro/artifacts", "tests/test_mezo_fig9.py")
    python(
        "-m",
        "ruff",
        "format",
        "--no-cache",
        "--check",
        "repro/artifacts",
        "tests/test_mezo_fig9.py",
    )


@pytest.mark.parametrize(
    ("slug", "message"),
    [
        ("mezo_fig3", "the artifact 'mezo_fig3' exists already"),
        ("elasticzo_misses", "'elasticzo_misses' exists already, or one had that name"),
        ("elasticzo_memory_figures", "tests/test_elasticzo_memory_figures.py: exists already"),
        ("lora_fig1", "'lora_fig1' is not a name for an artifact; give mezo_... or elasticzo_..."),
        ("mezo_Fig9", "is not a name for an artifact"),
    ],
)
def test_names_that_cannot_be_are_refused(
    slug: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["new", slug]) == 2
    assert message in capsys.readouterr().err


def contents(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
