"""A base model bound to an arm: steps on batches, and a state from which they resume."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from repro.core.names import Dtype
from repro.data.text.tokens import Tokens
from repro.finetuning.arms import estimates
from repro.finetuning.batches import Batch
from repro.finetuning.classifier import AnswerClassifier
from repro.finetuning.run import LanguageModelRun
from repro.methods.backprop import Backprop
from repro.methods.log import StepLog, replay
from repro.methods.method import Method
from repro.methods.mezo import MeZO
from repro.methods.noise import Noise, TorchNoise
from repro.methods.step_info import StepInfo
from repro.methods.walk import Restore
from repro.models.dropout import without_dropout
from repro.ondevice.build import is_built
from repro.ondevice.noise import EngineNoise, TorchNoiseOnEngine
from repro.training.learner import Learner
from repro.training.seeds import NOISE, derived_seed

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class LanguageModelLearner(Learner[Batch]):
    """One arm on one model.

    The state of MeZO has no weights: they are made anew from the base model and the log, a few
    bytes a step (``repro.methods.log``).
    """

    def __init__(self, model: "PreTrainedModel", answers: Tokens, run: LanguageModelRun) -> None:
        """Take the base model, which is trained in place, and the token of each answer."""
        self.model = prepared(model, run.arm)
        self.classifier = AnswerClassifier(model, answers)
        self.optimizer = make_optimizer(self.model, run)
        self.method = Method(self.optimizer, self.classifier.loss)
        self._helped = run.helped

    def step(self, batch: Batch) -> StepInfo:
        """Train on one batch."""
        return self.method.step(batch)

    def evaluate(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the sum of the cross-entropy over a batch, and how many answers are right."""
        loss, right = self.classifier.score(batch)
        return loss.double(), right

    @property
    def log(self) -> StepLog | None:
        """The seeds and projected gradients of all steps; ``None`` for backpropagation."""
        return self.optimizer.log if isinstance(self.optimizer, MeZO) else None

    def state_dict(self) -> dict[str, Any]:
        """Return all that a resumed run needs beside the base model."""
        state = {"optimizer": self.optimizer.state_dict()}
        return state if self.log is not None else state | {"model": self.model.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from ``state``; the model must be the base model."""
        self.optimizer.load_state_dict(state["optimizer"])
        if isinstance(self.optimizer, MeZO):
            log = self.optimizer.log
            replay(
                log, self.optimizer.zo_params, noise_of(log.noise, log.chunk, helped=self._helped)
            )
        else:
            self.model.load_state_dict(state["model"])


def prepared(model: "PreTrainedModel", arm: str) -> "PreTrainedModel":
    """Return ``model`` ready to be trained: no dropout, and checkpointing where the arm has it."""
    without_dropout(model)
    if arm == "bp_checkpoint":
        model.activation_checkpointing_enable({"use_reentrant": False})
    return model


def restore_of(dtype: Dtype) -> Restore:
    """Return how MeZO's walks end: exactly in half precision, where weights would drift."""
    return "rounded" if dtype == "float32" else "exact"


def can_help(restore: Restore, device: str) -> bool:
    """Tell whether the engine can make the passes along PyTorch's noise: it is there, for those."""
    return restore == "exact" and device == "cpu" and is_built()


def noise_of(name: str, chunk: int | None = None, *, helped: bool = False) -> Noise:
    """Return the noise that a run or a log names.

    Args:
        name: of the noise.
        chunk: elements that PyTorch's draws from one seed.
        helped: whether the engine makes the exact passes along PyTorch's.

    Raises:
        EngineError: it takes the engine, which is not built.
    """
    if name == EngineNoise.name:
        return EngineNoise()
    return TorchNoiseOnEngine(chunk) if helped else TorchNoise(chunk)


def make_optimizer(model: torch.nn.Module, run: LanguageModelRun) -> Backprop | MeZO:
    """Return the optimizer of the run's arm: plain SGD at a fixed learning rate, as in the paper.

    Raises:
        UsageError: a setting is out of range, or the engine's noise is to be drawn on a GPU.
        EngineError: the engine is to draw the noise, or to help, and is not built.
    """
    n = estimates(run.arm)
    if n == 0:
        return Backprop(model.parameters(), lr=run.lr)
    return MeZO(
        model.parameters(),
        lr=run.lr,
        eps=run.eps,
        perturbations=n,
        seed=derived_seed(run.seed, NOISE),
        restore=restore_of(run.dtype),
        noise=noise_of(run.noise, helped=run.helped),
    )
