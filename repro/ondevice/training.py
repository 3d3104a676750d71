"""Shared parts of training on the engine, for both number formats."""

from dataclasses import asdict
from threading import RLock
from typing import Any, Literal

import torch
from torch import Tensor, nn

from repro.core.errors import UsageError
from repro.core.validation import require_whole
from repro.methods.step_info import GradientEstimate, StepInfo
from repro.ondevice.build import load_for
from repro.ondevice.layers import first_bp_layer, layer_table

_LARGEST_BATCH, _MOST_THREADS = 2**20, 1024
"""Limits of the engine for any network (``check`` of ``cpp/layer.cpp``)."""


class EngineTraining:
    """A network whose weights, activations and training live in the engine's memory."""

    def __init__(
        self,
        kind: Literal["FloatTraining", "IntTraining"],
        structure: nn.Sequential,
        input_shape: tuple[int, ...],
        partition: str | int,
        *,
        capacity: int,
        threads: int,
        instructions: str,
        seed: int,
        **settings: Any,  # noqa: ANN401 - of the engine
    ) -> None:
        """Check the machine and the layers, and allocate all memory.

        Args:
            kind: the engine's class.
            structure: the network whose layers are trained.
            input_shape: of a sample, as [C, H, W], [N, F] or [F].
            partition: name of the first layer that backpropagation trains, or the number C of
                children of the network before it, also those without weights.
            capacity: largest batch, in training or evaluation; decides ``arena_bytes``.
            threads: OpenMP threads, of which an integer step uses at most one for each processor;
                no result depends on them.
            instructions: the instruction set, one of ``instruction_sets()`` or ``auto``; no integer
                result depends on it.
            seed: of the sequence of perturbations.
            settings: of the engine's class.

        Raises:
            UsageError: a setting is out of range, the partition names no layer, or the engine has
                no kernel for a layer.
            EngineError: the engine is not built.
        """
        require_whole("capacity", capacity, 1, _LARGEST_BATCH)
        require_whole("threads", threads, 1, _MOST_THREADS)
        engine = load_for(instructions)
        layers = layer_table(structure, input_shape)
        self._input_shape = tuple(input_shape)
        self._lock = RLock()
        """Held by all that uses ``training``: the engine lets other threads of Python run."""
        self.start = first_bp_layer(structure, layers, partition)
        """Index of the first layer that backpropagation trains, among those with weights."""
        self.training: Any = called(
            getattr(engine, kind),
            layers=[engine.Layer(**asdict(layer)) for layer in layers],
            tail=self.start,
            capacity=capacity,
            threads=threads,
            isa=instructions,
            # of any whole number the low 64 bits count, as in stream_key
            seed=seed % (1 << 64),
            **settings,
        )

    def info(self, plus: float, minus: float, key: int, gradient: float) -> StepInfo:
        """Return a step's report: with backpropagation alone there is one loss, ``plus``."""
        if self.start == 0:
            return StepInfo(plus)
        return StepInfo((plus + minus) / 2, (GradientEstimate(key, plus, minus, gradient),))

    def _samples(self, inputs: object, dtype: torch.dtype) -> Any:  # noqa: ANN401 - NumPy's
        """Return a batch as the engine reads it: contiguous, clouds [B, N, F] as [B, F, N].

        Raises:
            UsageError: another shape or number format, or not on the CPU.
        """
        if not isinstance(inputs, Tensor):
            msg = f"inputs: a {type(inputs).__name__}, must be a tensor of {dtype}"
            raise UsageError(msg)
        fits = tuple(inputs.shape[1:]) == self._input_shape and inputs.dtype == dtype
        if not fits or inputs.device.type != "cpu":
            wanted = f"[B, {', '.join(map(str, self._input_shape))}]"
            raise UsageError(
                f"inputs {list(inputs.shape)} of {inputs.dtype} on {inputs.device}: the network "
                f"was made for {wanted} of {dtype} on cpu"
            )
        rows = inputs.transpose(1, 2) if len(self._input_shape) == 2 else inputs
        return rows.detach().contiguous().numpy()

    @property
    def arena_bytes(self) -> int:
        """All of the engine's memory for the network, its activations and its training."""
        size: int = self.training.arena_bytes
        return size

    @property
    def seconds(self) -> dict[str, float]:
        """Time of all steps so far in each phase of ElasticZO's Fig. 7.

        The backpropagated part's update counts as ``backward``; ``other`` is the reading of the
        batch.
        """
        with self._lock:
            phases: dict[str, float] = self.training.seconds()
        return phases


def classes_of(labels: Tensor) -> Any:  # noqa: ANN401 - NumPy's
    """Return the labels of a batch as the engine reads them.

    Raises:
        UsageError: they are not [B] of int64 on the CPU.
    """
    if labels.dim() != 1 or labels.dtype != torch.int64 or labels.device.type != "cpu":
        raise UsageError(
            f"labels {list(labels.shape)} of {labels.dtype} on {labels.device}: must be [B] of "
            "torch.int64 on cpu"
        )
    return labels.contiguous().numpy()


def called(function: Any, *arguments: Any, **settings: Any) -> Any:  # noqa: ANN401 - the engine's
    """Call a function of the engine and return its result.

    Raises:
        UsageError: the engine refuses an argument, and says why; or its memory is not there.
    """
    try:
        return function(*arguments, **settings)
    except ValueError as error:
        raise UsageError(str(error)) from error
    except MemoryError as error:
        raise UsageError("not enough memory for the network: give a smaller capacity") from error
