"""Bytes of the activations of one decoder block, from the sizes of the model's own class.

The stored activations are the tensors that autograd saves for transformers' operators, counted by
storage: two views of one tensor count once. The counts are derived from the source of transformers
5, operator by operator; docs/plan.md compares the sums with simulated steps. All sizes are for B
sequences of N tokens; a width below is a number of elements per token.
"""

from repro.memory.setting import Setting
from repro.planner.architecture import Architecture

# This module and ``formula`` use only syntax that ``repro.planner.javascript`` translates.

FLOAT32 = 4


def is_eager(a: Architecture, s: Setting) -> bool:
    """Return whether attention is computed by separate operators."""
    return a.eager_only or s.attention == "eager"


def kept(a: Architecture, s: Setting, *, adapters: bool, masked: float = 0) -> float:
    """Return the bytes that one block stores for its backward pass.

    Args:
        a: the model.
        s: sizes and number format.
        adapters: whether only adapters are trained; the norms store no input for their weights.
        masked: fraction of the blocks that have a mask if the context is as wide as their window;
            the mean over the blocks is returned.
    """
    reads = 1 if a.parallel and a.norms == 1 else 2  # attention and FFN may share their input
    inputs: float = s.width * a.hidden * reads
    if adapters and copies_inputs(s):
        inputs = s.adapter_width * sum(width for width, _ in a.matrices)
    token = (
        _norms(a, s, adapters=adapters)
        + inputs
        + _attention(a, s, masked, adapters=adapters)
        + _feed_forward(a, s, adapters=adapters)
    )
    return s.batch * s.context * token


def forward_working(a: Architecture, s: Setting, *, adapters: bool = False) -> float:
    """Return the peak inside a block in a forward pass that stores nothing for later.

    The model's code holds the embedded tokens and the block's input throughout. An adapter's output
    exists at the same time as its matrix's output; a composed activation needs more tensors.
    """
    D, Q, K, b = a.hidden, a.query_width, a.kv_width, s.width
    outside: float = 2 * D
    if a.position_rows:  # OPT looks them up for every sequence, GPT-2 once
        outside += D if a.inline_feed_forward else D / s.batch
    # the stream (or attention's output, if both are added at the end), and the norm's output,
    # which inline code frees after the first matrix; without that norm it is the stream
    inputs = 1 if (a.inline_feed_forward and not adapters) or not a.pre_norm else 2
    composed = a.activation == "composed" and not a.gated
    # a fused matrix's output stays whole while its halves' activation and product are made
    gated = 4 if a.fused_gate else 3
    wide = b * (4 if composed else (gated if a.gated else 2))
    if adapters:  # the output of an adapter and its scaled copy beside the matrix's
        beside = b if a.gated and not a.fused_gate else 0
        outputs = 2 if a.fused_gate else 1
        wide = max(wide, beside + outputs * (b + 2 * s.adapter_width))
    feed_forward = b * (outside + (inputs + a.held) * D) + wide * a.feed_forward
    projected = outside + (D if a.pre_norm else 0) + Q + 2 * K
    rotation: float = max(3 * Q, Q + 3 * K) if a.rotary else 0
    if a.float32_rotation:
        rotation *= FLOAT32 / b
    mask = s.context if _masked(a, s) else 0
    attention = b * (projected + max(rotation, 2 * Q + mask))
    if is_eager(a, s):
        row = b * a.heads * s.context
        # besides the matrices' outputs, of which the fused one or the unrotated part is a view
        rotated = Q + K if a.rotary and (a.fused_qkv or a.joined_rotation) else 0
        # a single key/value head is repeated as a view
        repeated = 2 * Q if a.kv_heads > 1 and a.kv_heads < a.heads and not a.split_copies else 0
        operands = b * (projected + rotated + repeated)
        product = operands + b * 2 * Q + row  # which copies queries and keys
        attention = max(b * (projected + rotation), product, operands + _scores_working(a, s))
        # the probabilities, which the block's code still holds, in Falcon the previous ones, too
        feed_forward += row * (2 if a.score_rows > 2 else 1)
    norm = b * (outside + D) + 2 * FLOAT32 * D if a.norm != "layer" else 0
    return s.batch * s.context * max(feed_forward, attention, norm)


def feed_forward_backward(a: Architecture, s: Setting, *, adapters: bool = False) -> float:
    """Return the peak of the feed-forward network's backward pass above the block's activations.

    The gradient of a matrix's input has two parts, the matrix's and its adapter's.
    """
    wide = 1 if a.activation == "fused" and not a.gated else 2
    wide += adapters and not a.gated and a.activation != "composed"
    matrices = s.width * (a.hidden + wide * a.feed_forward)
    norm = 5 * FLOAT32 * a.hidden if a.post_norm else 0  # the first backward pass of the block
    if adapters and copies_inputs(s):
        matrices = s.width * a.hidden + s.adapter_width * a.feed_forward
        norm += s.width * a.hidden  # the stream, which other adapters store
    return s.batch * s.context * max(matrices, norm)


def adapted_forward(a: Architecture, s: Setting, *, again: bool) -> float:
    """Return the peak of the last block's forward pass above all activations stored in the end.

    It matters for adapters, whose outputs and their scaled copies exist beside the matrices' own.

    Args:
        a: the model.
        s: sizes and number format.
        again: whether the block is recomputed in the backward pass.
    """
    D, b, wide = a.hidden, s.width, s.adapter_width
    stored, product, held = _feed_forward(a, s, adapters=True), 0, a.held
    if copies_inputs(s):
        stored += wide * a.feed_forward
        product = 0 if a.activation == "relu" and not a.gated else b * a.feed_forward
        held += 1 if a.pre_norm else 0  # the norm's output
    if a.parallel or a.norm != "layer":
        held += 1  # attention's output, or the stream, of which an RMSNorm stores only a copy
    if again:
        outside: float = D * (b + wide)  # the gradient of the block's output, and its scaled copy
    else:
        outside = 0 if a.norm == "layer" else 2 * b * D
        if a.position_rows:
            outside += b * (D if a.inline_feed_forward else D / s.batch)
    outputs = (2 if a.fused_gate else 1) * (b + 2 * wide)
    beside = 2 * b if a.gated and not a.fused_gate else 0  # the gate and its activation
    first = (outputs + beside) * a.feed_forward - stored
    # a recomputation ends as soon as the last stored activation exists
    last = product + D * (b if again else b + 2 * wide)
    return s.batch * s.context * (outside + b * D * held + max(first, last))


def copies_inputs(s: Setting) -> bool:
    """Return whether adapters copy the inputs of their matrices, to their own wider format."""
    return s.adapter_width > s.width


def attention_backward(a: Architecture, s: Setting, *, adapters: bool = False) -> float:
    """Return the peak of eager attention's backward pass above the block's activations.

    The activations between attention and the block's end are freed by then.
    """
    D, b = a.hidden, s.width
    freed = _feed_forward(a, s, adapters=adapters)
    if adapters and copies_inputs(s):
        first = 1 if a.fused_qkv else 3  # the matrices before attention
        freed += s.adapter_width * (sum(width for width, _ in a.matrices) - first * D)
    elif not a.parallel:
        freed += b * D
    if not a.parallel:
        norm = b * D if a.norm == "layer" else D * _rms(a, s, adapters=adapters)
        freed += (a.norms - 1) * norm
    return s.batch * s.context * (2 * b * D + _scores_gradient(a, s) - freed)


def final_norm_working(a: Architecture, s: Setting) -> float:
    """Return the peak of the final norm's backward pass above all stored activations."""
    token = 6 * FLOAT32 * a.hidden if a.norm != "layer" else 4 * s.width * a.hidden
    return s.batch * s.context * token


def kept_at_the_end(a: Architecture, s: Setting, *, adapters: bool) -> float:
    """Return the stored activations of the final norm and the output layer."""
    norm = s.width if a.norm == "layer" else _rms(a, s, adapters=adapters)
    head = s.width if s.loss == "all" and not adapters else 0
    return s.batch * s.context * a.hidden * (norm + head)


def shared_input(a: Architecture, s: Setting) -> float:
    """Return the bytes of a block's input that the block stores itself, as checkpointing does."""
    same = a.norm == "layer" or s.width == FLOAT32
    return s.batch * s.context * s.width * a.hidden if same else 0


def unkept(a: Architecture, s: Setting) -> float:
    """Return how much less the first block of a backward pass stores than the others.

    Nothing before it is trained, so an RMSNorm before attention passes no gradient on.
    """
    return 0 if a.norm == "layer" or not a.pre_norm else s.batch * s.context * FLOAT32 * a.hidden


def shared(a: Architecture, s: Setting) -> float:
    """Return the bytes shared by all blocks: a mask, and the tables of the rotation.

    Eager attention adds a mask for each sequence, in the activations' format. SDPA needs a boolean
    mask for blocks with a window no wider than the context.
    """
    tables = 2 * s.width * s.context * a.head_size if a.rotary else 0
    if is_eager(a, s):
        return tables + a.masks * s.width * s.batch * s.context**2
    return tables + (s.context**2 if _masked(a, s) else 0)


def logits(a: Architecture, s: Setting, *, backward: bool = False) -> float:
    """Return the bytes of the loss at its largest.

    In the forward pass these are the logits, their float32 copy (in float32 the logits themselves)
    and the log-probabilities; in the backward pass also two gradients and, of capped logits, the
    output of the tanh.
    """
    copies = 2 * FLOAT32 + (s.width if s.width < FLOAT32 else 0)
    if backward:
        copies = 3 * FLOAT32 + (s.width if a.capped else 0)
    positions = s.context if s.loss == "all" else 1
    return s.batch * positions * a.vocabulary * copies


def _norms(a: Architecture, s: Setting, *, adapters: bool) -> float:
    """Return the stored activations of the norms of width D, without their outputs.

    An RMSNorm stores its input in float32 and, for the gradient of its weight, the normalised
    input. A LayerNorm stores its input, which two parallel norms share.
    """
    if a.norm == "layer":
        return s.width * a.hidden * (1 if a.parallel else a.norms)
    return a.norms * a.hidden * _rms(a, s, adapters=adapters)


def _rms(a: Architecture, s: Setting, *, adapters: bool) -> float:
    normalised = FLOAT32 if a.norm == "rms32" else s.width
    return FLOAT32 + (0 if adapters else normalised)


def _attention(a: Architecture, s: Setting, masked: float, *, adapters: bool) -> float:
    """Return attention's stored activations, from its matrices' outputs to the last input."""
    Q, K, b = a.query_width, a.kv_width, s.width
    norm = 0.0
    if a.query_key_norm != "none":
        norm = (Q + K) * _rms(a, s, adapters=adapters)
    if is_eager(a, s):  # keys and values are copied for every head for the products
        probabilities = b + (FLOAT32 if a.float32_softmax and b < FLOAT32 else 0)
        scores = probabilities + (b if a.capped else 0)
        own = 3 if adapters and copies_inputs(s) else 4
        return norm + b * own * Q + scores * a.heads * s.context
    whole = a.fused_qkv and not a.split_copies
    values = Q + 2 * K if whole else K  # views of the fused output keep all of it alive
    rotated = Q + K if a.rotary or not whole else 0
    # a kernel's output has the layout of the queries, so the next matrix may need a copy
    copied = a.joined_rotation and not (adapters and copies_inputs(s))
    output = 2 * Q if copied else Q
    sums = FLOAT32 * a.heads  # logarithms of the softmax's sums
    return norm + b * (values + rotated + output + masked * _mask(a, s)) + sums


def _mask(a: Architecture, s: Setting) -> float:
    """Return the elements per token stored by a block with an explicit mask.

    The block stores the mask in the activations' format, for every sequence. With a mask, keys and
    values are also copied for every head, unless there is only one key/value head.
    """
    copied = 2 * (a.query_width - a.kv_width) if a.kv_heads > 1 else 0
    return s.context + copied if _masked(a, s) else 0


def _masked(a: Architecture, s: Setting) -> bool:
    return any(a.masked) and s.context >= a.window


def _scores_working(a: Architecture, s: Setting) -> float:
    """Return a token's score rows in eager attention: masked, in float32, and after softmax."""
    row = a.heads * s.context
    upcast = a.float32_softmax and s.width < FLOAT32
    return row * (s.width + 2 * FLOAT32 if upcast else a.score_rows * s.width)


def _scores_gradient(a: Architecture, s: Setting) -> float:
    """Return a token's rows of softmax gradients, minus the probabilities freed by then."""
    row = a.heads * s.context
    upcast = a.float32_softmax and s.width < FLOAT32
    return row * (2 * FLOAT32 - s.width if upcast else 2 * s.width)


def _feed_forward(a: Architecture, s: Setting, *, adapters: bool) -> float:
    """Return the feed-forward network's stored activations without its input."""
    if a.gated:
        # the gate, its activation, the other factor and the product; a ReLU keeps no input
        tensors = 3 if a.activation == "relu" else 4
    else:
        tensors = {"relu": 1, "fused": 2, "composed": 5}[a.activation]
    if adapters and copies_inputs(s) and (a.gated or a.activation != "relu"):
        tensors -= 1  # the last matrix's input, unless the activation stores it itself
    return s.width * a.feed_forward * tensors
