"""ElasticZO-INT8 with its schedule, as a training loop wants it: epochs, batches, evaluation."""

from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

from torch import Tensor

from repro.integer.elasticzo_int8 import Restores, Watch
from repro.integer.loss import float_cross_entropy
from repro.integer.network import IntegerNetwork
from repro.integer.schedule import Schedule
from repro.integer.tensor import IntegerTensor
from repro.methods.step_info import StepInfo


class IntegerMethod(Protocol):
    """Algorithm 2, by whatever computes it."""

    p_zero: float
    b_bp: int
    watch: Watch | None

    @property
    def network(self) -> IntegerNetwork:
        """The network that is trained."""

    @property
    def restores(self) -> Restores:
        """How often the restore was inexact."""

    def step(self, inputs: IntegerTensor, labels: Tensor) -> StepInfo:
        """Do one step."""

    def forward(self, inputs: IntegerTensor) -> IntegerTensor:
        """Return the logits."""

    def state_dict(self) -> dict[str, Any]:
        """Return all that a resumed run needs beside the network's weights."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict`` returned."""


Method = TypeVar("Method", bound=IntegerMethod)


class IntegerLearner(Generic[Method]):
    """Trains on a set that was quantised once, at one exponent."""

    def __init__(self, method: Method, exponent: int, schedule: Schedule) -> None:
        """Take the method, the exponent of all inputs, and the schedule of the run."""
        self.method = method
        self.exponent = exponent
        self.schedule = schedule
        self._restores: list[dict[str, int]] = []

    def start_epoch(self, epoch: int) -> None:
        """Set what the schedule has for ``epoch``, counted from 0."""
        del self._restores[epoch:]
        self._restores.append({"inexact": 0, "weights": 0})
        phase = self.schedule.at(epoch)
        self.method.b_bp, self.method.p_zero = phase.b_bp, phase.p_zero

    def step(self, inputs: Tensor, labels: Tensor) -> StepInfo:
        """Train on one batch: inputs int8 [B, ...], labels int64 [B]."""
        before = self.method.restores
        info = self.method.step(IntegerTensor(inputs, self.exponent), labels)
        now, after = self._restores[-1], self.method.restores
        now["inexact"] += after.inexact - before.inexact
        now["weights"] += after.total - before.total
        return info

    def evaluate(self, inputs: Tensor, labels: Tensor) -> tuple[float, int]:
        """Return the sum of the samples' cross-entropy (in floating point) and how many are right.

        Of equal logits the first class counts as the answer.
        """
        logits = self.method.forward(IntegerTensor(inputs, self.exponent))
        correct = int((logits.values.argmax(1) == labels).sum())
        return float(float_cross_entropy(logits, labels).sum()), correct

    def counts(self) -> dict[str, list[dict[str, int]]]:
        """Return, as ``restores``, how many weights were perturbed and did not come back."""
        return {"restores": self._restores}

    def state_dict(self) -> dict[str, Any]:
        """Return all that a resumed run needs: weights, exponents, streams, counts."""
        return {
            "network": self.method.network.state_dict(),
            "method": self.method.state_dict(),
            "restores": self._restores,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict`` returned, bit for bit."""
        self.method.network.load_state_dict(state["network"])
        self.method.load_state_dict(state["method"])
        self._restores = [dict(now) for now in state["restores"]]

    def load_weights(self, state: Mapping[str, Any]) -> None:
        """Begin with the weights, and nothing else, of another learner's state."""
        self.method.network.load_state_dict(state["network"])
