"""A causal language model as a classifier: the logits of a few answers after the prompt."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional

from repro.core.errors import ReproError, UsageError
from repro.data.text.tokens import Tokens
from repro.finetuning.batches import Batch
from repro.models.training_mode import evaluating, unpacked

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NOT_FINITE = "{} are not finite: use float32 or bfloat16, and check the model's weights"
_TOLERANCE = 0.05
"""Largest difference from the model's own logits, relative to them; bfloat16 rounds by 0.4 %."""


class AnswerClassifier:
    """Compares the tokens of K answers after each prompt, following LM-BFF (Gao et al. 2020).

    Logits are computed at the last position only: the answers need no others, and N x V logits
    would hide the memory that the formulas describe. Batches are padded on the right, without a
    mask, since the output of a causal model at a position does not depend on later positions.
    """

    def __init__(self, model: "PreTrainedModel", answers: Tokens) -> None:
        """Take any causal model of transformers, and the token of each answer, [K].

        Raises:
            UsageError: the model's own logits differ, since it scales or transforms them.
        """
        self.model = model
        self._base: Any = model.base_model
        self._head: Any = model.get_output_embeddings()  # type: ignore[no-untyped-call]
        self.device: str = model.device.type
        self._answers = torch.as_tensor(answers, dtype=torch.long, device=model.device)
        config = model.config.get_text_config()
        self._cap: float | None = getattr(config, "final_logit_softcapping", None)
        self._require_own_logits()

    def logits(self, batch: Batch) -> Tensor:
        """Return the float32 logits of the answers, [B, K]."""
        return self._next_logits(batch).index_select(1, self._answers).float()

    def _next_logits(self, batch: Batch) -> Tensor:
        """Return the logits of all tokens after each prompt, [B, V]."""
        with unpacked():
            # not the whole model, which cannot select a position for each prompt
            hidden = self._base(input_ids=batch.tokens, use_cache=False)[0]  # [B, T, D]
        rows = torch.arange(len(batch.last), device=hidden.device)
        logits = self._head(hidden[rows, batch.last])  # [B, V]
        # as in the forward pass of the whole model, which is not called
        if self._cap is not None:
            logits = torch.tanh(logits / self._cap) * self._cap
        return logits  # type: ignore[no-any-return]

    @torch.no_grad()
    def _require_own_logits(self) -> None:
        """Check that the logits are those of the whole model, on a prompt of two tokens.

        Raises:
            UsageError: they differ.
            ReproError: the model's own are not finite.
        """
        if any(p.is_meta or isinstance(p, FakeTensor) for p in self.model.parameters()):
            return  # without values, as when memory is planned
        tokens = self._answers[:1].expand(1, 2)
        last = torch.ones(1, dtype=torch.long, device=tokens.device)
        with evaluating(self.model), unpacked():
            own = self.model(input_ids=tokens, use_cache=False).logits[:, -1]
            found = self._next_logits(Batch(tokens, last, last))
        if not bool(own.isfinite().all()):
            raise ReproError(NOT_FINITE.format(f"the logits of {type(self.model).__name__}"))
        gap, size = float((found - own).abs().max()), float(own.abs().max())
        if not gap <= _TOLERANCE * size:  # also if they are not numbers
            raise UsageError(
                f"{type(self.model).__name__}: logits from its output layer differ by {gap:.3g} "
                f"from its own, which are up to {size:.3g}, so it scales or transforms them; give "
                "a model that does not, such as a Llama, Qwen2 or GPT-2"
            )

    def loss(self, batch: Batch) -> Tensor:
        """Return the mean cross-entropy of the answers, in nats."""
        return functional.cross_entropy(self.logits(batch), batch.labels)

    @torch.no_grad()
    def score(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the summed cross-entropy of a batch, and which answers are right, bool [B].

        Both stay on the device: reading them on the host would wait for a GPU at every batch.
        """
        logits = self.logits(batch)
        loss = functional.cross_entropy(logits, batch.labels, reduction="sum")
        return loss, logits.argmax(1) == batch.labels
