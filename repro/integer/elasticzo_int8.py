"""ElasticZO-INT8: Algorithm 2 of arXiv 2501.04287, on NITI's integer format.

docs/integer.md lists every rule with its source, the open points of the paper, and our choices. The
layers before the partition point are trained by zeroth-order steps, the layers after it, called the
tail, by backpropagation.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack, get_args

import torch
from torch import Tensor

from repro.core.errors import UsageError
from repro.core.names import IntegerActivations, IntegerRestore, SignRule
from repro.core.signals import uninterrupted
from repro.core.validation import require_choice, whole_seed
from repro.integer.counter import stream_key, words_
from repro.integer.layers import Weighted
from repro.integer.limits import check_bits, check_p_zero, check_r_max
from repro.integer.loss import ERROR_SHIFT, logit_error
from repro.integer.network import IntegerNetwork, SavedTensors
from repro.integer.noise import IntegerNoise
from repro.integer.perturbation import Perturbation
from repro.integer.shift import descend_
from repro.integer.sign import compare, mean_loss
from repro.integer.tensor import IntegerTensor, require_integers
from repro.methods.step_info import GradientEstimate, PhaseTimer, StepInfo

Watch = Callable[[IntegerTensor, IntegerTensor, Tensor], None]
"""Takes the logits of both passes of an estimate, plus first, and the labels."""

Updates = list[tuple[Weighted, Tensor]]

_NOISE, _LOSS_ROUNDING = 0, 1  # purposes of the two random streams of a step
_ENOUGH = 100  # steps with g = 0 before a warning


@dataclass(frozen=True)
class Restores:
    """Number of inexact weight restores over all steps so far."""

    inexact: int
    """Weights not restored to their value (with ``exact``: that ``clip`` would not have
    restored)."""
    total: int
    """Weights perturbed."""


class Rules(TypedDict, total=False):
    """The settings of Algorithm 2; ``Algorithm2`` has the defaults."""

    r_max: int
    """Largest entry of a perturbation (tuned in the paper, range unknown)."""
    p_zero: float
    """Probability that an entry of the perturbation is masked to zero."""
    b_zo: int
    """Bits of the zeroth-order update."""
    b_bp: int
    """Bits of the tail's update."""
    sign: SignRule
    """The rule that compares the losses of the two passes."""
    activations: IntegerActivations
    """Which of the two passes the tail's backward pass uses."""
    restore: IntegerRestore
    """Whether clipped weights are restored exactly."""
    seed: int
    """Seed of all random streams, which depend only on it and the number of the step."""


class Algorithm2(ABC):
    """The settings and the state of Algorithm 2, shared by PyTorch and the on-device engine.

    ``p_zero``, ``b_zo`` and ``b_bp`` may be set between steps; ``repro.integer.schedule`` has the
    paper's schedule.
    """

    def __init__(
        self,
        network: IntegerNetwork,
        *,
        r_max: int = 15,
        p_zero: float = 0.33,
        b_zo: int = 1,
        b_bp: int = 5,
        sign: SignRule = "float",
        activations: IntegerActivations = "plus",
        restore: IntegerRestore = "clip",
        seed: int = 0,
    ) -> None:
        """Check every setting; see ``Rules``."""
        self.network = network
        self.r_max = r_max
        self.p_zero = p_zero
        self.b_zo = b_zo
        self.b_bp = b_bp
        require_choice("sign", sign, get_args(SignRule))
        self.sign: SignRule = sign
        self.watch: Watch | None = None
        """Called with both passes of every estimate."""
        self.activations = require_choice("activations", activations, get_args(IntegerActivations))
        self.restore = require_choice("restore", restore, get_args(IntegerRestore))
        self.seed = whole_seed(seed)
        self.steps = 0
        """Steps done."""
        self.restores = Restores(0, 0)
        self.has_moved = False
        """Whether a step had g = 1 or -1."""
        self.last: StepInfo | None = None
        check_r_max("r_max", r_max)
        self.check_schedule()

    def __repr__(self) -> str:
        """Show every setting."""
        rules = ", ".join(f"{name}={getattr(self, name)!r}" for name in Rules.__annotations__)
        return f"{type(self).__name__}({rules})"

    @abstractmethod
    def step(self, inputs: IntegerTensor, labels: Tensor) -> StepInfo:
        """Do one step of Algorithm 2; see ``ElasticZOInt8.step``."""

    @abstractmethod
    def forward(self, inputs: IntegerTensor) -> IntegerTensor:
        """Return the logits [B, classes] at the present weights."""

    def check_schedule(self) -> None:
        """Raise ``UsageError`` if a setting that may change between steps is out of range."""
        check_p_zero("p_zero", self.p_zero)
        check_bits("b_zo", self.b_zo)
        check_bits("b_bp", self.b_bp)

    def count_restores(self, inexact: int, weights: int) -> None:
        """Count a step that perturbed ``weights``, of which ``inexact`` were not restored."""
        self.restores = Restores(self.restores.inexact + inexact, self.restores.total + weights)

    def warn_if_unmoved(self) -> None:
        """Warn if g was 0 in each of the first 100 steps."""
        if self.steps == _ENOUGH and not self.has_moved:
            warnings.warn(
                f"g = 0 in each of the first {_ENOUGH} steps: sign = {self.sign!r} finds the "
                "losses of both passes equal, so no zeroth-order weight has moved. Start from a "
                "trained network or IntegerNetwork.random, or use a larger batch or r_max",
                stacklevel=3,
            )

    def state_dict(self) -> dict[str, Any]:
        """Return the state to resume from, without the network's weights."""
        return {
            "seed": self.seed,
            "steps": self.steps,
            "p_zero": self.p_zero,
            "b_zo": self.b_zo,
            "b_bp": self.b_bp,
            "restores": (self.restores.inexact, self.restores.total),
            "has_moved": self.has_moved,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a ``state_dict`` of either engine."""
        self.seed, self.steps = state["seed"], state["steps"]
        self.p_zero, self.b_bp = state["p_zero"], state["b_bp"]
        self.b_zo = state.get("b_zo", self.b_zo)  # older states lack it
        self.restores = Restores(*state["restores"])
        self.has_moved = state.get("has_moved", True)  # older states lack it


class ElasticZOInt8(Algorithm2):
    """Algorithm 2: ternary zeroth-order steps before the partition point, NITI in the tail.

    Example::

        network = IntegerNetwork.random(lenet5(bias=False), seed=0)
        elastic = ElasticZOInt8(network, "fc3", sign="integer")
        for images, labels in batches:
            elastic.step(IntegerTensor(images, exponent), labels)

    With an empty tail this is Full ZO. If the tail is the whole network, a step makes one forward
    pass and is NITI (Full BP). With ``sign="integer"`` (INT8*) a step touches no floating-point
    tensor.
    """

    def __init__(
        self,
        network: IntegerNetwork,
        partition: str | int,
        *,
        timed: bool = False,
        **rules: Unpack[Rules],
    ) -> None:
        """Check every setting before a weight is touched.

        Args:
            network: the network, trained in place.
            partition: name of the first layer of the tail, or the number C of modules before it.
            timed: whether ``last.seconds`` is filled.
            rules: settings of the algorithm; see ``Rules``.

        Raises:
            UsageError: a setting is out of range, or the partition names no layer.
        """
        super().__init__(network, **rules)
        self.timed = timed
        self.start = network.partition_index(partition)
        self._fitting: tuple[int, ...] | None = None  # shape of a sample that is known to fit

    @property
    def zo_sizes(self) -> list[int]:
        """Elements of each zeroth-order weight."""
        names = list(self.network.layers)[: self.start]
        weighted = self.network.weighted
        return [weighted[name].weight.values.numel() for name in names if name in weighted]

    def step(self, inputs: IntegerTensor, labels: Tensor) -> StepInfo:
        """Do one step of Algorithm 2.

        Args:
            inputs: [B, ...].
            labels: classes, int64 [B].

        Returns:
            The losses, measured by the rule ``sign`` (means over the batch, in nats; under Full BP,
            the loss of the only pass), and the estimate, whose projected gradient is the ternary g.

        Raises:
            UsageError: ``p_zero``, ``b_zo`` or ``b_bp`` is out of range, or the batch does not fit
                the network; no weight has been touched.
            KeyboardInterrupt: between two passes over the weights, which are then restored, or
                after the whole step.
        """
        self.check_schedule()
        self._check_batch(inputs, labels)
        timer = PhaseTimer(enabled=self.timed)
        do_step = self._hybrid if self.zo_sizes else self._plain
        self.last = do_step(inputs, labels, timer)
        return self.last

    def forward(self, inputs: IntegerTensor) -> IntegerTensor:
        """Return the logits [B, classes] at the present weights."""
        return self.network.forward(inputs)

    def _hybrid(self, inputs: IntegerTensor, labels: Tensor, timer: PhaseTimer) -> StepInfo:
        key = stream_key(self.seed, self.steps, _NOISE)
        sizes = self.zo_sizes
        perturbation = Perturbation(
            self.network.parameters[: sum(sizes)],
            sizes,
            IntegerNoise(key, self.r_max, self.p_zero),
            exact=self.restore == "exact",
        )
        updates: Updates = []
        try:
            with timer("perturb"):
                perturbation.plus()
            plus = self._pass(inputs, labels, updates, timer, recorded=self.activations == "plus")
            with timer("perturb"):
                perturbation.minus()
            minus = self._pass(inputs, labels, updates, timer, recorded=self.activations == "minus")
            with timer("loss"):
                found = compare(self.sign, plus, minus, labels)
            if self.watch is not None:
                self.watch(plus, minus, labels)
            with timer("update"), uninterrupted():
                perturbation.restore_and_descend(found.sign, self.b_zo)
                self.count_restores(perturbation.clipped, sum(sizes))
                self.has_moved |= found.sign != 0
                self._descend(updates)
        except BaseException:
            perturbation.restore()
            raise
        self.warn_if_unmoved()
        estimate = GradientEstimate(key, found.loss_plus, found.loss_minus, found.sign)
        mean = (found.loss_plus + found.loss_minus) / 2
        return StepInfo(mean, (estimate,), timer.seconds)

    def _plain(self, inputs: IntegerTensor, labels: Tensor, timer: PhaseTimer) -> StepInfo:
        updates: Updates = []
        logits = self._pass(inputs, labels, updates, timer, recorded=True)
        with timer("loss"):
            loss = mean_loss(self.sign, logits, labels)
        with timer("update"), uninterrupted():
            self._descend(updates)
        return StepInfo(loss, (), timer.seconds)

    def _descend(self, updates: Updates) -> None:
        """Update the tail, which ends the step."""
        for layer, update in updates:
            descend_(layer.weight.values, update)
        self.steps += 1

    def _pass(
        self,
        inputs: IntegerTensor,
        labels: Tensor,
        updates: Updates,
        timer: PhaseTimer,
        *,
        recorded: bool,
    ) -> IntegerTensor:
        """Return the logits; if ``recorded``, add the tail's updates, to be applied later."""
        tape: list[SavedTensors] | None = [] if recorded else None
        with timer("forward"):
            logits = self.network.forward(inputs, tape, self.start)
        if tape:
            with timer("backward"):
                error = logit_error(logits, labels, self._draws(logits.values))
                updates += self.network.backward(tape, error, self.b_bp)
        return logits

    def _draws(self, logits: Tensor) -> Tensor:
        """Return the draws u of this step's stochastic rounding: the top 4 bits of word b C + c."""
        key = stream_key(self.seed, self.steps, _LOSS_ROUNDING)
        words = torch.arange(logits.numel(), dtype=torch.int32, device=logits.device)
        words_(words, key, torch.empty_like(words))
        draws = (words >> (32 - ERROR_SHIFT)) & ((1 << ERROR_SHIFT) - 1)
        return draws.to(torch.int64).view_as(logits)

    def _check_batch(self, inputs: IntegerTensor, labels: Tensor) -> None:
        """Validate the batch before any weight changes; each new shape takes a forward pass."""
        require_integers(inputs)
        values = inputs.values
        if (
            values.dim() == 0
            or len(values) == 0
            or labels.shape != values.shape[:1]
            or labels.dtype != torch.int64
        ):
            raise UsageError(
                f"labels {tuple(labels.shape)} of {labels.dtype} for inputs "
                f"{tuple(values.shape)}: must be one int64 for each of at least one input"
            )
        if values.shape[1:] != self._fitting:
            self.network.forward(IntegerTensor(values[:1], inputs.exponent))
            self._fitting = tuple(values.shape[1:])
        low, high = (int(end) for end in torch.aminmax(labels))
        if low < 0 or high >= self.network.classes:
            msg = f"labels from {low} to {high}: must be from 0 to {self.network.classes - 1}"
            raise UsageError(msg)
