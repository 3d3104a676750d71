"""``repro gpu`` on a machine without a GPU: the plan, the order, what is left, what is resumed."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from repro import gpu, harness
from repro.artifacts import mezo_fig3_gpu
from repro.artifacts.shared.decoder_steps import simulate_decoder_step
from repro.cli import main
from repro.core.errors import ReproError
from repro.harness import is_of_profile
from repro.measurement import device, environment
from repro.memory.shape import LLAMA2_7B
from repro.memory.step import StepSpec

SMOKE = mezo_fig3_gpu.ARTIFACT.profiles["smoke"]
TINY = replace(SMOKE, parts=("simulated",), contexts=(64,), depths=(), hiddens=())  # type: ignore[type-var]


@pytest.fixture
def as_if_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pass the session's check of the device; jobs of the tests run on the host."""
    monkeypatch.setattr(device, "require_device", lambda name: None)


def job(name: str = "tiny", minutes: float = 1, config: Any = TINY) -> gpu.GpuJob:
    return gpu.GpuJob(name, "a tiny model", minutes, 1, mezo_fig3_gpu.ARTIFACT, config)


def test_jobs_come_by_value_for_each_minute() -> None:
    rates = [job.value / job.minutes for job in gpu.ordered()]
    assert rates == sorted(rates, reverse=True)
    assert len({job.name for job in gpu.JOBS}) == len(gpu.JOBS)


def test_a_session_without_a_gpu_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    if device_count():
        pytest.skip("there is a CUDA device")
    assert main(["gpu", "--minutes", "1"]) == 2
    assert "no CUDA device" in capsys.readouterr().err


def test_dry_run_lists_every_job_and_what_to_copy(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpu", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert all(job.name in shown for job in gpu.JOBS)
    assert 1_000_000 < gpu.source_bytes() < 60_000_000


def test_an_unknown_job_gets_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gpu", "--dry-run", "--only", "steps-7"]) == 2
    assert "steps-7B" in capsys.readouterr().err


@pytest.mark.parametrize("context", [2048, 8192])
def test_planned_memory_is_the_simulated_steps(context: int) -> None:
    """The plan's memory against the real step of Llama 2 7B under fake tensors."""
    spec = StepSpec(replace(LLAMA2_7B, context=context), "bp", "sdpa", "float16")
    planned = gpu.planned_bytes(layers=32, hidden=4096, context=context, method="bp")
    assert planned == pytest.approx(simulate_decoder_step(spec)["peak_bytes"], rel=0.02)


def test_every_job_makes_records_of_its_profile() -> None:
    """Others would be recorded as custom, which no statement is judged by."""
    for one in gpu.JOBS:
        if one.artifact is not None:
            assert one.config is not None
            assert is_of_profile(one.artifact, one.profile, one.config), one.name


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The results and the messages of a session with a tiny job and one that is too long."""
    results, said = tmp_path_factory.mktemp("results"), list[str]()
    jobs = [job(), job("large", minutes=60, config=replace(TINY, contexts=(32,)))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device, "require_device", lambda name: None)
        assert not gpu.run_session(5, results, jobs, said.append)
    return results, said


def test_a_session_runs_the_jobs_that_fit(recorded: tuple[Path, list[str]]) -> None:
    results, said = recorded
    (path,) = (results / "mezo_fig3_gpu").glob("*.jsonl")
    assert {json.loads(line)["kind"] for line in path.read_text().splitlines()} == {"simulated"}
    assert any(line.startswith("left: large") for line in said)


@pytest.mark.usefixtures("as_if_cuda")
def test_a_job_is_done_once_and_left_without_its_data(
    recorded: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRO_DATA_DIR", str(tmp_path))
    said: list[str] = []
    other = replace(TINY, contexts=(32,))
    jobs = [replace(job("unfed", config=other), data=("mnist", "shapes40")), job()]
    assert not gpu.run_session(5, recorded[0], jobs, said.append)
    assert any(line.startswith("unfed: not in the data cache: mnist, shapes40") for line in said)
    assert "tiny: recorded before" in said
    assert len(list((recorded[0] / "mezo_fig3_gpu").glob("*.jsonl"))) == 1


@pytest.mark.usefixtures("as_if_cuda")
def test_a_job_that_fails_in_any_way_leaves_the_others_their_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def failing(_: Any, __: str, config: Any, ___: Path) -> str:
        ran.append(config.contexts)
        raise RuntimeError("no kernel image") if len(ran) == 1 else ReproError("damaged")

    monkeypatch.setattr(harness, "run_artifact", failing)
    said: list[str] = []
    jobs = [job("first"), job("second", config=replace(TINY, contexts=(32,)))]
    assert not gpu.run_session(5, tmp_path, jobs, said.append)
    assert len(ran) == 2
    assert "first: failed: RuntimeError: no kernel image" in said
    assert "second: failed: damaged" in said


@pytest.mark.usefixtures("as_if_cuda")
def test_a_damaged_record_of_one_artifact_ends_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    monkeypatch.setattr(harness, "run_artifact", lambda artifact, *_: ran.append(artifact.slug))
    damaged = tmp_path / "mezo_fig3_gpu" / "quick-20260101T000000Z-0000000.jsonl"
    damaged.parent.mkdir()
    damaged.write_text('{"schema_version": 1, "arti')
    said: list[str] = []
    first, other = job("first"), job("other")
    assert other.artifact is not None
    other = replace(other, artifact=replace(other.artifact, slug="another"))
    assert not gpu.run_session(5, tmp_path, [first, other], said.append)
    assert ran == ["another"]
    assert any(line.startswith("first: failed: ") for line in said)


def test_another_gpus_records_are_not_taken_for_done(recorded: tuple[Path, list[str]]) -> None:
    here = environment.capture()
    assert gpu.is_recorded(job(), recorded[0], here)
    for change in ({"gpu": "another"}, {"source_sha256": "of other code"}):
        other = msgspec.structs.replace(here, **change)
        assert not gpu.is_recorded(job(), recorded[0], other)


def device_count() -> int:
    import torch

    return torch.cuda.device_count()
