"""The work of a cluster node: describe itself, and train a run.

Nothing here needs Ray. A node keeps states in its own cache directory, like any machine. States
from elsewhere are sent to it with the run, and its metrics and final state are sent back.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from repro.core.errors import ReproError
from repro.measurement import environment
from repro.measurement.environment import Environment
from repro.ondevice.build import module_path
from repro.training.run import NetworkRun
from repro.training.store import CheckpointStore, identity
from repro.training.trainer import TrainingTask, train_run


@dataclass(frozen=True)
class Node:
    """The properties of a node that decide a run's outcome."""

    environment: Environment
    engine: str
    """Identifier of the on-device engine built on the node; empty if none is."""

    def facts(self) -> dict[str, Any]:
        """Return the properties shared by all nodes of a sweep, by name."""
        here = self.environment
        versions = {f"version of {name}": value for name, value in here.versions.items()}
        return {
            "hash of the source": here.source_sha256,
            **versions,
            "processor": here.cpu,
            "vector instructions": here.cpu_capability,
            "oneDNN": here.onednn,
            "GPU": here.gpu,
        }


@dataclass(frozen=True)
class TrainingJob:
    """A run to be trained on a node."""

    run: NetworkRun
    threads: int
    expected: str
    """Identity of the code, versions and machine that must run it."""
    code: Mapping[str, Any]
    """Commit and dirty flag, if known."""
    states: tuple[tuple[NetworkRun, bytes], ...]
    """Checkpoints of the run and of the runs it starts from."""


def describe() -> Node:
    """Describe this node."""
    engine = module_path()
    return Node(environment.capture(), engine.parent.name if engine.is_file() else "")


def run_job(job: TrainingJob) -> tuple[dict[str, Any], bytes]:
    """Train a run here and return its metrics and its last state.

    Raises:
        ReproError: this node differs from the sweep's first nodes.
    """
    here = environment.capture()
    if identity(here) != job.expected:
        msg = (
            "a node that joined later differs from the first nodes in code, versions or hardware; "
            "run the sweep again to see the differences"
        )
        raise ReproError(msg)
    store = CheckpointStore.of(here, job.threads)
    for run, before in job.states:
        store.take_over(run, before)
    metrics = train_run(TrainingTask(job.run, store, job.code))
    state = store.checkpoint(job.run).read()
    if state is None:
        msg = f"the checkpoint of {job.run.label()} was removed on its node; run the sweep again"
        raise ReproError(msg)
    return metrics, state


def states_of(run: NetworkRun, store: CheckpointStore) -> Iterator[tuple[NetworkRun, bytes]]:
    """Yield the stored states of a run and of the runs it starts from."""
    state = store.checkpoint(run).read()
    if state is not None:
        yield run, state
    if run.start:
        yield from states_of(run.start, store)


def require_alike(nodes: Mapping[str, Node], driver: Environment) -> Environment:
    """Return the shared environment of ``nodes``, with the commit of ``driver``.

    A run must give the same bits on every node, and the nodes must have the driver's code.

    Args:
        nodes: the description of each node, by its address.
        driver: environment of the machine that starts the sweep, which may be of another kind.

    Raises:
        ReproError: a node's code or versions differ from the driver's, or it differs from the first
            node.
    """
    (first_name, first), *others = nodes.items()
    here = Node(driver, "").facts()
    problems = []
    for name, node in nodes.items():
        facts = node.facts()
        own = [fact for fact in facts if fact.startswith(("hash", "version"))]
        problems += _differences(name, facts, "here", here, own)
    for name, node in others:
        facts, those = node.facts(), first.facts()
        rest = [fact for fact in facts if not fact.startswith(("hash", "version"))]
        problems += _differences(name, facts, f"on {first_name}", those, rest)
    if problems:
        msg = (
            "the nodes would not give the same results:\n  "
            + "\n  ".join(problems)
            + "\nInstall the same commit and the versions of constraints.txt on all of them, and "
            "leave out nodes of another kind (ray start --num-cpus 0 --num-gpus 0)"
        )
        raise ReproError(msg)
    return environment.of_commit(first.environment, driver)


def _differences(
    name: str, facts: Mapping[str, Any], where: str, others: Mapping[str, Any], compared: list[str]
) -> list[str]:
    return [
        f"{name}: {fact} is {facts[fact]}, {where} {others[fact]}"
        for fact in compared
        if facts[fact] != others[fact]
    ]
