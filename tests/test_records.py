"""Records: validated on read, atomic, never overwritten."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from repro.core.errors import ReproError
from repro.measurement import environment
from repro.measurement.prior_results import PriorResults
from repro.measurement.records import (
    Record,
    profile_of,
    read_run,
    read_runs,
    run_files,
    single,
    together,
    write_run,
)
from repro.measurement.renamed import PRESENT_SLUGS
from repro.measurement.result_cache import ResultCache
from repro.planner.configurations import architecture
from repro.planner.families import find
from repro.report.runs import current_runs

RESULTS = Path(__file__).parents[1] / "results"


def record(**changes: Any) -> Record:
    values: dict[str, Any] = {
        "schema_version": 1,
        "artifact": "mezo_fig3",
        "profile": "quick",
        "config": {"layers": 32},
        "seed": None,
        "kind": "analytic",
        "point": {"axis": "layers"},
        "metrics": {"bytes": 5, "values": [1.5, 2.5]},
        "utc": "2026-01-02T03:04:05Z",
        "environment": environment.capture(),
    }
    return Record(**values | changes)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    written = [record(), record(point={"axis": "hidden"})]
    path = write_run(tmp_path, written)
    read = read_run(path)
    assert [(r.line, r.lines) for r in read] == [(1, 2), (2, 2)]
    assert [msgspec.structs.replace(r, line=1, lines=1) for r in read] == written
    assert path.name.startswith("quick-20260102T030405Z-")


def test_a_run_is_never_overwritten(tmp_path: Path) -> None:
    path = write_run(tmp_path, [record()])
    before = path.read_bytes()
    with pytest.raises(ReproError, match="exists already and is never overwritten"):
        write_run(tmp_path, [record(metrics={"bytes": 6})])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]  # and nothing half-written beside it


def test_nothing_half_written_is_left_when_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ReproError, match="No space left on device"):
        write_run(tmp_path, [record()])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_a_metric_that_is_no_number_is_not_written(tmp_path: Path, value: float) -> None:
    with pytest.raises(ReproError, match="not a finite number"):
        write_run(tmp_path, [record(metrics={"bytes": [1, value]})])
    assert list(tmp_path.iterdir()) == []


def test_an_empty_run_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ReproError, match="nothing was computed"):
        write_run(tmp_path, [])


def changed(line: bytes, **changes: Any) -> bytes:
    return json.dumps({**json.loads(line), **changes}).encode()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda line: line, r":1: says it is line 1 of 1, is line 1 of 2"),
        (lambda line: line[: len(line) // 2], r":2: truncated line"),
        (lambda line: b"nonsense\n", r":2: not a record"),
        (lambda line: b"\n", r":2: not a record"),
        (lambda line: line.replace(b"mezo", b"m\xffzo"), r":2: not a record: .*invalid start byte"),
        (lambda line: changed(line, seed="three") + b"\n", r":2: not a record.*\$\.seed"),
        (lambda line: changed(line, surplus=1) + b"\n", r":2: not a record.*surplus"),
        (lambda line: changed(line, profile="huge") + b"\n", r":2: profile 'huge' is none of"),
        (
            lambda line: changed(line, schema_version=2) + b"\n",
            r":2: record schema 2 is newer than the 1 this version",
        ),
        (
            lambda line: changed(line, schema_version=9, unheard_of=True) + b"\n",
            r":2: record schema 9 is newer",
        ),
    ],
)
def test_a_bad_line_is_refused_with_file_and_number(
    tmp_path: Path, damage: Any, message: str
) -> None:
    path = write_run(tmp_path, [record()])
    line = path.read_bytes()
    path.write_bytes(line + damage(line))
    with pytest.raises(ReproError, match=message) as caught:
        read_run(path)
    assert path.name in str(caught.value)


def test_a_file_that_lost_whole_lines_is_refused(tmp_path: Path) -> None:
    path = write_run(tmp_path, [record(), record(), record()])
    first, second, _ = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second)
    with pytest.raises(ReproError, match="says it is line 1 of 3, is line 1 of 2"):
        read_run(path)


def test_one_record_of_a_kind() -> None:
    kept = record(kind="search")
    assert single([record(), kept], "search") == kept
    with pytest.raises(ReproError, match="expected one record of kind 'search', found 0"):
        single([record()], "search")


def test_a_file_system_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    path = write_run(tmp_path, [record()])
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(ReproError, match="exists already and is never overwritten"):
        write_run(tmp_path, [record()])


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "quick-20260102T030405Z-nocommit.jsonl"
    path.touch()
    with pytest.raises(ReproError, match="truncated line, empty file, or no file of records"):
        read_run(path)


def test_the_newest_run_of_the_highest_profile_counts(tmp_path: Path) -> None:
    for profile, day in (("paper", 1), ("quick", 2), ("paper", 3), ("smoke", 4), ("custom", 5)):
        utc = f"2026-01-0{day}T00:00:00Z"
        write_run(tmp_path / "elasticzo_fig7", [record(profile=profile, utc=utc)])
    (newest,) = current_runs(tmp_path, "elasticzo_fig7")  # it has no selector fields
    assert newest.name.startswith("paper-20260103")
    assert len(run_files(tmp_path / "elasticzo_fig7")) == 5
    assert current_runs(tmp_path, "elasticzo_fig6") == []


def test_runs_of_all_profiles_are_listed_newest_first(tmp_path: Path) -> None:
    for profile, day in (("paper", 1), ("custom", 2), ("quick", 3), ("gpu-long", 4), ("smoke", 5)):
        utc = f"2026-01-0{day}T00:00:00Z"
        write_run(tmp_path / "mezo_fig3", [record(profile=profile, utc=utc)])
    found = current_runs(tmp_path, "mezo_fig3")  # it has selector fields
    assert [profile_of(path) for path in found] == ["gpu-long", "quick", "paper"]
    for path in found:
        path.unlink()
    assert [profile_of(path) for path in current_runs(tmp_path, "mezo_fig3")] == ["smoke"]
    assert current_runs(tmp_path, "mezo_fig3_gpu") == []


def cells(directory: Path, profile: str, day: int, *made: tuple[str, int | None]) -> Path:
    """Write a run of cells, each a method and a seed; the metric says which run it was."""
    return write_run(
        directory,
        [
            record(
                profile=profile,
                utc=f"2026-01-0{day}T00:00:00Z",
                point={"method": method, "dataset": "mnist"},
                seed=seed,
                metrics={"day": day},
            )
            for method, seed in made
        ],
    )


def standing(paths: list[Path]) -> set[tuple[str, int | None, str, int]]:
    read = [(r.point["method"], r.seed, r.profile, r.metrics["day"]) for r in read_runs(paths)]
    assert len(read) == len(set(read))
    return set(read)


def test_of_several_runs_each_result_stands_at_its_highest_profile(tmp_path: Path) -> None:
    paths = [
        cells(tmp_path, "quick", 1, ("bp", 0), ("bp", 1), ("zo", 0), ("zo", 1)),
        cells(tmp_path, "paper", 2, ("zo", 0)),
        cells(tmp_path, "quick", 3, ("bp", 1), ("zo", 2)),
        cells(tmp_path, "smoke", 4, ("bp", 0), ("cls1", 0)),
    ]
    expected = {
        ("bp", 0, "quick", 1),  # the only quick one of seed 0
        ("bp", 1, "quick", 3),  # run again
        ("zo", 0, "paper", 2),  # one paper seed outranks all quick ones
        ("cls1", 0, "smoke", 4),  # of no higher profile yet
    }
    assert standing(paths) == expected
    assert standing(paths[::-1]) == expected  # whatever the order the files are named in


def test_points_are_the_same_whatever_the_order_of_their_coordinates(tmp_path: Path) -> None:
    written = [
        record(point={"a": 1, "b": 2}, metrics={"n": 1}),
        record(point={"b": 2, "a": 1}, metrics={"n": 2}, utc="2026-02-01T00:00:00Z"),
        record(point={"b": 1, "a": 2}, metrics={"n": 3}, utc="2026-02-02T00:00:00Z"),
        record(kind="simulated", point={"a": 1, "b": 2}, metrics={"n": 4}),
    ]
    paths = [write_run(tmp_path / str(n), [one]) for n, one in enumerate(written)]
    assert {r.metrics["n"] for r in read_runs(paths)} == {2, 3, 4}


def test_one_run_is_read_as_it_is(tmp_path: Path) -> None:
    twice = [record(metrics={"n": 1}), record(metrics={"n": 2}), record(profile="smoke")]
    path = write_run(tmp_path, twice[:2])
    assert read_runs([path]) == read_run(path)
    custom = write_run(tmp_path, [record(profile="custom")])
    assert [r.profile for r in read_runs([custom])] == ["custom"]
    assert read_runs([]) == []


def test_a_file_that_no_run_wrote_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mezo_fig3").mkdir()
    (tmp_path / "mezo_fig3" / "mine.jsonl").touch()
    with pytest.raises(ReproError, match="not the name of a run file"):
        current_runs(tmp_path, "mezo_fig3")


def test_environment_names_no_path_user_or_host() -> None:
    text = msgspec.json.encode(environment.capture()).decode()
    assert str(Path.home()) not in text
    assert os.uname().nodename not in text or len(os.uname().nodename) < 4


def test_the_commit_is_of_the_source_and_not_of_a_folder_it_is_installed_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> None:
        command = ["git", "-C", tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    package = tmp_path / "site-packages" / "repro"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.setattr(environment, "SOURCE", package)
    monkeypatch.setattr(environment, "source_sha256", lambda: "")
    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message=another project's")
    installed = environment.capture()
    assert (installed.commit, installed.dirty) == (None, None)
    git("add", "site-packages")
    git("commit", "--quiet", "--message=the suite's")
    checkout = environment.capture()
    assert checkout.commit is not None
    assert checkout.dirty is False


def test_source_hash_is_of_the_named_packages() -> None:
    whole, part = environment.source_sha256(), environment.source_sha256("memory")
    assert whole != part
    assert part == environment.source_sha256("memory")


def test_stored_points_come_back_under_the_same_identity_only() -> None:
    store = ResultCache("points", {"code": "a"})
    store.put({"n": 1}, {"bytes": 7})
    assert ResultCache("points", {"code": "a"}).get({"n": 1}) == {"bytes": 7}
    assert store.get({"n": 2}) is None
    assert ResultCache("points", {"code": "b"}).get({"n": 1}) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-3],
        *(
            (lambda _, content=content: content)
            for content in (b"{}", b"[]", b"1", b"\xff", b"[" * 100_000, b'{"value": null}')
        ),
    ],
)
def test_a_damaged_point_is_dropped(damage: Callable[[bytes], bytes]) -> None:
    store = ResultCache("points", {})
    store.put({"n": 1}, {"bytes": 7})
    (path,) = store.directory.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert store.get({"n": 1}) is None
    assert not path.exists()


def test_cleared_points_are_gone() -> None:
    store = ResultCache("points", {})
    store.put({"n": 1}, {"bytes": 7})
    store.clear()
    assert store.get({"n": 1}) is None


def test_points_that_another_run_holds_are_not_cleared() -> None:
    one, other = ResultCache("points", {}), ResultCache("points", {})
    with other.held():
        other.put({"n": 1}, {"bytes": 7})
        with one.held():
            assert one.get({"n": 1}) == {"bytes": 7}
            one.clear()
        assert other.get({"n": 1}) == {"bytes": 7}
        with one.held():  # everything was recorded, so it read and wrote no point
            one.clear()
        assert other.get({"n": 1}) == {"bytes": 7}
        other.clear()
        assert other.get({"n": 1}) is None


@pytest.mark.parametrize(
    ("trained", "named"), [("modelnet40_hdf5", "modelnet40_hdf5"), ("mnist", "shapes40")]
)
def test_clouds_of_older_records_are_the_set_that_was_trained_on(
    trained: str, named: str, tmp_path: Path
) -> None:
    old = record(config={"datasets": ["mnist", "clouds"]}, point={"dataset": trained})
    path = write_run(tmp_path, [old])
    before = path.read_bytes()
    assert [read.config for read in read_run(path)] == [{"datasets": ["mnist", named]}]
    assert path.read_bytes() == before
    committed = min(Path(__file__).parents[1].glob("results/elasticzo_table1/hours-2026*.jsonl"))
    assert {tuple(read.config["datasets"]) for read in read_run(committed)} == {("shapes40",)}


def test_a_former_setting_of_fine_tuning_is_read_by_its_present_name() -> None:
    name = "quick-20261123T124808Z-17cb310.jsonl"
    committed = Path(__file__).parents[1] / "results" / "mezo_fig4" / name
    lines = committed.read_text(encoding="utf-8").splitlines()
    raw = [json.loads(line)["metrics"].get("settings", {}) for line in lines]
    present = [read.metrics.get("settings", {}) for read in read_run(committed)]
    former = [settings.get("helped") for settings in raw]
    assert [settings.get("native_passes") for settings in present] == former
    assert {True, False} & set(former)
    assert not any("helped" in settings for settings in present)


@pytest.mark.parametrize("present", sorted(set(PRESENT_SLUGS.values())))
def test_records_of_an_artifact_under_its_former_name_are_read(present: str) -> None:
    former = {old for old, new in PRESENT_SLUGS.items() if new == present}
    for path in run_files(RESULTS / present):
        written = {json.loads(line)["artifact"] for line in path.read_bytes().splitlines()}
        assert written <= {present, *former}
        assert {read.artifact for read in read_run(path)} == {present}


def test_records_of_integer_losses_under_their_former_name_are_read() -> None:
    """What was ``int8s`` is ``int8_star`` wherever a record names a precision; the rest is kept."""
    seen = 0
    for path in run_files(RESULTS / "elasticzo_table1"):
        raw = [json.loads(line) for line in path.read_bytes().splitlines()]
        for old, read in zip(raw, read_run(path), strict=True):
            if old["point"]["precision"] != "int8s":
                continue
            seen += 1
            assert read.point == {**old["point"], "precision": "int8_star"}
            assert read.metrics["settings"]["precision"] == "int8_star"
            assert "int8s" not in read.config["precisions"]
            assert read.metrics["test_accuracy"] == old["metrics"]["test_accuracy"]
    assert seen


def test_plans_that_do_not_state_it_get_the_size_of_a_models_body() -> None:
    found = {}
    for path in (Path(__file__).parents[1] / "results" / "mezo_fig4").glob("hours-*.jsonl"):
        for read in read_run(path):
            if read.kind == "plan":
                found[read.point["model"]] = read.metrics["body_parameters"]
    published = {"qwen2.5-coder-1.5b": "qwen2.5-1.5b"}  # of the same shape
    assert found
    for model, body in found.items():
        member = find(published.get(model, model))
        assert member is not None
        config = architecture(member.config)
        assert body == config.layers * config.block_parameters + config.hidden  # and the last norm


def test_a_record_without_what_its_kind_has_is_refused(tmp_path: Path) -> None:
    made = record(artifact="elasticzo_int8_sign", metrics={})
    with pytest.raises(ReproError, match="a record lacks what others of its kind have"):
        read_run(write_run(tmp_path, [made]))


@pytest.mark.parametrize("profile", ["week", "paper"])
def test_unknown_profile_and_unreadable_file_are_refused(profile: str, tmp_path: Path) -> None:
    name = f"{profile}-20260101T000000Z-abcdef1"
    (tmp_path / f"{name}.jsonl").mkdir()
    with pytest.raises(ReproError, match=f"{name}.jsonl: (not the name|cannot be read)"):
        read_runs(run_files(tmp_path))


def test_a_file_of_another_profile_or_of_two_artifacts_is_refused(tmp_path: Path) -> None:
    path = write_run(tmp_path, [record(), record()])
    other = path.with_name(path.name.replace(record().profile, "smoke", 1))
    path.rename(other)
    with pytest.raises(ReproError, match="the profile in its name"):
        read_run(other)
    mixed = write_run(tmp_path, [record(), msgspec.structs.replace(record(), artifact="another")])
    with pytest.raises(ReproError, match="a record of another"):
        read_run(mixed)


def test_dirty_records_do_not_hide_clean_ones(tmp_path: Path) -> None:
    clean = msgspec.structs.replace(record().environment, dirty=False)
    made = msgspec.structs.replace(record(), environment=clean)
    write_run(tmp_path, [made])
    dirty = msgspec.structs.replace(clean, dirty=True)
    write_run(
        tmp_path,
        [msgspec.structs.replace(made, environment=dirty, utc="2099-01-02T03:04:05Z")],
    )
    prior = PriorResults.of(tmp_path, made.profile, {}, settings_tell=True)
    found = prior.metrics(made.kind, made.point, made.seed, made.metrics.get("settings"))
    assert found == made.metrics


def test_a_result_without_settings_answers_for_the_same_configuration_only(tmp_path: Path) -> None:
    clean = msgspec.structs.replace(record().environment, dirty=False)
    made = [
        msgspec.structs.replace(
            record(), environment=clean, config={"seconds": 15, "seeds": [0]}, kind=kind,
            metrics=metrics,
        )
        for kind, metrics in (("grid", {"loss": 1.0}), ("run", {"settings": {"lr": 0.1}}))
    ]  # fmt: skip
    write_run(tmp_path, made)

    def found(seconds: int, *, settings_tell: bool = True) -> list[bool]:
        having = {"seconds": seconds}
        prior = PriorResults.of(tmp_path, made[0].profile, having, settings_tell=settings_tell)
        return [
            prior.metrics(one.kind, one.point, one.seed, one.metrics.get("settings")) is not None
            for one in made
        ]

    assert found(15) == [True, True]
    assert found(7) == [False, True]
    assert found(7, settings_tell=False) == [False, False]


def test_of_runs_on_clouds_the_one_that_got_farthest_counts() -> None:
    def cloud(epochs: int, done: int, utc: str) -> Record:
        metrics = {"settings": {"points": 1024, "epochs": epochs}, "seconds": [1.0] * done}
        return msgspec.structs.replace(
            record(), kind="run", metrics=metrics, utc=f"2026-01-0{utc}T00:00:00Z"
        )

    diverged, whole = cloud(200, 10, "1"), cloud(100, 100, "2")
    assert list(together([[diverged], [whole]])) == [whole]
    longer = cloud(200, 200, "1")
    assert list(together([[longer], [whole]])) == [longer]
