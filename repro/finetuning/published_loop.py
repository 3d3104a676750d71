"""The step of the widely used MeZO code, written from its description, as a baseline for ours.

The global generator is reseeded in every pass and draws each tensor's noise at once. Sum and
product are new tensors. Each answer option is a row of the batch, with logits at every position.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from repro.finetuning.batches import Batch


@dataclass
class PublishedLoop:
    """MeZO on a causal model of transformers."""

    model: Any
    answers: Sequence[int]
    """Tokens of the answer options."""
    lr: float
    eps: float

    def loss(self, batch: Batch) -> Tensor:
        """Return the mean cross-entropy over the K options, in nats.

        The score of an option is the log-probability of its token after the prompt.
        """
        options = len(self.answers)
        tokens = batch.tokens.repeat_interleave(options, 0)  # a row for each option
        tokens = torch.cat([tokens, tokens[:, -1:]], 1)  # room for the answer
        rows = torch.arange(len(tokens), device=tokens.device)
        last = batch.last.repeat_interleave(options)
        tokens[rows, last + 1] = torch.tensor(self.answers, device=tokens.device).repeat(
            len(batch.last)
        )
        logits = self.model(input_ids=tokens, use_cache=False).logits.float()  # [B x K, T + 1, V]
        log_probabilities = torch.log_softmax(logits, -1)
        chosen = log_probabilities[rows, last, tokens[rows, last + 1]]
        return cross_entropy(chosen.view(-1, options), batch.labels)

    @torch.no_grad()
    def step(self, batch: Batch, seed: int) -> float:
        """Do one step with the noise of ``seed``; return the mean of the two losses."""
        self._perturb(seed, 1)
        plus = self.loss(batch).item()
        self._perturb(seed, -2)
        minus = self.loss(batch).item()
        self._perturb(seed, 1)
        gradient = (plus - minus) / (2 * self.eps)
        for parameter, z in self.drawn(seed):
            parameter.data = parameter.data - self.lr * (gradient * z)
        return (plus + minus) / 2

    def _perturb(self, seed: int, scale: int) -> None:
        for parameter, z in self.drawn(seed):
            parameter.data = parameter.data + scale * z * self.eps

    def drawn(self, seed: int) -> Iterator[tuple[Any, Tensor]]:
        """Yield each parameter with its noise."""
        torch.manual_seed(seed)
        for parameter in self.model.parameters():
            like = {"dtype": parameter.dtype, "device": parameter.device}
            yield parameter, torch.normal(0.0, 1.0, parameter.size(), **like)
