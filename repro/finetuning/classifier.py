"""A causal language model as a classifier: the logits of a few answers after the prompt."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from repro.data.text.tokens import Tokens
from repro.finetuning.batches import Batch
from repro.models.training_mode import unpacked

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class AnswerClassifier:
    """Compares the tokens of K answers after each prompt, following LM-BFF (Gao et al. 2020).

    Logits are computed at the last position only: the answers need no others, and N x V logits
    would hide the memory that the formulas describe. Batches are padded on the right, without a
    mask, since the output of a causal model at a position does not depend on later positions.
    """

    def __init__(self, model: "PreTrainedModel", answers: Tokens) -> None:
        """Take any causal model of transformers, and the token of each answer, [K]."""
        self.model = model
        self._base: Any = model.base_model
        self._head: Any = model.get_output_embeddings()  # type: ignore[no-untyped-call]
        self.device: str = model.device.type
        self._answers = torch.as_tensor(answers, dtype=torch.long, device=model.device)
        config = model.config.get_text_config()
        self._cap: float | None = getattr(config, "final_logit_softcapping", None)

    def logits(self, batch: Batch) -> Tensor:
        """Return the float32 logits of the answers, [B, K]."""
        with unpacked():
            # not the whole model, which cannot select a position for each prompt
            hidden = self._base(input_ids=batch.tokens, use_cache=False)[0]  # [B, T, D]
        rows = torch.arange(len(batch.last), device=hidden.device)
        logits = self._head(hidden[rows, batch.last])  # [B, V]
        # as in the forward pass of the whole model, which is not called
        if self._cap is not None:
            logits = torch.tanh(logits / self._cap) * self._cap
        return logits.index_select(1, self._answers).float()  # type: ignore[no-any-return]

    def loss(self, batch: Batch) -> Tensor:
        """Return the mean cross-entropy of the answers, in nats."""
        return functional.cross_entropy(self.logits(batch), batch.labels)

    @torch.no_grad()
    def score(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the summed cross-entropy of a batch, and the number of right answers.

        Both stay on the device: reading them on the host would wait for a GPU at every batch.
        """
        logits = self.logits(batch)
        loss = functional.cross_entropy(logits, batch.labels, reduction="sum")
        return loss, (logits.argmax(1) == batch.labels).sum()
