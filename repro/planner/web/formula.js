"use strict";
/* The planner's formula, as repro/planner/{architecture,weights,activations,formula,search,paper}.py have
   it; tests/test_plan_page.py holds both equal. `a` is an architecture, `s` a setting, with the names
   of Python's fields; all results are bytes unless said otherwise. */

const FLOAT32 = 4;
const TOKEN = 8;
const SCALE = 4;
const BLOCK_4BIT = 64;
const LARGEST_BATCH = 1 << 20;
const WIDTHS = { float32: 4, float16: 2, bfloat16: 2, int8: 2, "4bit": 2 };

const width = (s) => WIDTHS[s.format];
const quantised = (s) => s.format === "int8" || s.format === "4bit";
const sum = (values) => values.reduce((total, value) => total + value, 0);

/* Parameters */

const queryWidth = (a) => a.heads * a.head_size;
const kvWidth = (a) => a.kv_heads * a.head_size;
const normWidth = (a) => a.hidden * (a.norm === "layer" ? 2 : 1);

/** Inputs and outputs of each matrix of a block. */
function matrices(a) {
  const D = a.hidden, Q = queryWidth(a), K = kvWidth(a), F = a.feed_forward;
  const attention = a.fused_qkv ? [[D, Q + 2 * K]] : [[D, Q], [D, K], [D, K]];
  const entry = a.fused_gate ? [[D, 2 * F]] : a.gated ? [[D, F], [D, F]] : [[D, F]];
  return [...attention, [Q, D], ...entry, [F, D]];
}

const blockMatrixParameters = (a) => sum(matrices(a).map(([inputs, outputs]) => inputs * outputs));

function blockParameters(a) {
  const D = a.hidden, Q = queryWidth(a), K = kvWidth(a);
  const biases = (a.qkv_bias ? Q + 2 * K : 0) + (a.output_bias ? D : 0)
    + (a.feed_forward_bias ? a.feed_forward * (a.gated ? 2 : 1) + D : 0);
  const queryKeyNorm = { none: 0, head: 2 * a.head_size, wide: Q + K }[a.query_key_norm];
  return blockMatrixParameters(a) + biases + a.norms * normWidth(a) + queryKeyNorm;
}

const embeddingParameters = (a) => a.vocabulary * a.hidden;
const headParameters = (a) =>
  (a.tied ? 0 : a.vocabulary * a.hidden) + (a.head_bias ? a.vocabulary : 0);
const parameters = (a) => a.layers * blockParameters(a) + embeddingParameters(a)
  + a.position_rows * a.hidden + normWidth(a) + headParameters(a);
const adapterParameters = (a, rank) =>
  a.layers * sum(matrices(a).map(([inputs, outputs]) => rank * (inputs + outputs)));
const tailParameters = (a, blocks) => blocks * blockParameters(a) + normWidth(a) + headParameters(a);

function weightBytes(a, s) {
  if (!quantised(s)) return width(s) * parameters(a);
  const elements = a.layers * blockMatrixParameters(a);
  const stored = s.format === "int8"
    ? elements + SCALE * a.layers * sum(matrices(a).map(([, outputs]) => outputs))
    : elements * (0.5 + SCALE / BLOCK_4BIT);
  return stored + width(s) * (parameters(a) - elements);
}

const largestMatrix = (a) =>
  Math.max(...matrices(a).map(([inputs, outputs]) => inputs * outputs));
const dequantisedBytes = (a, s) => (quantised(s) ? width(s) * largestMatrix(a) : 0);

/* Activations of a block */

const masked = (a, s) => a.masked.some(Boolean) && s.context >= a.window;
const maskedShare = (a, blocks) => sum(a.masked.slice(-blocks)) / blocks;
const composed = (a) => a.activation === "composed" && !a.gated;
const upcast = (a, s) => a.float32_softmax && width(s) < FLOAT32;
const rms = (a, s, frozen) => FLOAT32 + (frozen ? 0 : a.norm === "rms32" ? FLOAT32 : width(s));

function normsKept(a, s, frozen) {
  if (a.norm === "layer") return width(s) * a.hidden * (a.parallel ? 1 : a.norms);
  return a.norms * a.hidden * rms(a, s, frozen);
}

function attentionKept(a, s, frozen, share) {
  const Q = queryWidth(a), K = kvWidth(a), b = width(s);
  const norm = a.query_key_norm === "none" ? 0 : (Q + K) * rms(a, s, frozen);
  if (s.attention === "eager") {
    const probabilities = b + (upcast(a, s) ? FLOAT32 : 0);
    return norm + b * 4 * Q + probabilities * a.heads * s.context;
  }
  const whole = a.fused_qkv && !a.split_copies;
  const values = whole ? Q + 2 * K : K;
  const rotated = a.rotary || !whole ? Q + K : 0;
  const output = a.joined_rotation ? 2 * Q : Q;
  const copied = a.kv_heads > 1 ? 2 * (Q - K) : 0;
  const mask = masked(a, s) ? s.context + copied : 0;
  return norm + b * (values + rotated + output + share * mask) + FLOAT32 * a.heads;
}

function feedForwardKept(a, s) {
  const gated = a.activation === "relu" ? 3 : 4;
  const tensors = a.gated ? gated : { relu: 1, fused: 2, composed: 5 }[a.activation];
  return width(s) * a.feed_forward * tensors;
}

function kept(a, s, frozen, share) {
  const reads = a.parallel && a.norms === 1 ? 1 : 2;
  const token = normsKept(a, s, frozen) + width(s) * a.hidden * reads
    + attentionKept(a, s, frozen, share) + feedForwardKept(a, s);
  return s.batch * s.context * token;
}

function forwardWorking(a, s, adapters) {
  const D = a.hidden, Q = queryWidth(a), K = kvWidth(a), b = width(s);
  const outside = 2 * D + (a.position_rows ? D / s.batch : 0);
  const wide = composed(a) ? 4 : (a.gated ? 3 : 2) + (adapters ? 1 : 0);
  const feedForward = b * (outside + (2 + a.held) * D + wide * a.feed_forward);
  const projected = outside + D + Q + 2 * K;
  const rotation = a.rotary ? Math.max(3 * Q, Q + 3 * K) : 0;
  let attention = b * (projected + Math.max(rotation, 2 * Q + (masked(a, s) ? s.context : 0)));
  if (s.attention === "eager") {
    const row = a.heads * s.context * (upcast(a, s) ? b + 2 * FLOAT32 : 3 * b);
    attention = b * (projected + 4 * Q) + row;
  }
  const norm = a.norm === "layer" ? 0 : b * (outside + D) + 2 * FLOAT32 * D;
  return s.batch * s.context * Math.max(feedForward, attention, norm);
}

function backwardWorking(a, s, adapters) {
  const D = a.hidden, b = width(s);
  const one = a.activation === "fused" && !a.gated ? 1 : 2;
  const wide = one + (adapters && !a.gated && a.activation !== "composed" ? 1 : 0);
  let token = b * (D + wide * a.feed_forward);
  if (s.attention === "eager") {
    const row = a.heads * s.context * (upcast(a, s) ? 2 * FLOAT32 - b : 2 * b);
    token = Math.max(token, 2 * b * D + row - feedForwardKept(a, s));
  }
  return s.batch * s.context * token;
}

const finalNormWorking = (a, s) =>
  s.batch * s.context * (a.norm === "layer" ? 4 * width(s) : 6 * FLOAT32) * a.hidden;

function keptAtTheEnd(a, s, frozen) {
  const norm = a.norm === "layer" ? width(s) : rms(a, s, frozen);
  const head = s.loss === "all" && !frozen ? width(s) : 0;
  return s.batch * s.context * a.hidden * (norm + head);
}

function sharedInput(a, s) {
  const same = a.norm === "layer" || width(s) === FLOAT32;
  return same ? s.batch * s.context * width(s) * a.hidden : 0;
}

const unkept = (a, s) => (a.norm === "layer" ? 0 : s.batch * s.context * FLOAT32 * a.hidden);

function shared(a, s) {
  const tables = a.rotary ? 2 * width(s) * s.context * a.head_size : 0;
  if (s.attention === "eager") return tables + width(s) * s.context ** 2;
  return tables + (masked(a, s) ? s.context ** 2 : 0);
}

function logits(a, s, backward) {
  const copies = 2 * FLOAT32 + (width(s) < FLOAT32 ? width(s) : 0);
  const positions = s.loss === "all" ? s.context : 1;
  return s.batch * positions * a.vocabulary * (backward ? 3 * FLOAT32 : copies);
}

/* A step */

/** Every moment of a step that can be its peak: name, parts and total. */
function moments(a, method, s) {
  const adapters = method.trains === "adapters", all = method.trains === "all";
  const blocks = method.trains === "tail" ? Math.min(s.tail, a.layers) : a.layers;
  const b = width(s), stream = b * s.batch * s.context * a.hidden;
  const trained = b * { all: () => parameters(a), adapters: () => adapterParameters(a, s.rank),
    tail: () => tailParameters(a, blocks) }[method.trains]();
  const weights = weightBytes(a, s) + (adapters ? b * adapterParameters(a, s.rank) : 0);
  const state = method.adam ? 2 * trained : 0;
  const always = shared(a, s) + TOKEN * s.batch * s.context;
  const found = [];
  const at = (moment, gradients, activations, working) => found.push({
    moment, weights, optimizer_state: state, gradients, activations, working: working + always,
    total: weights + state + gradients + activations + working + always,
  });

  if (method.estimator !== "backpropagation") {
    const waiting = method.estimator === "both" ? trained : 0;
    at("forward pass", waiting, 0, forwardWorking(a, s, adapters) + dequantisedBytes(a, s));
    at("loss", waiting, 0, stream + logits(a, s, false));
  }
  if (method.estimator === "zeroth-order") return found;

  const inner = adapters ? b * s.batch * s.context * matrices(a).length * s.rank : 0;
  const keptBlock = (share) => (blocks ? kept(a, s, adapters, share) + inner : 0);
  const block = keptBlock(maskedShare(a, blocks || 1));
  const backward = blocks ? backwardWorking(a, s, adapters) + dequantisedBytes(a, s) : 0;
  const inputs = method.checkpointed ? blocks * stream : 0;
  const every = inputs || blocks * block - (blocks && !all ? unkept(a, s) : 0);
  const again = keptBlock(a.masked.some(Boolean) ? 1 : 0) - sharedInput(a, s);
  const own = blocks && !adapters;
  const lastMatrix = own ? b * a.feed_forward * a.hidden : 0;
  const head = adapters || (method.trains === "tail" && a.tied) ? 0 : b * embeddingParameters(a);
  const embeddings = all
    ? b * ((a.tied ? 0 : embeddingParameters(a)) + a.position_rows * a.hidden) : 0;
  at("loss", 0, every + keptAtTheEnd(a, s, adapters), logits(a, s, true));
  at("final norm", head, every, finalNormWorking(a, s));
  at("backward pass begins", head + lastMatrix, every + (inputs ? again : 0), backward);
  const others = trained - embeddings - (own ? b * blockParameters(a) : 0);
  at("backward pass ends", others + lastMatrix, inputs ? again + stream : block, backward);
  const parts = a.tied && all ? 2 * b * embeddingParameters(a) : 0;
  at("gradients complete", trained + parts, 0, stream);
  if (method.adam) {
    const largest = adapters
      ? Math.max(...matrices(a).map((sizes) => s.rank * Math.max(...sizes)))
      : Math.max(embeddingParameters(a), largestMatrix(a));
    at("update", trained, 0, 2 * b * largest);
  }
  return found;
}

/** The largest moment of a step: its peak. */
const estimate = (a, method, s) => moments(a, method, s).reduce(
  (peak, moment) => (moment.total > peak.total ? moment : peak));

/** Bytes by the MeZO paper's equations (2) and (3), or null where it has none; b is a parameter's. */
function paperBytes(a, method, s, b, liveLayers) {
  if (method.adam || method.trains !== "all" || a.hidden % a.heads) return null;
  const { context: N, batch: B } = s, { layers: L, hidden: D, heads: H, vocabulary: V } = a;
  const weights = b * (12 * L * D ** 2 + 2 * V * D);
  const layer = B * (N * D * (2 + 16 * b) + N ** 2 * (2 * b + 1) * H);
  if (method.estimator === "zeroth-order") return weights + Math.min(liveLayers, L) * layer;
  return 2 * weights + (method.checkpointed ? Math.sqrt(L) : L) * layer;
}

/* The other way round: numbers of tokens and sequences */

/** The largest number from 1 to `limit` that fits, or 0; what fits is monotone. */
function largest(fits, limit) {
  if (fits(limit)) return limit;
  let low = 0, high = limit;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (fits(middle)) low = middle;
    else high = middle;
  }
  return low;
}

const longestContext = (a, method, s, budget) => largest(
  (context) => estimate(a, method, { ...s, context }).total <= budget, a.positions);
const largestBatch = (a, method, s, budget) => largest(
  (batch) => estimate(a, method, { ...s, batch }).total <= budget, LARGEST_BATCH);
