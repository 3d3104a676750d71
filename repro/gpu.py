"""Run the measurements that need a GPU, the most valuable first, within a given time.

Jobs are ordered by value per minute. A job with a record of the same code on the same GPU is done;
a killed job resumes from its finished points.
"""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from repro.artifacts import (
    elasticzo_table1,
    mezo_fig3_gpu,
    mezo_fig4,
    mezo_step_time,
    zo_methods,
)
from repro.artifacts.base import Artifact, Config
from repro.core.errors import ReproError
from repro.core.names import IMAGE_SETS, Precision
from repro.core.processes import run_command
from repro.data import cache
from repro.data.catalog import load_set

if TYPE_CHECKING:
    from repro.measurement.environment import Environment
    from repro.measurement.records import Profile


@dataclass(frozen=True)
class GpuJob:
    """One run of an artifact, or of the tests."""

    name: str
    shows: str
    """What the job shows, in one line."""
    minutes: float
    """Time on an H100: estimated for Table 1, Fig. 4, zo-variants and steps-7B, else measured."""
    value: float
    """How much the job shows, by our judgement; jobs run by value a minute."""
    artifact: Artifact | None = None
    """The artifact to run; ``None`` means the tests."""
    config: Config | None = None
    largest: dict[str, Any] | None = None
    """The step that needs the most memory and still fits 80 GB: arguments of ``planned_bytes``."""
    profile: "Profile" = "paper"
    """The artifact's profile; ``config`` is that profile with some runs left out."""
    data: tuple[str, ...] = ()
    """Data sets and models of ``repro data list`` that must be in the cache."""

    def missing(self) -> list[str]:
        """Return the data missing in the cache; the job is then skipped, not kept waiting."""
        return [name for name in self.data if not cache.is_cached(load_set(name))]


PACKAGES = ("docstring-parser", "gguf", "msgspec", "pebble", "platformdirs", "typeguard", "tyro")
"""Packages required besides torch, transformers, peft and pytest."""
TEST_PACKAGES = ("hypothesis", "matplotlib", "scipy")
"""Further packages that the GPU tests require."""
SOURCE = ("repro", "tests", "pyproject.toml", "constraints.txt")
"""Files of the clone that a job needs."""


def _fig3(**chosen: Any) -> Config:  # noqa: ANN401 - fields of the configuration
    none: dict[str, Any] = {"contexts": (), "depths": (), "hiddens": (), "fig4_models": ()}
    return replace(mezo_fig3_gpu.PAPER, parts=("measured",), **none | chosen)


def _table1(datasets: tuple[elasticzo_table1.DataSetName, ...], *precisions: Precision) -> Config:
    return replace(
        elasticzo_table1.PAPER,
        datasets=datasets,
        precisions=precisions,
        seeds=(0,),
        device="cuda",
    )


_FIRST_METHODS = ("mezo", "mezo_signs", "fzoo", "elasticzo", "bp", "lora")
_VARIANTS = ("mezo_sign", "mezo_one_sided", "mezo_sparse", "lozo", "subzero", "meazo")
JOBS: tuple[GpuJob, ...] = (
    GpuJob("tests", "the suite's GPU tests; integer training equal to the host's", 2.5, 3),
    GpuJob(
        "fig3-contexts",
        "Fig. 3 measured over N on Llama 2 7B (A1, A3)",
        1.7,
        8,
        mezo_fig3_gpu.ARTIFACT,
        _fig3(contexts=mezo_fig3_gpu.PAPER.contexts),
        {"layers": 32, "hidden": 4096, "context": 32768, "method": "bp_checkpoint"},
    ),
    GpuJob(
        "fig3-depths",
        "Fig. 3 measured over L (A4)",
        0.7,
        6,
        mezo_fig3_gpu.ARTIFACT,
        _fig3(depths=mezo_fig3_gpu.PAPER.depths),
        {"layers": 32, "hidden": 4096, "context": 2048, "method": "bp"},
    ),
    GpuJob(
        "fig3-widths",
        "Fig. 3 measured over D (A7)",
        0.4,
        4,
        mezo_fig3_gpu.ARTIFACT,
        _fig3(hiddens=mezo_fig3_gpu.PAPER.hiddens),
        {"layers": 32, "hidden": 4096, "context": 2048, "method": "bp"},
    ),
    GpuJob(
        "fig4-memory",
        "memory of the three set-ups of Fig. 4, published as 17 GB each (A8)",
        0.7,
        4,
        mezo_fig3_gpu.ARTIFACT,
        _fig3(fig4_models=mezo_fig3_gpu.FIG4_MODELS),
        {"layers": 40, "hidden": 5120, "context": 1024, "batch": 8, "method": "mezo"},
    ),
    GpuJob(
        "table1-fp32",
        "Table 1 in float32, one seed, on images",
        15.0,
        4,
        elasticzo_table1.ARTIFACT,
        _table1(IMAGE_SETS, "fp32"),
        data=IMAGE_SETS,
    ),
    GpuJob(
        "table1-int8",
        "Table 1 in INT8 and INT8*, one seed, on images",
        8.0,
        4,
        elasticzo_table1.ARTIFACT,
        _table1(IMAGE_SETS, "int8", "int8_star"),
        data=IMAGE_SETS,
    ),
    GpuJob(
        "table1-pointnet",
        "Table 1 on ModelNet40, one seed of 200 epochs",
        20.0,
        5,
        elasticzo_table1.ARTIFACT,
        _table1(("modelnet40_points",), "fp32"),
        data=("modelnet40_points",),
    ),
    GpuJob(
        "fig4",
        "Fig. 4 on BoolQ by BP and MeZO at equal memory, three seeds (A9-order, A10)",
        9.0,
        5,
        mezo_fig4.ARTIFACT,
        replace(mezo_fig4.GPU, datasets=("boolq",), arms=("bp", "mezo_1")),
        data=("boolq", "smollm2-135m", "qwen2.5-coder-1.5b"),
        profile="gpu",
    ),
    *(
        GpuJob(
            name,
            f"{shows} on SST-2 at equal forward passes, three seeds",
            2.0 * len(arms),
            len(arms),
            zo_methods.ARTIFACT,
            replace(zo_methods.GPU, arms=arms),
            data=("sst2", "smollm2-135m"),
            profile="gpu",
        )
        for name, shows, arms in (
            ("zo-methods", "MeZO, FZOO, ElasticZO, BP and LoRA", _FIRST_METHODS),
            ("zo-variants", "the other variants of MeZO", _VARIANTS),
        )
    ),
    GpuJob(
        "fig4-long",
        "Fig. 4 on BoolQ by BP and MeZO, 100 seconds each, one seed",
        5.5,
        2,
        mezo_fig4.ARTIFACT,
        mezo_fig4.GPU_LONG,
        data=("boolq", "smollm2-135m", "qwen2.5-coder-1.5b"),
        profile="gpu-long",
    ),
    *(
        GpuJob(
            f"steps-{model}",
            f"step times of all methods at {model}, against two forward passes",
            minutes,
            3,
            mezo_step_time.ARTIFACT,
            replace(mezo_step_time.PAPER, models=(cast("mezo_step_time.ModelName", model),)),
            largest,
        )
        for model, minutes, largest in (
            ("135M", 1.5, {"layers": 30, "hidden": 576, "heads": 9, "vocabulary": 49152}),
            ("1B", 1.5, {"layers": 16, "hidden": 2048, "vocabulary": 128256}),
            ("7B", 4.5, {"layers": 32, "hidden": 4096}),
        )
    ),
)


def source_bytes() -> int:
    """Return the size of ``SOURCE`` in bytes, without compiled files."""
    root = Path(__file__).parents[1]
    files = [path for name in SOURCE for path in (root / name, *(root / name).rglob("*"))]
    return sum(p.stat().st_size for p in files if p.is_file() and "__pycache__" not in p.parts)


def ordered() -> list[GpuJob]:
    """Return the jobs in descending order of value per minute."""
    return sorted(JOBS, key=lambda job: job.minutes / job.value)


def planned_bytes(
    layers: int,
    hidden: int,
    *,
    context: int = 2048,
    heads: int = 32,
    vocabulary: int = 32000,
    batch: int = 1,
    method: str = "bp",
) -> float:
    """Return the planned memory in bytes of one step of a Llama decoder in float16."""
    from repro.memory.setting import Setting
    from repro.models.decoder import llama_config
    from repro.planner.configurations import architecture
    from repro.planner.formula import estimate
    from repro.planner.methods import PAPER

    sizes = {"layers": layers, "hidden": hidden, "heads": heads, "vocabulary": vocabulary}
    config = llama_config(context=context, **sizes).to_dict()
    setting = Setting(context=context, batch=batch, format="float16")
    return estimate(architecture(config), PAPER[method], setting).total


def run_session(
    minutes: float, out: Path, jobs: Sequence[GpuJob], say: Callable[[str], None]
) -> bool:
    """Run the jobs that fit in ``minutes``, and report the remaining ones.

    Args:
        minutes: time limit of the session.
        out: directory of the results.
        jobs: the jobs to run, in this order.
        say: takes a line for the user.

    Returns:
        Whether every job is done.

    Raises:
        UsageError: there is no CUDA device.
    """
    from repro.harness import run_artifact
    from repro.measurement.device import require_device
    from repro.measurement.environment import capture

    require_device("cuda")
    here = capture()
    say(f"{here.gpu}, driver {here.gpu_driver}, torch {here.versions['torch']}")
    end = time.monotonic() + 60 * minutes
    left, failed = [], []
    for job in jobs:
        start = time.monotonic()
        try:
            if job.artifact and is_recorded(job, out, here):
                say(f"{job.name}: recorded before")
                continue
            if missing := job.missing():
                left.append(job)
                say(f"{job.name}: not in the data cache: {', '.join(missing)}; see docs/gpu.md")
                continue
            if job.minutes > (end - start) / 60:
                left.append(job)
                continue
            if job.artifact is None:
                _run_tests()
            else:
                assert job.config is not None  # noqa: S101 - every artifact's job has one
                say(f"{job.name}: {run_artifact(job.artifact, job.profile, job.config, out)}")
        except Exception as error:  # noqa: BLE001 - a lent GPU's time is for the other jobs, too
            failed.append(job)
            kind = "" if isinstance(error, ReproError) else f"{type(error).__name__}: "
            say(f"{job.name}: failed: {kind}{error}")
        say(f"{job.name}: {(time.monotonic() - start) / 60:.1f} minutes, planned {job.minutes:g}")
    for job in left:
        say(f"left: {job.name}, {job.minutes:g} minutes: {job.shows}")
    return not left and not failed


def is_recorded(job: GpuJob, out: Path, here: "Environment") -> bool:
    """Return whether ``out`` has records of ``job``, made by this code on this GPU."""
    from repro.artifacts.base import config_dict
    from repro.measurement.records import read_run, run_files

    assert job.artifact is not None  # noqa: S101 - the caller passes jobs of artifacts only
    assert job.config is not None  # noqa: S101
    wanted = config_dict(job.config)
    for path in run_files(out / job.artifact.slug):
        last = read_run(path)[-1]  # a file has one configuration and one environment
        made = last.environment
        same = (made.gpu, made.source_sha256) == (here.gpu, here.source_sha256)
        if same and last.config == wanted:
            return True
    return False


def _run_tests() -> None:
    tests = Path(__file__).parents[1] / "tests"
    # only these files: the others need packages that the machine may lack
    marked = [path for path in sorted(tests.glob("test_*.py")) if "mark.gpu" in path.read_text()]
    # the project's settings make errors of warnings, and other versions than ours may warn
    options = ["-q", "-m", "gpu", "-p", "no:cacheprovider", "-W", "default"]
    command = [sys.executable, "-m", "pytest", *options, *map(str, marked)]
    if not marked:
        raise ReproError("the installed package has no GPU tests; run this job from a clone")
    done = run_command(command, cwd=tests.parent)
    if done.returncode != 0:
        msg = f"the GPU tests failed (pytest's exit status {done.returncode}); see above"
        raise ReproError(msg)
