"""Perturbations on the host, added by the engine: its own noise, or PyTorch's."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch

from repro.core.errors import UsageError
from repro.methods.lattice import Lattice
from repro.methods.noise import (
    SEED_SPACE,
    LatticeStep,
    Pass,
    PiecewiseNoise,
    default_chunk,
    drawn,
    thresholds,
)
from repro.methods.torch_noise import TorchNoise
from repro.ondevice.build import load, load_for

_FORMATS = (torch.float32, torch.bfloat16, torch.float16)


class EngineNoise(PiecewiseNoise):
    """z of a seed by the engine's counters, drawn and added in one pass over the weights.

    Example::

        mezo = MeZO(model.parameters(), lr=1e-6, eps=1e-3, noise=EngineNoise())
        ...
        replay(mezo.log, parameters, noise=EngineNoise())

    docs/ondevice.md defines the numbers: the same bits on every processor and for any number
    of threads; PyTorch's number of threads share the work. Each parameter begins at the next
    multiple of ``piece`` elements. Sums are rounded to float32, and to the nearest bfloat16 or
    float16 where the weights have those formats.
    """

    name = "engine"
    distribution = "gaussian"

    def __init__(self, instructions: str = "auto") -> None:
        """Load the engine.

        Args:
            instructions: the instruction set; the best by default. No number depends on it.

        Raises:
            UsageError: this machine has no such instruction set.
            EngineError: the engine is not built; the message says how to.
        """
        engine = load_for(instructions)
        self.piece: int = engine.noise_piece
        self._instructions = instructions
        self._noise = engine.Noise(self.distribution, instructions)

    def __reduce__(self) -> tuple[type, tuple[str]]:
        """Copy and pickle without the engine, which is loaded again."""
        return type(self), (self._instructions,)

    def prepare(self, parameters: Sequence[torch.Tensor], *, exact: bool) -> None:  # noqa: ARG002
        """Raise ``UsageError`` for parameters off the host, or in another format."""
        require_supported(parameters)

    def add_(self, parameters: Sequence[torch.Tensor], seed: int, scale: float) -> None:
        """Add ``scale`` z(``seed``) to the parameters, in place."""
        threads = torch.get_num_threads()
        first = 0
        for parameter in parameters:
            add_along(self._noise, parameter, seed, first, scale, threads)
            first += -(-parameter.numel() // self.piece) * self.piece
        torch.autograd.graph.increment_version(parameters)  # autograd did not see it

    def draw_(self, vector: torch.Tensor, seed: int) -> None:
        """Overwrite ``vector``, float32 [n], with the first n numbers of z(``seed``)."""
        self._noise.draw(vector.numpy(), seed, 0)

    @torch.no_grad()
    def step_on_lattice_(
        self, parameters: Sequence[torch.Tensor], seed: int, step: LatticeStep, chunk: int | None
    ) -> None:
        """Do ``step`` along z(seed) in one pass over 16-bit weights; take PyTorch for others.

        Every ``chunk`` elements have their own seed. The engine's counters round updates of 16-bit
        weights, too.
        """
        size, threads = chunk or default_chunk(torch.device("cpu")), torch.get_num_threads()
        for parameter in parameters:
            if parameter.dtype == torch.float32:
                super().step_on_lattice_([parameter], seed, step, size)
            else:
                pass_along(self._noise, parameter, seed, step, size, threads)
            seed = (seed + -(-parameter.numel() // size)) % SEED_SPACE
        torch.autograd.graph.increment_version(parameters)


class EngineSigns(EngineNoise):
    """z of +1 and -1 by the engine's counters: ``RademacherNoise`` with the engine's numbers.

    It is ``EngineNoise`` otherwise. One random word serves 32 weights, so that a pass takes little
    longer than reading and writing the weights. The magnitude is 1 - 2^-24, for the reason that
    ``RademacherNoise`` gives; on a lattice it is rounded once, for both signs.
    """

    name = "engine-signs"
    distribution = "signs"


class TorchNoiseOnEngine(TorchNoise):
    """PyTorch's numbers, and exact passes over 16-bit weights by the engine.

    They give the bits that PyTorch's operators do, in one pass instead of two dozen.
    """

    # the name stays "torch": with the same bits, a log replays with or without the engine

    def __init__(self, chunk: int | None = None, instructions: str = "auto") -> None:
        """Load the engine.

        Args:
            chunk: as of ``TorchNoise``.
            instructions: the instruction set; the best by default. No number depends on it.

        Raises:
            UsageError: this machine has no such instruction set.
            EngineError: the engine is not built; the message says how to.
        """
        super().__init__(chunk)
        load_for(instructions)
        self._instructions = instructions

    def lattice_pass(self, lattice: Lattice, step: LatticeStep) -> Pass:
        """Make one pass over 16-bit weights on the host; take PyTorch's operators for others."""
        operators = super().lattice_pass(lattice, step)
        if lattice.dtype == torch.float32:
            return operators
        engine_pass = _engine_pass(lattice.dtype, step)

        def change(weights: torch.Tensor, seed: int) -> None:
            if weights.device.type != "cpu":
                operators(weights, seed)
                return
            normal = drawn(self, weights, seed)
            uniform = thresholds(lattice, weights, seed) if step.is_update else normal[:0]
            load().lattice_pass_along(
                *_bits(weights), normal.numpy(), uniform.numpy(), engine_pass, self._instructions
            )
            torch.autograd.graph.increment_version(weights)

        return change


def require_supported(parameters: Sequence[torch.Tensor]) -> None:
    """Raise ``UsageError`` for parameters off the host, or in another format than the engine's."""
    for parameter in parameters:
        if parameter.device.type != "cpu" or parameter.dtype not in _FORMATS:
            names = ", ".join(str(known).removeprefix("torch.") for known in _FORMATS)
            raise UsageError(
                f"noise of the engine with parameters of {parameter.dtype} on "
                f"{parameter.device}: they must be {names} on cpu; leave noise out for PyTorch's"
            )


def add_along(
    noise: Any,  # noqa: ANN401 - a Noise of the compiled module
    weights: torch.Tensor,
    seed: int,
    first: int,
    scale: float,
    threads: int,
) -> None:
    """Add ``scale`` z(``seed``) to weights, in place; ``first`` is their place in z."""
    flat = weights.detach().view(-1)
    if flat.dtype == torch.float32:
        noise.add(flat.numpy(), seed, first, scale, threads)
    else:
        noise.add_halves(*_bits(flat), seed, first, scale, threads)


def pass_along(
    noise: Any,  # noqa: ANN401 - a Noise of the compiled module
    weights: torch.Tensor,
    seed: int,
    step: LatticeStep,
    chunk: int,
    threads: int,
) -> None:
    """Do ``step`` along z over 16-bit weights, in place; every ``chunk`` have their own seed."""
    engine_pass = _engine_pass(weights.dtype, step)
    noise.lattice_pass(*_bits(weights.view(-1)), seed, engine_pass, chunk, threads)


def _bits(weights: torch.Tensor) -> tuple[Any, bool]:
    """Return 16-bit weights, [n], as the engine takes them, and whether they are bfloat16."""
    # as integers, since NumPy has no bfloat16
    return weights.detach().view(torch.uint16).numpy(), weights.dtype == torch.bfloat16


@lru_cache(maxsize=4)  # a model has hundreds of parameters, and a pass one step for all of them
def _engine_pass(dtype: torch.dtype, step: LatticeStep) -> Any:  # noqa: ANN401 - of a compiled module
    lattice = Lattice(dtype, step.eps)
    return load().LatticePass(
        scale=lattice.eps / lattice.step,
        levels=lattice.levels,
        step=lattice.step,
        bound=lattice.bound,
        ulp=lattice.ulp,
        digits=lattice.digits,
        before=step.before,
        after=step.after,
        descends=step.is_update,
    )
