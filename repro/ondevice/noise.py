"""The engine's vectorised noise for the perturbations of any PyTorch model on the host."""

from collections.abc import Iterator, Sequence

import torch

from repro.core.errors import UsageError
from repro.methods.lattice import Lattice
from repro.methods.noise import descend_on_, move_on_
from repro.ondevice.build import load

_FORMATS = (torch.float32, torch.bfloat16, torch.float16)


class EngineNoise:
    """z of a seed by the engine's counters, drawn and added in one pass over the weights.

    Example::

        mezo = MeZO(model.parameters(), lr=1e-6, eps=1e-3, noise=EngineNoise())
        ...
        replay(mezo.log, parameters, noise=EngineNoise())

    The numbers are those of docs/ondevice.md, the same bits on every processor and for any number
    of threads; PyTorch's number of threads share the work. Each parameter begins at the next
    multiple of ``piece`` elements. Sums are rounded to float32, and to the nearest bfloat16 or
    float16 where the weights have those formats.
    """

    name = "engine"

    def __init__(self, instructions: str = "auto") -> None:
        """Load the engine.

        Args:
            instructions: the instruction set; the best by default. No number depends on it.

        Raises:
            EngineError: the engine is not built; the message says how to.
        """
        self._engine = load()
        self.piece: int = self._engine.noise_piece
        self._instructions = instructions

    def check(self, parameters: Sequence[torch.Tensor]) -> None:
        """Raise ``UsageError`` for parameters off the host, or in another format."""
        for parameter in parameters:
            if parameter.device.type != "cpu" or parameter.dtype not in _FORMATS:
                names = ", ".join(str(known).removeprefix("torch.") for known in _FORMATS)
                msg = (
                    f"noise of the engine with parameters of {parameter.dtype} on "
                    f"{parameter.device}: they must be {names} on cpu; leave noise out for "
                    "PyTorch's"
                )
                raise UsageError(msg)

    def add_(self, parameters: Sequence[torch.Tensor], seed: int, scale: float) -> None:
        """Add ``scale`` z(``seed``) to the parameters, in place."""
        settings = (torch.get_num_threads(), self._instructions)
        for parameter, first in self._placed(parameters):
            flat = parameter.detach().view(-1)
            if flat.dtype == torch.float32:
                self._engine.add(flat.numpy(), seed, first, scale, *settings)
            else:
                bits = flat.view(torch.uint16).numpy()
                bfloat16 = flat.dtype == torch.bfloat16
                self._engine.add_halves(bits, bfloat16, seed, first, scale, *settings)
        torch.autograd.graph.increment_version(parameters)  # autograd did not see it

    def draw_(self, vector: torch.Tensor, seed: int) -> None:
        """Overwrite ``vector``, float32 [n], with the first n numbers of z(``seed``)."""
        threads = torch.get_num_threads()
        self._engine.draw(vector.numpy(), seed, 0, threads, self._instructions)

    def move_on_(
        self, lattice: Lattice, weights: torch.Tensor, seed: int, before: int, after: int
    ) -> None:
        """Do it in one pass over 16-bit weights, and by PyTorch's operators over others."""
        if weights.dtype == torch.float32:
            move_on_(self, lattice, weights, seed, before, after)
        else:
            self._walk(lattice, weights, seed, before=before, after=after, descends=False)

    def descend_on_(
        self, lattice: Lattice, weights: torch.Tensor, seed: int, before: int, rate: float
    ) -> None:
        """Do it likewise; of 16-bit weights the engine's counters round, too."""
        if weights.dtype == torch.float32:
            descend_on_(self, lattice, weights, seed, before, rate)
        else:
            after = -rate / lattice.eps
            self._walk(lattice, weights, seed, before=before, after=after, descends=True)

    def _walk(self, lattice: Lattice, weights: torch.Tensor, seed: int, **passed: float) -> None:
        self._engine.walk_halves(
            weights.detach().view(torch.uint16).numpy(),
            weights.dtype == torch.bfloat16,
            seed,
            scale=lattice.eps / lattice.step,
            levels=lattice.levels,
            step=lattice.step,
            bound=lattice.bound,
            ulp=lattice.ulp,
            threads=torch.get_num_threads(),
            isa=self._instructions,
            **passed,
        )
        torch.autograd.graph.increment_version(weights)

    def rest(self) -> None:
        """Do nothing: nothing is kept."""

    def _placed(self, parameters: Sequence[torch.Tensor]) -> Iterator[tuple[torch.Tensor, int]]:
        """Yield each parameter and where its noise begins."""
        first = 0
        for parameter in parameters:
            yield parameter, first
            first += -(-parameter.numel() // self.piece) * self.piece
