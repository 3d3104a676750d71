import errno
import hashlib
import json
import os
import subprocess
import sys
import textwrap
import types
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repro.core.errors import ReproError, UsageError
from repro.data import cache, catalog
from repro.data.base import (
    ArraySpec,
    BadContentError,
    DataSet,
    FileSpec,
    Request,
    Source,
    SourceUnavailableError,
    Spec,
    Value,
    derived,
    generated,
    mirror,
)

GOOD = np.arange(12, dtype=np.uint8).reshape(3, 4)
SPEC = ArraySpec((3, 4), "|u1", hashlib.sha256(bytes(range(12))).hexdigest())

Register = Callable[..., DataSet]


def good(_: Request) -> Mapping[str, Value]:
    return {"values": GOOD}


def offline(_: Request) -> Mapping[str, Value]:
    raise SourceUnavailableError("no route to host")


def one_byte_changed(_: Request) -> Mapping[str, Value]:
    changed = GOOD.copy()
    changed[2, 3] ^= 1
    return {"values": changed}


def toy(
    *sources: Source,
    name: str = "toy",
    content: Mapping[str, Spec] | None = None,
    terms: str | None = None,
) -> DataSet:
    content = {"values": SPEC} if content is None else content
    return DataSet(name, "A toy set", "MIT", content, sources, terms)


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Register:
    monkeypatch.setenv("REPRO_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("REPRO_DATA_MIRROR", raising=False)

    def add(*sets: DataSet) -> DataSet:
        for dataset in sets:
            module = types.ModuleType(f"toy_{dataset.name}")
            module.__dict__["DATA_SETS"] = (dataset,)
            monkeypatch.setitem(sys.modules, module.__name__, module)
            monkeypatch.setitem(catalog.MODULES, dataset.name, module.__name__)
        return sets[0]

    return add


def files_of(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("*") if path.is_file())


def test_sources_are_tried_in_order_until_one_delivers_the_pinned_content(
    register: Register, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = register(toy(Source("a", offline), Source("b", one_byte_changed), Source("c", good)))
    directory = cache.fetch("toy")
    assert directory == cache.location(dataset)
    assert files_of(directory) == ["content.json", "values.npy"]
    assert json.loads((directory / "content.json").read_text())["source"] == "c"
    loaded = cache.load("toy")["values"]
    np.testing.assert_array_equal(loaded, GOOD)
    assert isinstance(loaded, np.memmap)
    assert not loaded.flags.writeable
    progress = capsys.readouterr().err
    assert "toy: not from a: no route to host" in progress
    assert "toy: not from b: values: SHA-256 is" in progress


def test_when_all_fail_the_error_lists_each_source_and_reason_and_the_way_out(
    register: Register,
) -> None:
    dataset = register(
        toy(
            Source("hub", offline),
            Source("pypi", one_byte_changed),
            mirror("toy", lambda _: {}),
        )
    )
    with pytest.raises(ReproError) as caught:
        cache.fetch("toy")
    message = str(caught.value)
    assert "hub: no route to host" in message
    assert "pypi: values: SHA-256 is" in message
    assert SPEC.sha256 in message
    assert "mirror: no mirror directory given" in message
    assert "--mirror DIR or REPRO_DATA_MIRROR" in message
    assert not cache.is_cached(dataset)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (GOOD.reshape(4, 3), "expected shape (3, 4) of |u1, got (4, 3)"),
        (GOOD.astype(np.int32), "got (3, 4) of <i4"),
        (Path("values"), "expected an array"),
    ],
)
def test_content_of_another_kind_is_refused(register: Register, value: Value, reason: str) -> None:
    dataset = register(toy(Source("a", lambda _: {"values": value})))
    with pytest.raises(ReproError) as caught:
        cache.fetch("toy")
    assert reason in str(caught.value)
    assert not cache.is_cached(dataset)


def test_content_with_missing_or_extra_names_is_refused(register: Register) -> None:
    register(toy(Source("a", lambda _: {"values": GOOD, "more": GOOD})))
    with pytest.raises(ReproError, match="expected \\['values'\\], got \\['more', 'values'\\]"):
        cache.fetch("toy")


def test_a_broken_connection_keeps_the_partial_download_and_bad_content_does_not(
    register: Register, tmp_path: Path
) -> None:
    def partial(request: Request) -> Mapping[str, Value]:
        (request.workspace / "half").write_bytes(b"0123")
        return offline(request)

    def corrupt(request: Request) -> Mapping[str, Value]:
        (request.workspace / "whole").write_bytes(b"01234567")
        return one_byte_changed(request)

    register(toy(Source("slow", partial), Source("wrong", corrupt)))
    with pytest.raises(ReproError):
        cache.fetch("toy")
    assert [name for name in files_of(tmp_path) if name != "toy.lock"] == ["half"]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError("Not enough free space to write 12 bytes after offset 128"),  # NumPy's
    ],
)
def test_full_disk_is_explained_and_leaves_nothing(
    register: Register, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: OSError
) -> None:
    dataset = register(toy(Source("a", good), Source("b", good)))

    def full(path: Path, *_: object, **__: object) -> None:
        path.write_bytes(b"half")
        raise error

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(ReproError) as caught:
        cache.fetch("toy")
    message = str(caught.value)
    assert (error.strerror or str(error)) in message
    assert "12 B" in message
    assert "REPRO_DATA_DIR" in message
    assert not cache.is_cached(dataset)
    assert [name for name in files_of(tmp_path) if name != "toy.lock"] == []


@pytest.mark.skipif(not Path("/sys/kernel").is_dir(), reason="needs Linux's sysfs")
def test_a_directory_that_cannot_be_written_is_explained(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(toy(Source("a", good)))
    monkeypatch.setenv("REPRO_DATA_DIR", "/sys/kernel/repro")  # read-only even for root
    with pytest.raises(
        ReproError, match=r"cannot keep toy .* in /sys/kernel/repro.*REPRO_DATA_DIR"
    ):
        cache.fetch("toy")


def test_a_set_already_there_needs_neither_source_nor_a_writable_cache(
    register: Register, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(toy(Source("a", good)))
    cache.fetch("toy")
    monkeypatch.setattr(cache, "FileLock", None)  # would fail if it were used
    cache.fetch("toy")
    assert cache.load("toy").keys() == {"values"}


def test_verify_finds_a_changed_byte_and_fetch_repairs_it(register: Register) -> None:
    dataset = register(toy(Source("a", good)))
    path = cache.fetch("toy") / "values.npy"
    cache.verify("toy")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(
        BadContentError, match=r"toy is damaged: values: SHA-256 is .*repro data fetch"
    ):
        cache.verify("toy")
    cache.fetch("toy")
    cache.verify("toy")
    assert files_of(cache.location(dataset)) == ["content.json", "values.npy"]


def test_verify_finds_a_truncated_array(register: Register) -> None:
    register(toy(Source("a", good)))
    path = cache.fetch("toy") / "values.npy"
    path.write_bytes(path.read_bytes()[:-1])
    for read in (cache.verify, cache.load):
        with pytest.raises(BadContentError, match=r"not an array file.*repro data fetch"):
            read("toy")


def test_arrays_of_a_split_with_other_numbers_of_items_are_refused(register: Register) -> None:
    specs = {name: replace(SPEC, sha256=None) for name in ("train_images", "train_labels")}
    both = dict.fromkeys(specs, GOOD)
    register(toy(Source("a", lambda _: both), content=specs))
    directory = cache.fetch("toy")
    np.save(directory / "train_images.npy", GOOD[:2])
    with pytest.raises(BadContentError, match=r"its train arrays .* \(2, 3\); .*data fetch toy"):
        cache.load("toy")


def test_verify_of_a_set_that_is_not_there_says_how_to_get_it(register: Register) -> None:
    register(toy(Source("a", good)))
    with pytest.raises(BadContentError, match="repro data fetch toy"):
        cache.verify("toy")


def test_an_unpinned_array_is_held_to_the_hash_of_its_first_fetch(register: Register) -> None:
    register(
        toy(generated(lambda: {"values": GOOD}), content={"values": ArraySpec((3, 4), "|u1", None)})
    )
    path = cache.fetch("toy") / "values.npy"
    cache.verify("toy")
    np.save(path, GOOD[::-1])
    with pytest.raises(BadContentError, match="differs from what was fetched"):
        cache.verify("toy")


def test_terms_must_be_accepted(register: Register) -> None:
    dataset = register(toy(Source("a", good), terms="https://example.org/terms"))
    with pytest.raises(
        UsageError, match=r"https://example\.org/terms.*repro data fetch \S+ --accept-terms"
    ):
        cache.fetch("toy")
    assert not cache.is_cached(dataset)
    cache.fetch("toy", accept_terms=True)
    cache.fetch("toy")


def test_a_mirror_that_is_no_directory_is_a_usage_error(
    register: Register, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    register(toy(Source("a", good)))
    with pytest.raises(UsageError, match="not a directory"):
        cache.fetch("toy", tmp_path / "absent")
    monkeypatch.setenv("REPRO_DATA_MIRROR", str(tmp_path / "absent"))
    with pytest.raises(UsageError, match="not a directory"):
        cache.fetch("toy")


def test_a_file_of_the_mirror_is_copied_and_verified(register: Register, tmp_path: Path) -> None:
    directory = tmp_path / "mirror" / "toy"
    directory.mkdir(parents=True)
    (directory / "model.bin").write_bytes(b"weights")
    spec = FileSpec(7, hashlib.sha256(b"weights").hexdigest(), ".bin")
    register(
        toy(
            mirror("toy", lambda path: {"model": path / "model.bin"}),
            content={"model": spec},
        )
    )
    cache.fetch("toy", directory.parent)
    assert cache.load("toy")["model"].read_bytes() == b"weights"
    assert (directory / "model.bin").read_bytes() == b"weights"


def test_a_truncated_file_of_the_mirror_is_refused(register: Register, tmp_path: Path) -> None:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "model.bin").write_bytes(b"weigh")
    spec = FileSpec(7, hashlib.sha256(b"weights").hexdigest(), ".bin")
    dataset = register(
        toy(
            mirror("toy", lambda directory: {"model": directory / "model.bin"}),
            content={"model": spec},
        )
    )
    with pytest.raises(ReproError, match="mirror: model: SHA-256 is"):
        cache.fetch("toy", tmp_path)
    (tmp_path / "toy" / "model.bin").unlink()
    with pytest.raises(ReproError, match=r"mirror: .*model\.bin: No such file or directory"):
        cache.fetch("toy", tmp_path)
    assert not cache.is_cached(dataset)


def test_a_derived_set_fetches_its_base_from_the_same_mirror(
    register: Register, tmp_path: Path
) -> None:
    (tmp_path / "base").mkdir()
    np.save(tmp_path / "base" / "x.npy", GOOD)
    base = toy(mirror("base", lambda path: {"values": np.load(path / "x.npy")}), name="base")
    flipped = ArraySpec((3, 4), "|u1", hashlib.sha256(GOOD[::-1].tobytes()).hexdigest())
    source = derived("base", lambda content: {"values": content["values"][::-1]})
    register(toy(source, content={"values": flipped}), base)
    cache.fetch("toy", tmp_path)
    np.testing.assert_array_equal(cache.load("toy")["values"], GOOD[::-1])


def test_a_damaged_base_is_fetched_again_for_a_derived_set(register: Register) -> None:
    base = toy(Source("a", good), name="base")
    register(toy(derived("base", dict), name="toy"), base)
    path = cache.fetch("base") / "values.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    cache.fetch("toy")
    for name in ("base", "toy"):
        cache.verify(name)
        np.testing.assert_array_equal(cache.load(name)["values"], GOOD)


def test_only_sets_that_have_a_mirror_are_told_of_one(register: Register, tmp_path: Path) -> None:
    register(toy(Source("a", offline)), toy(mirror("x", lambda _: {}), name="mirrored"))
    with pytest.raises(ReproError) as caught:
        cache.fetch("toy")
    assert "--mirror" not in str(caught.value)
    with pytest.raises(ReproError, match="--mirror DIR or REPRO_DATA_MIRROR"):
        cache.fetch("mirrored", tmp_path)


def test_a_set_that_was_moved_and_linked_is_repaired_where_it_is(
    register: Register, tmp_path: Path
) -> None:
    register(toy(Source("a", good)))
    place, elsewhere = cache.fetch("toy"), tmp_path / "another disk"
    elsewhere.mkdir()
    moved = place.rename(elsewhere / "toy")
    place.symlink_to(moved)
    (moved / "values.npy").write_bytes(b"damaged")
    cache.fetch("toy")
    cache.verify("toy")
    assert place.is_symlink()
    assert sorted(path.name for path in moved.iterdir()) == ["content.json", "values.npy"]
    assert list(elsewhere.iterdir()) == [moved]


@pytest.mark.parametrize("is_far", [False, True])
def test_what_a_source_made_for_the_set_is_moved_and_not_copied(
    register: Register, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_far: bool
) -> None:
    """To another file system it has to be copied."""
    numbers = []
    rename = os.rename

    def far(source: Any, target: Any) -> None:
        if Path(source).name == "model.bin":
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        rename(source, target)

    if is_far:
        monkeypatch.setattr(os, "rename", far)

    def make(request: Request) -> Mapping[str, Value]:
        path = request.workspace / "model.bin"
        path.write_bytes(b"weights")
        numbers.append(path.stat().st_ino)
        return {"model": path}

    spec = FileSpec(7, hashlib.sha256(b"weights").hexdigest(), ".bin")
    register(toy(Source("a", make), content={"model": spec}))
    cache.fetch("toy")
    path = cache.load("toy")["model"]
    assert path.read_bytes() == b"weights"
    assert (path.stat().st_ino == numbers[0]) is not is_far
    assert not (tmp_path / "data" / ".downloads" / "toy").exists()


def test_another_specification_is_another_place() -> None:
    before = cache.location(toy(Source("a", good)))
    after = cache.location(
        toy(Source("a", good), content={"values": ArraySpec((3, 4), "|u1", "0" * 64)})
    )
    assert before != after


def test_names_are_found_with_either_separator_and_near_names_suggested() -> None:
    assert catalog.load_set("yesno_facts").name == "yesno-facts"
    assert catalog.load_set("fashion-mnist").name == "fashion_mnist"
    with pytest.raises(UsageError, match="did you mean fashion_mnist"):
        catalog.load_set("fashionmnist")


TWO_PROCESSES = """
    import os, sys, time, types
    import numpy as np
    from pathlib import Path
    from repro.data import cache, catalog
    from repro.data.base import ArraySpec, DataSet

    class Slow:
        name = "slow"
        def fetch(self, request):
            with Path(sys.argv[1]).open("a") as log:
                log.write("fetched\\n")
            while len(list(Path(sys.argv[1]).parent.glob("*.started"))) < 2:
                time.sleep(0.01)
            time.sleep(0.2)  # the other process, which has started, comes to the lock
            return {"values": np.zeros(8, np.uint8)}

    module = types.ModuleType("toy_module")
    content = {"values": ArraySpec((8,), "|u1", None)}
    module.DATA_SETS = (DataSet("toy", "", "", content, (Slow(),)),)
    sys.modules["toy_module"] = module
    catalog.MODULES["toy"] = "toy_module"
    (Path(sys.argv[1]).parent / f"{os.getpid()}.started").touch()
    assert cache.load("toy")["values"].sum() == 0
"""


def test_two_processes_at_once_fetch_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRO_DATA_DIR", str(tmp_path / "data"))
    log = tmp_path / "log"
    command = [sys.executable, "-c", textwrap.dedent(TWO_PROCESSES), str(log)]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    assert [(process.communicate()[1], process.returncode)[1] for process in processes] == [0, 0]
    assert log.read_text() == "fetched\n"


def test_a_missing_array_file_is_named(register: Register) -> None:
    register(toy(Source("a", good)))
    (cache.fetch("toy") / "values.npy").unlink()
    with pytest.raises(BadContentError, match=r"values\.npy"):
        cache.load("toy")
