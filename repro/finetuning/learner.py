"""A base model bound to an arm: steps on batches, and a state from which they resume."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from repro.core.names import Dtype
from repro.data.text.tokens import Tokens
from repro.finetuning.arms import SPECIFICATIONS, Arm, trains_adapters
from repro.finetuning.batches import Batch
from repro.finetuning.classifier import AnswerClassifier
from repro.finetuning.run import LanguageModelRun
from repro.memory.fake_models import partition_before
from repro.memory.setting import Setting
from repro.methods.backprop import Backprop
from repro.methods.elasticzo import ElasticZO
from repro.methods.log import StepLog, replay
from repro.methods.method import Method
from repro.methods.mezo import MeZO
from repro.methods.noise import Noise, TorchNoise
from repro.methods.step_info import StepInfo
from repro.methods.walk import Restore
from repro.methods.zeroth_order import ZerothOrder
from repro.models.adapters import add_adapters
from repro.models.dropout import without_dropout
from repro.ondevice.build import is_built
from repro.ondevice.noise import EngineNoise, TorchNoiseOnEngine
from repro.training.learner import Learner
from repro.training.seeds import ADAPTERS, NOISE, derived_seed

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class LanguageModelLearner(Learner[Batch]):
    """One arm on one model.

    The state has no weights that the log gives: those are made anew from the base model by a
    replay, a few bytes a step (``repro.methods.log``).
    """

    def __init__(self, model: "PreTrainedModel", answers: Tokens, run: LanguageModelRun) -> None:
        """Take the base model, which is trained in place, and the token of each answer.

        Raises:
            UsageError: a setting is out of range, or the engine's noise is to be drawn on a GPU.
            EngineError: the engine is to draw the noise, or to help, and is not built.
        """
        self.model = prepared(model, run.arm, run.seed)
        self.classifier = AnswerClassifier(model, answers)
        self.optimizer = make_optimizer(
            self.model,
            arm=run.arm,
            lr=run.lr,
            eps=run.eps,
            seed=derived_seed(run.seed, NOISE),
            dtype=run.dtype,
            noise=noise_of(run.noise, helped=run.helped),
        )
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
        """The seeds and projected gradients of all steps, if they give the trained weights."""
        return self.optimizer.log if isinstance(self.optimizer, MeZO) else None

    def state_dict(self) -> dict[str, Any]:
        """Return the state of a resumed run, without the base model."""
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
            log = self.optimizer.log
            replay(
                log, self.optimizer.zo_params, noise_of(log.noise, log.chunk, helped=self._helped)
            )

    def _backpropagated(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """Yield the parameters that backpropagation trains, which no log gives."""
        logged: set[int] = set()
        if isinstance(self.optimizer, ZerothOrder):
            logged = {id(parameter) for parameter in self.optimizer.zo_params}
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad and id(parameter) not in logged:
                yield name, parameter


def prepared(model: "PreTrainedModel", arm: Arm, seed: int = 0) -> "PreTrainedModel":
    """Return ``model`` ready to be trained by ``arm``: adapters, checkpointing, and no dropout.

    Args:
        model: changed in place.
        arm: that trains it.
        seed: of the adapters' initial weights.
    """
    without_dropout(model)
    if trains_adapters(arm):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derived_seed(seed, ADAPTERS))
            add_adapters(model, Setting.rank)
    if SPECIFICATIONS[arm].method.checkpointed:
        model.activation_checkpointing_enable({"use_reentrant": False})
        if trains_adapters(arm):  # else no input of a block needs a gradient, and none is made
            model.enable_input_require_grads()  # type: ignore[no-untyped-call]
    return model


def restore_of(arm: Arm, dtype: Dtype) -> Restore:
    """Return how the perturbed weights come back: exactly in half precision, where they drift.

    Adapters are float32 for any ``dtype`` of the model's own weights.
    """
    return "rounded" if dtype == "float32" or trains_adapters(arm) else "exact"


def can_help(restore: Restore, device: str) -> bool:
    """Tell whether the engine can make the passes along PyTorch's noise: it is there, for those."""
    return restore == "exact" and device == "cpu" and is_built()


def noise_of(name: str, chunk: int | None = None, *, helped: bool = False) -> Noise:
    """Return the noise of a run or a log.

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


def make_optimizer(
    model: "PreTrainedModel",
    *,
    arm: Arm,
    lr: float,
    eps: float,
    seed: int,
    dtype: Dtype,
    noise: Noise,
) -> Backprop | ElasticZO | MeZO:
    """Return the optimizer of an arm, at a fixed learning rate, as in the paper.

    Args:
        model: as ``prepared`` returns it.
        arm: that trains it.
        lr: learning rate; of both parts of ElasticZO.
        eps: scale of the perturbation.
        seed: of the sequence of perturbations.
        dtype: of the model's weights.
        noise: where perturbations come from.

    Raises:
        UsageError: a setting is out of range, or the engine's noise is to be drawn on a GPU.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    specification = SPECIFICATIONS[arm]
    method = specification.method
    if method.estimator == "backpropagation":
        return Backprop(trained, lr=lr, rule="adam" if method.adam else "sgd")
    restore = restore_of(arm, dtype)
    if method.estimator == "both":
        partition = partition_before(model, Setting.tail)
        return ElasticZO(model, partition, lr=lr, eps=eps, seed=seed, restore=restore, noise=noise)
    return MeZO(
        trained,
        lr=lr,
        eps=eps,
        perturbations=specification.estimates,
        seed=seed,
        restore=restore,
        noise=noise,
    )
