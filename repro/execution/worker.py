"""The work of a cluster node: describe itself, and train a run.

Nothing here needs Ray. A node keeps states in its own cache directory, like any machine. States
from elsewhere are sent to it with the run, and its metrics and final state are sent back.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from repro.core.errors import ReproError
from repro.measurement import environment
from repro.measurement.environment import Environment
from repro.ondevice.build import is_built, module_path
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


def describe() -> Node:
    """Describe this node."""
    return Node(environment.capture(), module_path().parent.name if is_built() else "")


def run_job(
    run: NetworkRun,
    threads: int,
    expected: str,
    code: Mapping[str, Any],
    states: Sequence[tuple[NetworkRun, bytes]],
) -> tuple[dict[str, Any], bytes]:
    """Train a run here and return its metrics and its last state.

    Args:
        run: the run to train.
        threads: its training threads.
        expected: identity of the code, versions and machine that must run it.
        code: commit and dirty flag, if known.
        states: checkpoints of the run and of the runs it starts from.

    Raises:
        ReproError: this node differs from the sweep's first nodes.
    """
    here = environment.capture()
    if identity(here) != expected:
        msg = (
            "a node that joined later differs from the first nodes in code, versions or hardware; "
            "run the sweep again to see the differences"
        )
        raise ReproError(msg)
    store = CheckpointStore.of(here, threads)
    for begun, before in states:
        store.take_over(begun, before)
    metrics = train_run(TrainingTask(run, store, code))
    state = store.checkpoint(run).read()
    if state is None:
        msg = f"the checkpoint of {run.label()} was removed on its node; run the sweep again"
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
    first_name, first = next(iter(nodes.items()))
    of_code, of_machine = Node(driver, "").facts(), first.facts()
    problems = [
        f"{name}: {fact} is {value}, {where} {wanted[fact]}"
        for is_code, where, wanted in (
            (True, "here", of_code),
            (False, f"on {first_name}", of_machine),
        )
        for name, node in nodes.items()
        for fact, value in node.facts().items()
        # the driver, which may be another kind of machine, has only the code in common
        if fact.startswith(("hash", "version")) is is_code and value != wanted[fact]
    ]
    if problems:
        msg = (
            "the nodes would not give the same results:\n  "
            + "\n  ".join(problems)
            + "\nInstall the same commit and the versions of constraints.txt on all of them, and "
            "leave out nodes of another kind (ray start --num-cpus 0 --num-gpus 0)"
        )
        raise ReproError(msg)
    return msgspec.structs.replace(
        first.environment,
        commit=driver.commit,
        dirty=driver.dirty,
        constraints_sha256=driver.constraints_sha256,
    )
