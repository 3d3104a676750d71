"""ElasticZO in float32 on the engine."""

import math
from typing import Any, get_args

import torch
from torch import Tensor, nn

from repro.core.errors import UsageError
from repro.core.names import Activations
from repro.core.signals import uninterrupted
from repro.core.validation import (
    require_choice,
    require_not_negative,
    require_positive,
    whole_seed,
)
from repro.methods.elasticzo import ACTIVATION_WEIGHTS
from repro.methods.parameters import require_changeable
from repro.methods.step_info import DivergedError, StepInfo
from repro.ondevice.layers import norms
from repro.ondevice.training import EngineTraining, called, classes_of


class NativeElasticZO(EngineTraining):
    """Algorithm 1, like ``repro.methods.elasticzo.ElasticZO``, with other rounding and noise.

    Example::

        model = lenet5()
        elastic = NativeElasticZO(model, (1, 28, 28), "fc3", lr=2e-3, eps=1e-2, clip=0.3)
        for images, labels in batches:
            elastic.step(images, labels)

    The model's parameters and running statistics move into the engine's memory and stay views of
    it. The noise comes from a counter (docs/ondevice.md): the same bits for any number of threads
    and on any machine, and not PyTorch's. Sums are taken in another order than PyTorch's.

    In ``step`` a batch norm that was in training mode at the start uses the statistics of the batch
    and updates the running statistics. One in evaluation mode is frozen: like ``forward``, ``step``
    uses its running statistics, and leaves them as they are.
    """

    def __init__(
        self,
        model: nn.Sequential,
        input_shape: tuple[int, ...],
        partition: str | int,
        *,
        lr: float,
        eps: float,
        clip: float = math.inf,
        activations: Activations = "plus",
        seed: int = 0,
        capacity: int = 512,
        threads: int = 1,
        instructions: str = "auto",
    ) -> None:
        """Check every setting and allocate all memory.

        ``model`` is trained; its parameters are moved. The algorithm has the settings of
        ``repro.methods.elasticzo.ElasticZO``, the rest are settings of ``EngineTraining``.

        Raises:
            UsageError: a setting is out of range, the partition names no layer, the engine has no
                kernel for a layer, or a parameter is frozen, not float32 or not on the CPU.
            EngineError: the engine is not built.
        """
        self.param_groups = [{"lr": require_not_negative("learning rate lr", lr)}]
        """The learning rate, where PyTorch's optimizers have it; see ``lr``."""
        require_positive("perturbation scale eps", eps)
        if clip != math.inf:
            require_positive("gradient clip g_clip", clip)
        require_choice("activations", activations, get_args(Activations))
        _require_trainable(model)
        self.model = model
        self.seed = whole_seed(seed)
        self.steps = 0
        """Steps done."""
        self.last: StepInfo | None = None
        plus, minus = ACTIVATION_WEIGHTS[activations]
        super().__init__(
            "FloatTraining",
            model,
            input_shape,
            partition,
            capacity=capacity,
            threads=threads,
            instructions=instructions,
            seed=seed,
            eps=eps,
            clip=clip,
            plus_share=plus,
            minus_share=minus,
        )
        # the model's parameters and running statistics become views of the engine's memory
        shared = torch.from_numpy(self.training.parameters)
        start = 0
        for parameter in self.model.parameters():
            view = shared[start : start + parameter.numel()].view_as(parameter)
            view.copy_(parameter.data)
            parameter.data = view
            start += parameter.numel()
        own_norms = norms(self.model)
        self._updated = [module for module in own_norms if module.training]
        for module, statistics in zip(own_norms, self.training.statistics, strict=True):
            for name, own in zip(
                ("running_mean", "running_var"), torch.from_numpy(statistics).chunk(2), strict=True
            ):
                own.copy_(getattr(module, name))
                setattr(module, name, own)
        # the dictionaries that hold these tensors: ``parameters()`` would take 2 % of a step
        self._holders: list[tuple[dict[str, Any], str]] = [
            (module._parameters, name)
            for module in self.model.modules()
            for name, parameter in module._parameters.items()
            if parameter is not None
        ]
        self._holders += [
            (module._buffers, name)
            for module in own_norms
            for name in ("running_mean", "running_var")
        ]
        self._addresses = self._present_addresses()
        self._weights = list(model.parameters())

    @property
    def lr(self) -> float:
        """The learning rate, which may be set between steps."""
        return float(self.param_groups[0]["lr"])

    @lr.setter
    def lr(self, lr: float) -> None:
        self.param_groups[0]["lr"] = require_not_negative("learning rate lr", lr)

    def _present_addresses(self) -> list[int]:
        return [held[name].data_ptr() for held, name in self._holders]

    def _require_shared(self) -> None:
        """Raise ``UsageError`` unless the model still has the memory that the engine trains."""
        if self._present_addresses() != self._addresses:
            raise UsageError(
                "the model's tensors were replaced after the engine took them, as by double(), "
                "vector_to_parameters or load_state_dict(assign=True): copy values into them, as "
                "load_state_dict does, or make a new NativeElasticZO"
            )

    def step(self, inputs: Tensor, labels: Tensor) -> StepInfo:
        """Do one step of Algorithm 1.

        Args:
            inputs: float32 [B, ...].
            labels: classes, int64 [B].

        Raises:
            UsageError: the batch does not fit the network, holds a NaN or an infinity, or is
                one value for each channel of a batch norm; or the model's tensors were replaced.
                Nothing has been touched.
            DivergedError: a loss or the update is not finite; the weights are restored.
        """
        lr = require_not_negative("learning rate lr", self.param_groups[0]["lr"])
        self._require_shared()
        samples, classes = self._samples(inputs, torch.float32), classes_of(labels)
        with self._lock, uninterrupted():  # else a signal could come between the step and its count
            plus, minus, gradient, key, finite = called(
                self.training.step, samples, classes, self.steps, lr
            )
            self._note_moved()
            # PyTorch counts every forward pass, also those of a step that fails
            for module in self._updated:
                assert module.num_batches_tracked is not None  # noqa: S101 - the layer table has it
                module.num_batches_tracked.add_(2 if self.start else 1)
            if not finite:
                raise DivergedError(
                    f"step {self.steps + 1}: losses {plus:.6g} and {minus:.6g}, learning rate times"
                    f" g = {lr * gradient:.6g}: all must be finite in float32. Lower the learning "
                    "rate, eps or the gradient clip. The weights are those from before the step, "
                    "up to the rounding of sums; running statistics are not"
                )
            self.steps += 1
            self.last = info = self.info(plus, minus, key, gradient)
        return info

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits, float32 [B, classes].

        Raises:
            UsageError: the batch does not fit the network, or holds a NaN or an infinity; or the
                model's tensors were replaced.
        """
        self._require_shared()
        samples = self._samples(inputs, torch.float32)
        with self._lock:
            return torch.from_numpy(called(self.training.forward, samples))

    def perturb_(self, key: int, factor: float) -> None:
        """Add ``factor`` z(key) to the weights before the tail; z is standard normal.

        Raises:
            UsageError: the factor is not finite, or the model's tensors were replaced.
        """
        if not abs(factor) <= torch.finfo(torch.float32).max:
            raise UsageError(f"factor = {factor!r}: must be finite in float32")
        self._require_shared()
        with self._lock, uninterrupted():
            called(self.training.move, whole_seed(key) % (1 << 64), factor)
            self._note_moved()

    def _note_moved(self) -> None:
        """Tell autograd that the weights have changed, which it did not see."""
        torch.autograd.graph.increment_version(self._weights)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of a resumed run, without the weights."""
        return {"seed": self.seed, "steps": self.steps, "lr": self.param_groups[0]["lr"]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from the result of ``state_dict``."""
        with self._lock:
            self.seed, self.steps = state["seed"], state["steps"]
            self.param_groups[0]["lr"] = state["lr"]
            self.training.seed = self.seed % (1 << 64)


def _require_trainable(model: nn.Module) -> None:
    """Check that the engine trains every parameter as PyTorch would.

    Raises:
        UsageError: a parameter is frozen, an inference tensor, not float32 or not on the CPU.
    """
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            raise UsageError(
                f"parameter {name} has requires_grad = False, and the engine trains every "
                "parameter; unfreeze it, or use repro.methods.elasticzo.ElasticZO"
            )
        require_changeable(f"parameter {name}", parameter, flat=False)
        if parameter.dtype != torch.float32 or parameter.device.type != "cpu":
            raise UsageError(
                f"parameter {name} is {parameter.dtype} on {parameter.device}, and the engine "
                "trains float32 on the CPU; call model.float().cpu() first"
            )
