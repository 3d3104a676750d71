"""Train in several processes: same seeds, own batches, and two losses sent per estimate."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

from repro.core.errors import UsageError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class Processes:
    """The processes of a ``torch.distributed`` group, each with a copy of the weights.

    All processes draw the same perturbations, so an estimate needs only two losses from each. Every
    process receives all losses and averages them in the order of the ranks, so the weights stay the
    same, bit by bit, in every process.
    """

    def __init__(self, group: "ProcessGroup", parameters: Iterable[torch.Tensor]) -> None:
        """Copy the parameters of the first process to all others.

        Raises:
            UsageError: ``group`` is no group of processes.
        """
        if not isinstance(group, dist.ProcessGroup):
            raise UsageError(f"group = {group!r}: give torch.distributed.group.WORLD, or another")
        self._group = group
        self.size = dist.get_world_size(group)
        self._device = torch.device("cpu")
        for parameter in parameters:
            dist.broadcast(parameter.detach(), group=group, group_src=0)
            if "nccl" in dist.get_backend(group):  # it cannot send tensors on the host
                self._device = parameter.device

    def mean(self, seed: int, losses: Sequence[float]) -> list[float]:
        """Return the mean of each loss over the processes.

        Raises:
            UsageError: the processes use different seeds for the perturbation.
        """
        # float64 holds the 32 bits of a seed exactly
        own = torch.tensor([seed, *losses], dtype=torch.float64, device=self._device)
        gathered = [torch.empty_like(own) for _ in range(self.size)]
        dist.all_gather(gathered, own, group=self._group)
        seeds, *columns = zip(*(received.tolist() for received in gathered), strict=True)
        if len(set(seeds)) > 1:
            raise UsageError(
                f"perturbation seeds {[int(value) for value in seeds]} in {self.size} processes: "
                "they must be the same; give every process the same seed and the same number of "
                "steps"
            )
        return [sum(column) / self.size for column in columns]

    def add_gradients(self, parameters: Iterable[torch.Tensor]) -> None:
        """Replace the gradient of each parameter by the sum over the processes."""
        for parameter in parameters:
            if parameter.grad is not None:
                dist.all_reduce(parameter.grad, group=self._group)
