"""Train integer networks by ElasticZO-INT8 with its schedule, in PyTorch or on the engine."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from repro.integer.elasticzo_int8 import Algorithm2
from repro.integer.loss import float_cross_entropy
from repro.integer.schedule import Schedule
from repro.integer.sign import compare
from repro.integer.tensor import IntegerTensor
from repro.methods.step_info import StepInfo
from repro.training.loop import Labelled, NetworkLearner

COUNTS = ("steps", "integer_is_float", "exact_is_float", "integer_is_exact", "integer_is_zero")
"""Counts of an epoch: all steps, steps at which two rules agree, and steps with integer g = 0."""


class IntegerLearner(NetworkLearner):
    """Trains on a data set quantised once, with one exponent."""

    def __init__(
        self, method: Algorithm2, exponent: int, schedule: Schedule, *, count_signs: bool = False
    ) -> None:
        """Take the method, the exponent of all inputs, and the schedule of the run.

        With ``count_signs`` the two losses of each step are also compared by the other rules for
        the gradient's sign, without changing any weight.
        """
        self.method = method
        self.exponent = exponent
        self.schedule = schedule
        self._counts: dict[str, list[dict[str, int]]] = {"restores": []}
        if count_signs:
            self._counts["signs"] = []
            method.watch = self._count_signs

    def start_epoch(self, epoch: int) -> None:
        """Set the bits and the sparsity of ``epoch``, and start its counts."""
        for name, counted in (("restores", ("inexact", "weights")), ("signs", COUNTS)):
            if name in self._counts:
                del self._counts[name][epoch:]
                self._counts[name].append(dict.fromkeys(counted, 0))
        phase = self.schedule.at(epoch)
        self.method.b_bp, self.method.p_zero = phase.b_bp, phase.p_zero

    def step(self, batch: Labelled) -> StepInfo:
        """Train on one batch: inputs int8 [B, ...], labels int64 [B]."""
        inputs, labels = batch
        before = self.method.restores
        info = self.method.step(IntegerTensor(inputs, self.exponent), labels)
        now, after = self._counts["restores"][-1], self.method.restores
        now["inexact"] += after.inexact - before.inexact
        now["weights"] += after.total - before.total
        return info

    def evaluate(self, batch: Labelled) -> tuple[float, int]:
        """Return the summed cross-entropy, in floating point, and the number of correct answers.

        Among equal logits the first class counts as the prediction.
        """
        inputs, labels = batch
        logits = self.method.forward(IntegerTensor(inputs, self.exponent))
        correct = int((logits.values.argmax(1) == labels).sum())
        return float(float_cross_entropy(logits, labels).sum()), correct

    def counts(self) -> dict[str, list[dict[str, int]]]:
        """Return the number of weights not restored (``restores``) and of agreements between rules.

        The agreements, ``signs``, have the names in ``COUNTS``.
        """
        return self._counts

    def state_dict(self) -> dict[str, Any]:
        """Return the state to resume from: weights, exponents, random streams, counts."""
        return {
            "network": self.method.network.state_dict(),
            "method": self.method.state_dict(),
            "counts": self._counts,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from the result of ``state_dict``, bit for bit."""
        self.load_weights(state)
        self.method.load_state_dict(state["method"])
        self._counts = {name: [dict(now) for now in of] for name, of in state["counts"].items()}

    def load_weights(self, state: Mapping[str, Any]) -> None:
        """Start with the weights, and nothing else, of another learner's state."""
        self.method.network.load_state_dict(state["network"])

    def _count_signs(self, plus: IntegerTensor, minus: IntegerTensor, labels: Tensor) -> None:
        by_float, by_integer, exact = (
            compare(rule, plus, minus, labels).sign for rule in ("float", "integer", "exact")
        )
        now = self._counts["signs"][-1]
        now["steps"] += 1
        now["integer_is_float"] += by_integer == by_float
        now["exact_is_float"] += exact == by_float
        now["integer_is_exact"] += by_integer == exact
        now["integer_is_zero"] += by_integer == 0
