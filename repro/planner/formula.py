"""The planner's formula: memory at each moment of a step that may be its peak.

Between these moments memory grows or shrinks block by block at a constant rate, so the peak is at
one of them. ``repro.planner.paper`` has the MeZO paper's own equations.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace

from repro.memory.setting import BLOCK_4BIT, Setting, TrainingMethod
from repro.planner import activations
from repro.planner.architecture import Architecture

TOKEN = 8
"""Bytes of a token id."""
SCALE = 4
"""Bytes of a float32 scale."""
LARGEST_BATCH = 1 << 20
"""Upper limit of the search for a batch."""


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


def longest_context(a: Architecture, method: TrainingMethod, s: Setting, budget: float) -> int:
    """Return the most tokens that fit, at most the model's positions; 0 if not even one fits."""
    return largest(
        lambda context: estimate(a, method, replace(s, context=context)).total <= budget,
        a.positions,
    )


def largest_batch(a: Architecture, method: TrainingMethod, s: Setting, budget: float) -> int:
    """Return the most sequences that fit, at most ``LARGEST_BATCH``; 0 if not even one fits."""
    return largest(
        lambda batch: estimate(a, method, replace(s, batch=batch)).total <= budget, LARGEST_BATCH
    )


def largest(fits: Callable[[int], bool], limit: int) -> int:
    """Return the largest number from 1 to ``limit`` that fits, or 0; ``fits`` must be monotone."""
    if fits(limit):
        return limit
    low, high = 0, limit  # low fits or is 0; high does not fit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def weight_bytes(a: Architecture, s: Setting) -> float:
    """Return the bytes of the model's weights.

    int8 stores one byte per element and a scale for each output of a matrix; 4-bit stores half a
    byte per element and a scale for every ``BLOCK_4BIT`` elements. Only the matrices of the blocks
    are quantised. As in bitsandbytes, the embedding, the output layer, norms and biases remain
    bfloat16.
    """
    if not s.quantised:
        return s.width * a.parameters
    elements = a.layers * a.block_matrix_parameters
    if s.format == "int8":
        scales = a.layers * sum(outputs for _, outputs in a.matrices)
        stored = float(elements + SCALE * scales)
    else:
        stored = elements * (0.5 + SCALE / BLOCK_4BIT)
    return stored + s.width * (a.parameters - elements)


def dequantised_bytes(a: Architecture, s: Setting) -> float:
    """Return the bytes of the largest matrix while it is dequantised for a product."""
    if not s.quantised:
        return 0
    return s.width * max(inputs * outputs for inputs, outputs in a.matrices)


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
        trained = {
            "all": a.parameters,
            "adapters": a.adapter_parameters(s.rank),
            "tail": a.tail_parameters(self.blocks),
        }[method.trains]
        self.trained_width = s.adapter_width if self.adapters else s.width
        """Bytes of a backpropagated parameter."""
        self.trained = self.trained_width * trained
        """Bytes of the backpropagated parameters; their gradients take as many."""

    def moments(self) -> Iterator[Moment]:
        """Yield every moment that may be the peak."""
        if self.method.estimator != "backpropagation":
            waiting = self.trained if self.method.estimator == "both" else 0
            yield self._at("forward pass", waiting, 0, self._forward_working())
            yield self._at("loss", waiting, 0, self.stream + activations.logits(self.a, self.s))
        if self.method.estimator != "zeroth-order":
            yield from self._backpropagation()

    def _backpropagation(self) -> Iterator[Moment]:
        a, s, trains = self.a, self.s, self.method.trains
        block = self._kept_block(a.masked_share(self.blocks or 1))
        inputs = self.blocks * self.stream if self.method.checkpointed else 0
        if inputs and self.adapters and a.position_rows:
            inputs += self.stream  # the embedded tokens, which PEFT makes require a gradient
        first_keeps_all = not self.blocks or trains == "all"
        less = 0 if first_keeps_all else activations.unkept(a, s)
        every = inputs or self.blocks * block - less
        again = self._kept_block(any(a.masked)) - activations.shared_input(a, s)
        recomputed = again if inputs else 0
        embedding = s.width * a.embedding_parameters
        head = 0 if self.adapters or (trains == "tail" and a.tied) else embedding
        # a block's backward pass starts with its last matrix
        feed_forward = self._block_gradient(a.feed_forward * a.hidden)
        attention = feed_forward
        if activations.is_eager(a, s):  # whose peak comes later, when more gradients exist
            attention = self._block_gradient(a.later_matrix_parameters)
        feed_forward_working, attention_working = self._backward_working()
        final = activations.kept_at_the_end(a, s, adapters=self.adapters)
        yield self._at("loss", 0, every + final, activations.logits(a, s, backward=True))
        if inputs:
            yield self._at("forward pass", 0, inputs, self._forward_working())
        if self.adapters:
            working = activations.adapted_forward(a, s, again=inputs > 0)
            yield self._at("block computed", 0, every + recomputed, working)
        yield self._at("final norm", head, every, activations.final_norm_working(a, s))
        begins, kept = "backward pass begins", every + recomputed
        yield self._at(begins, head + feed_forward, kept, feed_forward_working)
        yield self._at(begins, head + attention, kept, attention_working)
        to_come, parts = 0, 0
        if trains == "all":  # the embeddings' gradients come after all blocks
            tokens = 0 if a.tied else a.embedding_parameters  # if tied, it exists already
            to_come = s.width * (tokens + a.position_rows * a.hidden)
            # a tied embedding's gradient has two parts, which autograd adds out of place
            parts = 2 * embedding if a.tied else 0
        others = self.trained - to_come - self._block_gradient(a.block_parameters)
        first = again + inputs - (self.blocks - 1) * self.stream if inputs else block - less
        ends = "backward pass ends"
        yield self._at(ends, others + feed_forward, first, feed_forward_working)
        yield self._at(ends, others + attention, first, attention_working)
        yield self._at("gradients complete", self.trained + parts, 0, self.stream)
        if self.method.adam:  # its update makes two temporaries for each trained tensor
            if self.adapters:
                largest_tensor = max(s.rank * max(sizes) for sizes in a.matrices)
            else:
                largest_tensor = max(
                    a.embedding_parameters, *(rows * columns for rows, columns in a.matrices)
                )
            temporaries = 2 * self.trained_width * largest_tensor
            yield self._at("update", self.trained, 0, temporaries)

    def _at(self, moment: str, gradients: float, kept: float, working: float) -> Moment:
        state = 2 * self.trained if self.method.adam else 0
        always = activations.shared(self.a, self.s) + TOKEN * self.s.batch * self.s.context
        weights = weight_bytes(self.a, self.s) + (self.trained if self.adapters else 0)
        return Moment(moment, weights, state, gradients, kept, working + always)

    def _forward_working(self) -> float:
        """Return the working memory of a forward pass that stores nothing for later."""
        # a matrix is freed before its adapter runs
        plain = activations.forward_working(self.a, self.s) + dequantised_bytes(self.a, self.s)
        if not self.adapters:
            return plain
        return max(plain, activations.forward_working(self.a, self.s, adapters=True))

    def _backward_working(self) -> tuple[float, float]:
        """Return the working memory of a block's two peaks; only eager attention has the second."""
        a, s = self.a, self.s
        if not self.blocks:
            return (0, 0)
        matrix = dequantised_bytes(a, s)
        feed_forward = activations.feed_forward_backward(a, s, adapters=self.adapters)
        attention = feed_forward
        if activations.is_eager(a, s):
            attention = activations.attention_backward(a, s, adapters=self.adapters)
        return (feed_forward + matrix, attention + matrix)

    def _block_gradient(self, elements: float) -> float:
        """Return the gradient of some elements of a block; that of adapters is negligible."""
        return 0 if self.adapters or not self.blocks else self.s.width * elements

    def _kept_block(self, masked: float) -> float:
        if not self.blocks:
            return 0
        inner = len(self.a.matrices) * self.s.rank if self.adapters else 0
        inner_bytes = self.s.adapter_width * self.s.batch * self.s.context * inner
        block = activations.kept(self.a, self.s, adapters=self.adapters, masked=masked)
        return block + inner_bytes
