"""Time the epochs of all arms.

Kinds of results:

- ``epoch``: an arm; the point names engine, precision, method and batch size. The metrics are
  ``seconds``, the time of each phase in each timed epoch, and ``images``, the images of an epoch.
- ``machine``: the machine as the engine sees it. The metrics are its instruction set
  (``instructions``); the multiplications per second of a loop that only multiplies, in float32 and
  in int8 (``peak_fp32``, ``peak_int8``, the highest of each timed epoch); and the
  ``multiplications`` of one image's forward pass.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

import torch

from repro.artifacts.base import Context, Result
from repro.artifacts.elasticzo_fig7 import Config
from repro.artifacts.elasticzo_fig7.arms import TimedRun, timed_epoch
from repro.artifacts.shared.subprocesses import run_in_subprocesses
from repro.claims.execution_time import PHASES
from repro.models.lenet5 import SAMPLE_SHAPE, lenet5
from repro.ondevice.build import build, load
from repro.ondevice.layers import layer_table


@dataclass(frozen=True)
class Task:
    """One epoch of every method."""

    number: int
    config: Config

    def arms(self) -> list[TimedRun]:
        """Return the arms in the order of their turns."""
        c = self.config
        return [
            TimedRun(engine, precision, method, batch)
            for batch, method, precision, engine in product(
                c.batches, c.methods, c.precisions, c.engines
            )
        ]


def run(config: Config, context: Context) -> Iterator[Result]:
    """Yield every arm's times; an interrupted run keeps its finished epochs.

    Raises:
        ReproError: the engine is to be timed and cannot be built, or a process failed.
    """
    native = "native" in config.engines
    if native:
        build(otherwise="time PyTorch alone, with --engines torch")
    tasks = [Task(number, config) for number in range(config.epochs)]
    done = run_in_subprocesses(
        "elasticzo_fig7",
        time_task,
        tasks,
        lambda task: {"epoch": task.number},
        label=lambda task: f"epoch {task.number + 1} of every method",
        store=context.result_cache,
        workers=1,  # parallel processes would slow each other down
    )
    epochs = [metrics for _, metrics in done]
    images = epochs[0]["images"]
    for number, arm in enumerate(tasks[0].arms()):
        of_arm = [epoch["arms"][number] for epoch in epochs]
        seconds = {phase: [one[phase] for one in of_arm] for phase in PHASES}
        yield Result("epoch", asdict(arm), {"seconds": seconds, "images": images})
    if native:
        peaks = {name: [epoch[name] for epoch in epochs] for name in ("peak_fp32", "peak_int8")}
        multiplications = sum(
            layer.channels * layer.kernel_height * layer.kernel_width
            * layer.outputs * layer.rows * layer.columns
            for layer in layer_table(lenet5(), SAMPLE_SHAPE)
        )  # fmt: skip
        metrics = {"instructions": load().instruction_sets()[0], **peaks}
        yield Result("machine", {}, metrics | {"multiplications": multiplications})


def time_task(task: Task) -> dict[str, Any]:
    """Time one epoch of every method; at the top level of the module for use in another process."""
    torch.set_num_threads(task.config.threads)
    engine = load() if "native" in task.config.engines else None
    peaks: dict[str, list[float]] = {"fp32": [], "int8": []}

    def measure_peaks() -> None:
        if engine is not None:
            peaks["fp32"].append(engine.peak_f32("auto"))
            peaks["int8"].append(engine.peak_i8("auto"))

    arms, images = timed_epoch(task.arms(), task.config.image_items, measure_peaks)
    best = {f"peak_{precision}": max(found) for precision, found in peaks.items() if found}
    return {"arms": arms, "images": images, **best}
