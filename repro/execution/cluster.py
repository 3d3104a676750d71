"""Train runs on a Ray cluster, one task each; the driver's store receives each final state.

A node keeps states in its own cache directory, like any machine. States from elsewhere are sent to
it with the run, and its metrics and final state are sent back.

This module relies on three documented properties of Ray: resources decide where and how many tasks
run ("Resources"); a GPU may be shared in fractions ("Accelerator Support"); a task whose worker or
node is lost raises an error when its result is requested ("Task Fault Tolerance"). ``max_retries``
is 0, since ``repro.execution.schedule`` retries runs from their last checkpoints.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from repro.core.errors import ReproError, UsageError
from repro.core.units import format_bytes
from repro.execution.run_memory import run_bytes
from repro.execution.schedule import RunOutcome, need_engine, train_all
from repro.measurement import environment
from repro.measurement.environment import Environment
from repro.ondevice.build import EngineError, is_built, module_path
from repro.training.run import NetworkRun
from repro.training.store import CheckpointStore, identity
from repro.training.trainer import TrainingTask, train_run

_ANSWER_S = 300
"""Seconds a node may take to describe itself, which requires importing PyTorch."""


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
class ClusterExecutor:
    """Trains each run on some node of the cluster to which this process is connected."""

    environment: Environment
    """The environment of all nodes."""
    nodes: dict[str, Node]
    """The nodes that can train a run, by their address."""
    largest_memory: int
    """Largest memory in bytes that Ray offers on one node."""
    threads: int
    gpus: float
    """Share of a GPU for each run; 0 for runs on the host."""

    def run(self, runs: Sequence[NetworkRun]) -> Iterator[tuple[NetworkRun, dict[str, Any]]]:
        """Yield each run with its metrics as it ends; see ``Executor``.

        Raises:
            EngineError: the on-device engine is requested but not built on a node.
            ReproError: runs failed.
        """
        built = module_path().parent.name
        without = [name for name, node in self.nodes.items() if node.engine != built]
        if without and need_engine(runs):
            raise EngineError(
                f"run `repro engine build` on {', '.join(without)}: the engine is not built there, "
                "or with other values of CXX and CXXFLAGS or another C library than here"
            )
        store = CheckpointStore.of(self.environment, self.threads)
        pool = ClusterPool(self, store)
        try:
            yield from train_all(runs, store, pool, self.environment.code)
        finally:
            pool.cancel()


class ClusterPool:
    """The tasks of a sweep; see ``repro.execution.schedule.WorkerPool``."""

    def __init__(self, executor: ClusterExecutor, store: CheckpointStore) -> None:
        """Start without any running task."""
        import ray

        self._ray, self._executor, self._store = ray, executor, store
        self._task = ray.remote(num_cpus=executor.threads, num_gpus=executor.gpus, max_retries=0)(
            run_job
        )
        self._running: dict[Any, NetworkRun] = {}

    def refusal(self, run: NetworkRun) -> str:
        """Return a message if ``run`` needs more memory than any node has, else an empty string."""
        needed, most = run_bytes(run), self._executor.largest_memory
        if needed <= most:
            return ""
        return (
            f"it takes up to {format_bytes(needed)} of memory, and the largest node lends "
            f"{format_bytes(most)}"
        )

    def has_room(self, run: NetworkRun) -> bool:  # noqa: ARG002 - of the protocol
        """Return True: Ray queues tasks without free resources."""
        return True

    def start(self, run: NetworkRun) -> None:
        """Submit ``run`` and its checkpoints to the cluster."""
        executor = self._executor
        task = self._task.options(memory=run_bytes(run), name=run.label())
        reference = task.remote(
            run,
            executor.threads,
            identity(executor.environment),
            executor.environment.code,
            module_path().parent.name,
            tuple(states_of(run, self._store)),
        )
        self._running[reference] = run

    def wait(self) -> list[RunOutcome]:
        """Wait until a run ends, keep its state and return its outcome."""
        (reference, *_), _ = self._ray.wait(list(self._running), num_returns=1)
        run = self._running.pop(reference)
        try:
            metrics, state = self._ray.get(reference)
        # before RayError, its base class: the node is alive, and the run itself failed
        except self._ray.exceptions.RayTaskError as error:
            # the error's text has the traceback of the node
            return [RunOutcome.failed(run, error.cause, f"{error}\n")]
        except self._ray.exceptions.RayError as error:
            problem = f"its worker or node was lost ({type(error).__name__})"
            return [RunOutcome(run, problem=problem, lost=True)]
        self._store.take_over(run, state)
        return [RunOutcome(run, metrics)]

    def cancel(self) -> None:
        """End the tasks that still run."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)


@contextmanager
def cluster(address: str, *, threads: int, gpus: float) -> Iterator[ClusterExecutor]:
    """Connect to a Ray cluster and offer its executor while the block runs.

    Args:
        address: ``auto`` for the cluster of this machine, ``local`` for a new one on it, or
            ``HOST:PORT`` of the head of a cluster with this machine as a node.
        threads: CPUs for each run.
        gpus: share of a GPU for each run; 0 for runs on the host.

    Raises:
        UsageError: Ray is not installed, there is no such cluster, or it has no node for a run.
        ReproError: the nodes differ.
    """
    try:
        import ray
    except ImportError as error:
        msg = "--executor ray needs Ray, an extra: pip install '.[ray]' in the suite's clone"
        raise UsageError(msg) from error
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a new cluster sends no usage reports
    try:
        ray.init(address, log_to_driver=True, logging_level="warning")
    # RuntimeError: the cluster has another version of Ray or Python
    except (ConnectionError, ValueError, RuntimeError, ray.exceptions.AuthenticationError) as error:
        raise UsageError(
            f"no Ray cluster at --address {address} ({error}); start one with `ray start --head`, "
            "give --address local, install the cluster's versions, or set RAY_AUTH_MODE=token if "
            "the cluster requires a token"
        ) from error
    try:
        yield _executor(threads, gpus)
    finally:
        ray.shutdown()


def _executor(threads: int, gpus: float) -> ClusterExecutor:
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    able = {
        f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}": node
        for node in ray.nodes()
        if node["Alive"]
        and node["Resources"].get("CPU", 0) >= threads
        and node["Resources"].get("GPU", 0) >= gpus
    }
    if not able:
        raise UsageError(
            f"no node of the cluster has {threads} CPU and {gpus:g} GPU for a run; give fewer "
            "--threads or --gpus-per-run, or add a node"
        )
    # with a share of its GPU, since otherwise a node sees none
    ask = ray.remote(num_cpus=0, num_gpus=gpus)(describe)
    asked = [
        ask.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote()
        for node in able.values()
    ]
    try:
        described: list[Node] = ray.get(asked, timeout=_ANSWER_S)
    except ray.exceptions.RayError as error:  # such as GetTimeoutError
        way_out = "install this suite on every node"
        if isinstance(error, ray.exceptions.GetTimeoutError):
            free = f"{gpus:g} GPU is free there" if gpus else "a worker has started there"
            way_out = f"each has {_ANSWER_S} s for it, in which {free}"
        raise ReproError(f"a node did not report its versions ({error}); {way_out}") from error
    nodes = dict(zip(able, described, strict=True))
    return ClusterExecutor(
        require_alike(nodes, environment.capture()),
        nodes,
        int(max(node["Resources"].get("memory", 0) for node in able.values())),
        threads,
        gpus,
    )


def describe() -> Node:
    """Describe this node."""
    return Node(environment.capture(), module_path().parent.name if is_built() else "")


def run_job(
    run: NetworkRun,
    threads: int,
    expected: str,
    code: Mapping[str, Any],
    engine: str,
    states: Sequence[tuple[NetworkRun, bytes]],
) -> tuple[dict[str, Any], bytes]:
    """Train a run here and return its metrics and its last state.

    Args:
        run: the run to train.
        threads: its training threads.
        expected: identity of the code, versions and machine that must run it.
        code: commit and dirty flag, if known.
        engine: identifier of the on-device engine, if the run needs it.
        states: checkpoints of the run and of the runs it starts from.

    Raises:
        ReproError: this node differs from the sweep's first nodes.
    """
    here = environment.capture()
    if identity(here) != expected:
        raise ReproError(
            "a node that joined later differs from the first nodes in code, versions or hardware; "
            "run the sweep again to see the differences"
        )
    store = CheckpointStore.of(here, threads)
    for begun, before in states:
        store.take_over(begun, before)
    metrics = train_run(TrainingTask(run, store, code, engine))
    state = store.checkpoint(run).read()
    if state is None:
        msg = f"the checkpoint of {run.label()} was removed on its node; run the sweep again"
        raise ReproError(msg)
    return metrics, state


def states_of(run: NetworkRun, store: CheckpointStore) -> Iterator[tuple[NetworkRun, bytes]]:
    """Yield the stored states of a run, perhaps of a shorter one, and of those it starts from."""
    # without the run's lock, for which this would wait until another process has trained it
    state = store.furthest(run).read()
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
        f"{name}: {fact} is {value}, {where} {wanted.get(fact, 'absent')}"
        for is_code, where, wanted in (
            (True, "here", of_code),
            (False, f"on {first_name}", of_machine),
        )
        for name, node in nodes.items()
        for fact, value in node.facts().items()
        # the driver, which may be another kind of machine, has only the code in common
        if fact.startswith(("hash", "version")) is is_code and value != wanted.get(fact)
    ]
    if problems:
        raise ReproError(
            "the nodes would not give the same results:\n  "
            + "\n  ".join(problems)
            + "\nInstall the same commit and the versions of constraints.txt on all of them, and "
            "leave out nodes of another kind (ray start --num-cpus 0 --num-gpus 0)"
        )
    return msgspec.structs.replace(
        first.environment,
        commit=driver.commit,
        dirty=driver.dirty,
        constraints_sha256=driver.constraints_sha256,
    )
