"""Without tools, and without the engine, everything says what is missing and how to get it."""

import subprocess
import sys
from pathlib import Path

import pytest

from repro.cli import main
from repro.ondevice import build as build_module
from repro.ondevice.build import EngineError, ToolsMissingError, build, load, module_path


@pytest.fixture(autouse=True)
def _nothing_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_ENGINE_DIR", str(tmp_path / "engine"))
    monkeypatch.delitem(sys.modules, "repro.ondevice._engine", raising=False)


def test_absent_engine_says_how_to_get_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EngineError, match=r"run `repro engine build`.*compiler.*CMake.*nanobind"):
        load()
    assert main(["engine", "info"]) == 1
    assert "repro engine build" in capsys.readouterr().err


def test_a_module_that_cannot_be_loaded_is_named_with_the_way_out() -> None:
    path = module_path()
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(100))  # as from another machine, whose libraries are newer
    path.with_suffix(".size").write_text("100")
    with pytest.raises(EngineError, match=rf"remove {path} and run `repro engine build`"):
        load()


@pytest.mark.parametrize("name", ["CXX", "CXXFLAGS"])
def test_another_compiler_or_other_flags_make_another_engine(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = module_path()
    monkeypatch.setenv(name, "other")
    assert module_path() != before


def test_a_missing_compiler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ToolsMissingError, match=r"no C\+\+ compiler \(no-such-compiler\)"):
        build()


def test_a_missing_cmake_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", "/bin/sh")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ToolsMissingError, match="no CMake"):
        build()


def test_a_failing_build_shows_its_output_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cmake = tmp_path / "cmake"
    cmake.write_text("#!/bin/sh\necho a broken source >&2\nexit 3\n")
    cmake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("CXX", "sh")
    monkeypatch.setattr(build_module.importlib.util, "find_spec", lambda _: object())
    with pytest.raises(EngineError, match="a broken source"):
        build()
    assert not list(module_path().parent.iterdir())


def test_a_module_cut_short_is_not_loaded_and_counts_as_not_built() -> None:
    path = module_path()
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\x7fELF" + bytes(996))
    for size in ("", "5000000"):  # of before sizes were kept, and of the whole module
        path.with_suffix(".size").write_text(size)
        assert not build_module.is_built()
        with pytest.raises(EngineError, match="run `repro engine build`"):
            load()
    path.with_suffix(".size").write_text("1000")
    assert build_module.is_built()


def test_a_directory_that_cannot_be_made_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("REPRO_ENGINE_DIR", str(tmp_path / "file" / "engine"))
    monkeypatch.setenv("CXX", "env sh")  # a launcher and a compiler, as CMake takes them
    with pytest.raises(EngineError, match="set REPRO_ENGINE_DIR to a directory"):
        build()


def test_a_change_of_the_sources_asks_for_a_new_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, text in (("old", "int a;"), ("new", "int b;")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.cpp").write_text(text)
    monkeypatch.setattr(build_module, "SOURCES", tmp_path / "new")
    before = module_path()
    monkeypatch.setattr(build_module, "SOURCES", tmp_path / "old")
    assert module_path() != before
    monkeypatch.setenv("CXX", "clang++")
    assert len({before, module_path()}) == 2


def test_the_package_needs_no_engine_to_be_imported() -> None:
    code = "import repro.cli, repro.ondevice.integer, sys; assert 'nanobind' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
