"""How often the rules for the sign of the gradient agree while a network trains by one of them."""

from typing import Any

from torch import Tensor

from repro.integer.learner import IntegerLearner, Method
from repro.integer.sign import compare
from repro.integer.tensor import IntegerTensor
from repro.methods.step_info import StepInfo

COUNTS = ("steps", "integer_is_float", "exact_is_float", "integer_is_exact", "integer_is_zero")
"""Of an epoch: its steps, those at which the rules agree, and those at which g = 0 by integers."""


class SignCounter:
    """A learner in integers that also compares the two losses by the rules it does not use.

    The weights are those of the learner alone: nothing is drawn and nothing is changed.
    """

    def __init__(self, learner: IntegerLearner[Method]) -> None:
        """Watch the passes of ``learner``."""
        self.learner = learner
        self._signs: list[dict[str, int]] = []
        learner.method.watch = self._count

    def start_epoch(self, epoch: int) -> None:
        """Begin the counts of ``epoch``."""
        self.learner.start_epoch(epoch)
        del self._signs[epoch:]
        self._signs.append(dict.fromkeys(COUNTS, 0))

    def step(self, inputs: Tensor, labels: Tensor) -> StepInfo:
        """Train on one minibatch."""
        return self.learner.step(inputs, labels)

    def evaluate(self, inputs: Tensor, labels: Tensor) -> tuple[float, int]:
        """Return the sum of the cross-entropy over a batch and how many labels are predicted."""
        return self.learner.evaluate(inputs, labels)

    def counts(self) -> dict[str, list[dict[str, int]]]:
        """Return the learner's counts and, as ``signs``, those named in ``COUNTS``."""
        return {**self.learner.counts(), "signs": self._signs}

    def state_dict(self) -> dict[str, Any]:
        """Return all that a resumed run needs."""
        return {**self.learner.state_dict(), "signs": self._signs}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from what ``state_dict`` returned."""
        rest = dict(state)
        self._signs = rest.pop("signs")
        self.learner.load_state_dict(rest)

    def load_weights(self, state: dict[str, Any]) -> None:
        """Begin with the weights, and nothing else, of another learner's state."""
        self.learner.load_weights(state)

    def _count(self, plus: IntegerTensor, minus: IntegerTensor, labels: Tensor) -> None:
        by_float, by_integer, exact = (
            compare(rule, plus, minus, labels).sign for rule in ("float", "integer", "exact")
        )
        now = self._signs[-1]
        now["steps"] += 1
        now["integer_is_float"] += by_integer == by_float
        now["exact_is_float"] += exact == by_float
        now["integer_is_exact"] += by_integer == exact
        now["integer_is_zero"] += by_integer == 0
