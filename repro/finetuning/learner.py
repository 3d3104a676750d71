"""A base model that learns to answer: steps on batches, and a state from which they resume."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from repro.core.names import Dtype
from repro.data.text.tokens import Tokens
from repro.finetuning.arms import SPECIFICATIONS, Arm, trains_adapters
from repro.finetuning.batches import Batch, blank
from repro.finetuning.classifier import AnswerClassifier
from repro.finetuning.run import LanguageModelRun
from repro.memory.setting import Setting
from repro.memory.simulation import make_optimizer
from repro.methods.backprop import Backprop
from repro.methods.default_noise import named_noise
from repro.methods.elasticzo import ElasticZO
from repro.methods.log import StepLog, replay
from repro.methods.mezo import MeZO
from repro.methods.noise import Noise
from repro.methods.perturbed_weights import Restore
from repro.methods.step_info import StepInfo
from repro.methods.torch_noise import TorchNoise
from repro.methods.zeroth_order import ZerothOrder
from repro.models.adapters import add_adapters
from repro.models.training_mode import checkpoint_blocks, without_dropout
from repro.ondevice.build import is_built
from repro.ondevice.noise import EngineNoise, EngineSigns, TorchNoiseOnEngine
from repro.training.loop import Learner
from repro.training.run import ADAPTERS, NOISE, derived_seed

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class AnswerLearner(Learner[Batch]):
    """A causal model and the optimizer that trains it to answer.

    The state does not store weights trained by zeroth-order steps: a replay rebuilds them from the
    base model and the log, which takes a few bytes a step (``repro.methods.log``).
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        answers: Tokens,
        optimizer: Backprop | ElasticZO | MeZO,
    ) -> None:
        """Bind the optimizer to the loss of the answers.

        Args:
            model: the model, as ``prepared`` returns it.
            answers: the token of each answer.
            optimizer: made for the parameters of ``model``.
        """
        self.model = model
        self.classifier = AnswerClassifier(model, answers)
        self.optimizer = optimizer

    def step(self, batch: Batch) -> StepInfo:
        """Train on one batch."""
        self.optimizer.step(lambda: self.classifier.loss(batch))
        assert self.optimizer.last is not None  # noqa: S101 - for the type checker
        return self.optimizer.last

    def evaluate(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the summed cross-entropy of a batch, and the number of right answers."""
        loss, right = self.classifier.score(batch)
        return loss.double(), right.sum()

    @property
    def log(self) -> StepLog | None:
        """The seeds and projected gradients of all steps, if they determine the trained weights."""
        return self.optimizer.log if isinstance(self.optimizer, MeZO) else None

    def state_dict(self) -> dict[str, Any]:
        """Return the state to resume from, without the base model."""
        kept = {name: value.detach() for name, value in self._backpropagated()}
        state = {"optimizer": self.optimizer.state_dict()}
        return state | {"parameters": kept} if kept else state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from ``state``; the model must be the base model."""
        self.optimizer.load_state_dict(state["optimizer"])
        with torch.no_grad():
            for name, parameter in self._backpropagated():
                parameter.copy_(state["parameters"][name])
        if isinstance(self.optimizer, ZerothOrder):
            replay(self.optimizer.log, self.optimizer.zo_params, self.optimizer.noise)

    def _backpropagated(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """Yield the backpropagated parameters, which the log does not determine."""
        logged: set[int] = set()
        if isinstance(self.optimizer, ZerothOrder):
            logged = {id(parameter) for parameter in self.optimizer.zo_params}
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad and id(parameter) not in logged:
                yield name, parameter


class LanguageModelLearner(AnswerLearner):
    """One arm of ``repro.finetuning.arms`` on one model."""

    def __init__(self, model: "PreTrainedModel", answers: Tokens, run: LanguageModelRun) -> None:
        """Take the base model, which is trained in place, and the token of each answer.

        Raises:
            UsageError: a setting is out of range, or the run asks for the engine's noise on a GPU.
            EngineError: the run needs the engine, for its noise or its passes, and it is not built.
        """
        trained = prepared(model, run.arm, run.seed)
        prompts = blank(1, 2, run.device)
        optimizer = make_optimizer(
            trained,
            SPECIFICATIONS[run.arm].method,
            lr=run.lr,
            perturbations=SPECIFICATIONS[run.arm].estimates,
            eps=run.eps,
            seed=derived_seed(run.seed, NOISE),
            restore=restore_of(run.arm, run.dtype),
            # some models run their layers in another order than they register them
            trace=lambda: AnswerClassifier(trained, answers).loss(prompts),
            noise=noise_of(run.noise, native_passes=run.native_passes),
        )
        super().__init__(trained, answers, optimizer)


def prepared(model: "PreTrainedModel", arm: Arm, seed: int = 0) -> "PreTrainedModel":
    """Return ``model`` prepared for ``arm``: with adapters or checkpointing, without dropout.

    Args:
        model: changed in place.
        arm: the arm that trains it.
        seed: seed of the adapters' initial weights.
    """
    without_dropout(model)
    if trains_adapters(arm):
        with torch.random.fork_rng(devices=[]):
            # not torch.manual_seed, which would reseed a GPU's generators, too
            torch.default_generator.manual_seed(derived_seed(seed, ADAPTERS))
            add_adapters(model, Setting.rank)
    if SPECIFICATIONS[arm].method.checkpointed:
        checkpoint_blocks(model, adapters=trains_adapters(arm))
    return model


def restore_of(arm: Arm, dtype: Dtype) -> Restore:
    """Return how perturbed weights are restored: exactly in half precision, where they would drift.

    Adapters are float32 for any ``dtype`` of the model's own weights.
    """
    return "rounded" if dtype == "float32" or trains_adapters(arm) else "exact"


def can_run_passes(restore: Restore, device: str) -> bool:
    """Return whether the engine can run the passes with PyTorch's noise on this device."""
    return restore == "exact" and device == "cpu" and is_built()


def noise_of(name: str, chunk: int | None = None, *, native_passes: bool = False) -> Noise:
    """Return the noise of a run or a log.

    Args:
        name: name of the noise.
        chunk: elements that PyTorch's noise draws from one seed.
        native_passes: whether the engine runs the exact passes with PyTorch's noise.

    Raises:
        EngineError: the noise needs the engine, which is not built.
    """
    for kind in (EngineNoise, EngineSigns):
        if name == kind.name:
            return kind()
    if native_passes and name == TorchNoise.name:
        return TorchNoiseOnEngine(chunk)
    return named_noise(name, chunk)
