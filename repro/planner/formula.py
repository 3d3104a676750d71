"""The planner's formula: memory at each moment of a step that may be its peak.

Between these moments memory grows or shrinks block by block at a constant rate, so the peak is at
one of them. ``repro.planner.paper`` has the MeZO paper's own equations.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from repro.memory.setting import Setting
from repro.memory.training_method import TrainingMethod
from repro.planner import activations
from repro.planner.architecture import Architecture
from repro.planner.weights import dequantised_bytes, weight_bytes

TOKEN = 8
"""Bytes of a token id."""


@dataclass(frozen=True)
class Moment:
    """Bytes alive at one moment of a step."""

    moment: str
    weights: float
    optimizer_state: float
    gradients: float
    activations: float
    """Activations stored for a backward pass."""
    working: float
    """Memory of the running operation: operands, results, the loss, masks, a dequantised matrix."""

    @property
    def total(self) -> float:
        """Sum of the parts."""
        return (
            self.weights + self.optimizer_state + self.gradients + self.activations + self.working
        )

    def as_dict(self) -> dict[str, object]:
        """Return moment, parts and total as plain values; bytes are whole numbers."""
        parts = {
            name: value if isinstance(value, str) else round(value)
            for name, value in asdict(self).items()
        }
        return {**parts, "total": round(self.total)}


def estimate(a: Architecture, method: TrainingMethod, s: Setting) -> Moment:
    """Return the moment with the largest memory in one step of ``method``, its peak."""
    return max(_Step(a, method, s).moments(), key=lambda moment: moment.total)


class _Step:
    """One step of one method, in bytes."""

    def __init__(self, a: Architecture, method: TrainingMethod, s: Setting) -> None:
        self.a = a
        self.method = method
        self.s = s
        self.adapters = method.trains == "adapters"
        self.blocks = {"all": a.layers, "adapters": a.layers, "tail": min(s.tail, a.layers)}[
            method.trains
        ]
        """Number of blocks in the backward pass, if there is one."""
        self.stream = s.width * s.batch * s.context * a.hidden
        """Bytes of the residual stream."""

    def moments(self) -> Iterator[Moment]:
        """Yield every moment that may be the peak."""
        if self.method.estimator != "backpropagation":
            waiting = self._trained() if self.method.estimator == "both" else 0
            working = activations.forward_working(self.a, self.s, adapters=self.adapters)
            working += dequantised_bytes(self.a, self.s)
            yield self._at("forward pass", waiting, 0, working)
            yield self._at("loss", waiting, 0, self.stream + activations.logits(self.a, self.s))
        if self.method.estimator != "zeroth-order":
            yield from self._backpropagation()

    def _backpropagation(self) -> Iterator[Moment]:
        a, s = self.a, self.s
        block, backward = self._kept_block(a.masked_share(self.blocks or 1)), self._backward()
        inputs = self.blocks * self.stream if self.method.checkpointed else 0
        first_keeps_all = not self.blocks or self.method.trains == "all"
        less = 0 if first_keeps_all else activations.unkept(a, s)
        every = inputs or self.blocks * block - less
        again = self._kept_block(any(a.masked)) - activations.shared_input(a, s)
        recomputed = again if inputs else 0
        head = self._head_gradient()
        last = self._block_gradient(a.feed_forward * a.hidden)  # a backward pass starts with it
        final = activations.kept_at_the_end(a, s, frozen=self.adapters)
        yield self._at("loss", 0, every + final, activations.logits(a, s, backward=True))
        yield self._at("final norm", head, every, activations.final_norm_working(a, s))
        yield self._at("backward pass begins", head + last, every + recomputed, backward)
        of_block = self._block_gradient(a.block_parameters)
        others = self._trained() - self._gradients_to_come() - of_block
        first = again + self.stream if inputs else block
        yield self._at("backward pass ends", others + last, first, backward)
        # a tied embedding's gradient has two parts, which autograd adds out of place
        parts = (
            2 * s.width * a.embedding_parameters if a.tied and self.method.trains == "all" else 0
        )
        yield self._at("gradients complete", self._trained() + parts, 0, self.stream)
        if self.method.adam:
            yield self._at("update", self._trained(), 0, self._update())

    def _at(self, moment: str, gradients: float, kept: float, working: float) -> Moment:
        state = 2 * self._trained() if self.method.adam else 0
        always = activations.shared(self.a, self.s) + TOKEN * self.s.batch * self.s.context
        adapters = self.a.adapter_parameters(self.s.rank) if self.adapters else 0
        weights = weight_bytes(self.a, self.s) + self.s.width * adapters
        return Moment(moment, weights, state, gradients, kept, working + always)

    def _trained(self) -> float:
        """Return the bytes of the backpropagated parameters; their gradients take as many."""
        count = {
            "all": self.a.parameters,
            "adapters": self.a.adapter_parameters(self.s.rank),
            "tail": self.a.tail_parameters(self.blocks),
        }[self.method.trains]
        return self.s.width * count

    def _head_gradient(self) -> float:
        if self.adapters or (self.method.trains == "tail" and self.a.tied):
            return 0
        return self.s.width * self.a.embedding_parameters

    def _gradients_to_come(self) -> float:
        """Return the gradients computed after all blocks, those of the embeddings."""
        if self.method.trains != "all":
            return 0
        tokens = 0 if self.a.tied else self.a.embedding_parameters  # if tied, it exists already
        return self.s.width * (tokens + self.a.position_rows * self.a.hidden)

    def _block_gradient(self, elements: float) -> float:
        """Return the gradient of some elements of a block; that of adapters is negligible."""
        return 0 if self.adapters or not self.blocks else self.s.width * elements

    def _kept_block(self, masked: float) -> float:
        if not self.blocks:
            return 0
        inner = len(self.a.matrices) * self.s.rank if self.adapters else 0
        inner_bytes = self.s.width * self.s.batch * self.s.context * inner
        block = activations.kept(self.a, self.s, frozen=self.adapters, masked=masked)
        return block + inner_bytes

    def _backward(self) -> float:
        if not self.blocks:
            return 0
        working = activations.backward_working(self.a, self.s, adapters=self.adapters)
        return working + dequantised_bytes(self.a, self.s)

    def _update(self) -> float:
        """Return the bytes of Adam's two temporaries for the largest trained tensor."""
        rank, matrices = self.s.rank, self.a.matrices
        if self.adapters:
            largest = max(rank * max(sizes) for sizes in matrices)
        else:
            largest = max(
                self.a.embedding_parameters, *(rows * columns for rows, columns in matrices)
            )
        return 2 * self.s.width * largest
