"""Declare the memory figures of the ElasticZO paper, all by one function."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from repro.artifacts.base import Artifact, Context, Result, lazy
from repro.core.names import METHODS, MethodName, Network, NumberFormat
from repro.core.validation import Checked

CAPTION = (
    "Memory of Full BP, ZO-Feat-Cls1, ZO-Feat-Cls2 and Full ZO: by the reconstructed formula, "
    "by counted tensors, measured in PyTorch and on the engine, and the lower bound of a "
    "step that runs layer by layer (the engine merges layers)"
)


@dataclass(frozen=True)
class MemorySteps(Checked):
    """Training steps of one network."""

    batches: tuple[int, ...] = (32, 256)
    """B, samples per step."""
    methods: tuple[MethodName, ...] = METHODS
    """The methods, by the layers that backpropagation trains: none, the last, the last two, all."""
    threads: int = 1
    """Threads of each measured process."""
    engine: bool = True
    """Also measure the steps on the compiled engine, which needs a C++ compiler."""


def memory_figure(
    slug: str,
    title: str,
    about: str | None,
    *,
    paper: MemorySteps,
    smoke: MemorySteps,
    network: Network = "lenet5",
    precisions: Sequence[NumberFormat] = ("fp32",),
) -> Artifact:
    """Return the artifact on the memory of one network's training steps.

    Its figure is named after ``slug`` without the paper, and draws the first of ``precisions``.
    ``about`` is the docstring of its module. A field ``points`` of the steps gives the size of
    clouds.
    """
    figure_name = slug.removeprefix("elasticzo_")

    def run(config: MemorySteps, context: Context) -> Iterator[Result]:
        from repro.artifacts.shared.memory_run import estimate_memory
        from repro.memory.network_step import NetworkStep

        points = getattr(config, "points", None)
        steps = [
            NetworkStep(network, precision, method, batch, points)
            for precision, batch, method in product(precisions, config.batches, config.methods)
        ]
        yield from estimate_memory(slug, steps, config.threads, context, engine=config.engine)

    return Artifact(
        slug=slug,
        paper="elasticzo",
        title=title,
        about=about,
        profiles={"smoke": smoke, "quick": paper, "paper": paper},
        run=run,
        figures={figure_name: lazy("repro.artifacts.shared.memory_figure:figure", precisions[0])},
        captions={figure_name: CAPTION},
        findings=lazy("repro.artifacts.shared.memory_findings:findings", slug),
    )
