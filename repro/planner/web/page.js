"use strict";
/* Controls and tables; what they show is computed by the formula of repro.planner. */

const DATA = JSON.parse(document.getElementById("data").textContent);
for (const model of DATA.models) model.sizes = Object.assign(new Architecture(), model.sizes);
const OWN_SIZES = ["layers", "hidden", "heads", "kv_heads", "feed_forward", "vocabulary", "positions"];
const PARTS = { weights: "weights", optimizer_state: "Adam's state", gradients: "gradients",
  activations: "kept activations", working: "working memory" };
const LOSSES = { last: "the last token", all: "every token" };
const byId = (id) => document.getElementById(id);
const number = (id) => byId(id).valueAsNumber;

/** An element with properties, attributes whose names have a dash, and children. */
function element(name, properties, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.includes("-")) made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children);
  return made;
}

function formatBytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let power = 0, value = rounded(count);
  while (value >= 1000 && power < units.length - 1) {
    value = Number((value / 1000).toPrecision(3));
    power += 1;
  }
  return `${value} ${units[power]}`;
}

/** Three digits; of two equally near, the even one, as in Python, where toPrecision takes the upper. */
function rounded(count) {
  const upper = Number(count.toPrecision(3));
  const unit = 10 ** (Math.floor(Math.log10(upper)) - 2);
  const isTie = upper - count === count - (upper - unit);
  return isTie && Math.round(upper / unit) % 2 ? upper - unit : upper;
}

/* Sliders are logarithmic from 1 to `last`, in steps that are round numbers */

const decimal = (value) => Number(value.toPrecision(2));
const binary = (value) => {
  const step = Math.max(1, 2 ** (Math.floor(Math.log2(value)) - 3));
  return Math.round(value / step) * step;
};
const SLIDERS = {
  budget: { first: 0.1, last: () => 1000, round: decimal },
  context: { first: 1, last: () => Number(byId("context").max), round: binary },
  batch: { first: 1, last: () => 1024, round: binary },
};

function fromSlider(id) {
  const { first, last, round } = SLIDERS[id];
  const part = number(`${id}-slider`) / 1000;
  byId(id).value = part === 1 ? last() : round(first * (last() / first) ** part);
}

function toSlider(id) {
  const { first, last } = SLIDERS[id];
  const part = Math.log(number(id) / first) / Math.log(last() / first);
  byId(`${id}-slider`).value = 1000 * part;
}

/* What is asked for */

/** The chosen model's sizes, from which own sizes start. */
function chosenArchitecture() {
  if (byId("model").value !== "own") {
    const known = DATA.models[Number(byId("model").value)].sizes;
    for (const name of OWN_SIZES) byId(name).value = known[name];
    byId("tied").checked = known.tied;
    return known;
  }
  const sizes = Object.fromEntries(OWN_SIZES.map((name) => [name, number(name)]));
  return Object.assign(new Architecture(), DATA.defaults, sizes,
    { head_size: sizes.hidden / sizes.heads, tied: byId("tied").checked });
}

function setting() {
  const s = new Setting();
  for (const id of ["context", "batch", "rank", "tail"]) s[id] = number(id);
  for (const id of ["format", "attention", "loss", "adapters"]) s[id] = byId(id).value;
  return s;
}

/** What is wrong with the controls, or nothing. */
function mistake(a) {
  const wrong = byId("controls").querySelector(":invalid:not(fieldset)");
  if (wrong) {
    const name = (wrong.labels[0] || wrong).textContent.trim();
    return `${name}: ${wrong.validationMessage}`;
  }
  if (a.hidden % a.heads && byId("model").value === "own") {
    return `${a.heads} heads do not divide the hidden size ${a.hidden}.`;
  }
  if (a.heads % a.kv_heads) return `${a.kv_heads} key/value heads do not divide ${a.heads} heads.`;
  return "";
}

/* Tables */

/** Bytes by the MeZO paper's equations (2) and (3), or null where it has none; b is a parameter's. */
function paperBytes(a, method, s, b, liveLayers) {
  if (method.adam || method.trains !== "all" || a.hidden % a.heads) return null;
  const { context: N, batch: B } = s, { layers: L, hidden: D, heads: H, vocabulary: V } = a;
  const weights = b * (12 * L * D ** 2 + 2 * V * D);
  const layer = B * (N * D * (2 + 16 * b) + N ** 2 * (2 * b + 1) * H);
  if (method.estimator === "zeroth-order") return weights + Math.min(liveLayers, L) * layer;
  return 2 * weights + (method.checkpointed ? Math.sqrt(L) : L) * layer;
}

/** The name of a method; `a`, if given, is the model that it trains. */
function label(method, s, a) {
  if (method.trains === "adapters") {
    const format = s.adapters === "activations" ? " in the activations' format" : "";
    return `${method.label}, r = ${s.rank}${format}`;
  }
  if (method.trains !== "tail") return method.label;
  const blocks = s.tail > 1 ? `last ${s.tail} blocks + ` : s.tail ? "last block + " : "";
  // a tied output layer is the embedding, which the zeroth-order steps train
  return `${method.label}, ${blocks}${a && a.tied ? "final norm" : "output"} by BP`;
}

/** A bar of the parts of a peak; its whole width is twice the budget. */
function bar(peak, budget) {
  const shares = Object.keys(PARTS).filter((part) => peak[part] > 0);
  const text = shares.map((part) => `${PARTS[part]} ${formatBytes(peak[part])}`).join(", ");
  const made = element("div", { className: "bar", title: `${peak.moment}: ${text}`, role: "img",
    "aria-label": `At its peak (${peak.moment}): ${text}` });
  if (peak.total > 2 * budget) made.classList.add("beyond");
  for (const part of shares) {
    const share = element("i", { className: part });
    share.style.width = `${(50 * peak[part]) / budget}%`;
    made.append(share);
  }
  return made;
}

const limit = (value, most) => (value === most ? `${value} (max)` : value ? `${value}` : "none");

function byThePaper(a, method, s) {
  const bytes = paperBytes(a, method, s, DATA.paper_widths[s.format], DATA.live_layers);
  return bytes === null ? "-" : formatBytes(bytes);
}

function methodRow(a, method, s, budget) {
  const unsupported_reason = method.unsupported_reasons[s.format], warning = method.warnings[s.adapters][s.format];
  const head = element("th", { scope: "row" }, label(method, s, a));
  if (warning) head.append(element("small", {}, warning));
  if (unsupported_reason) return element("tr", {}, head, element("td", { colSpan: 6, className: "never" }, unsupported_reason));
  const peak = estimate(a, method, s);
  const spare = budget - peak.total;
  const verdict = spare >= 0 ? `${formatBytes(spare)} to spare` : `${formatBytes(-spare)} short`;
  return element("tr", {}, head,
    element("td", { "data-label": "needs" }, formatBytes(peak.total)),
    element("td", { className: "bars" }, bar(peak, budget)),
    element("td", { className: spare >= 0 ? "yes" : "no" }, verdict),
    element("td", { "data-label": "longest N" }, limit(longest_context(a, method, s, budget), a.positions)),
    element("td", { "data-label": "largest B" }, limit(largest_batch(a, method, s, budget), LARGEST_BATCH)),
    element("td", { "data-label": "MeZO paper" }, byThePaper(a, method, s)));
}

/** The largest of `models` that fits and has the tail's blocks, with at most all of its positions. */
function largestModel(models, method, s, budget) {
  const fitting = models.filter(({ sizes }) => {
    if (method.trains === "tail" && s.tail > sizes.layers) return false;
    const context = Math.min(s.context, sizes.positions);
    return estimate(sizes, method, replace(s, { context })).total <= budget;
  });
  return fitting.reduce(
    (best, model) => (best && best.sizes.parameters >= model.sizes.parameters ? best : model), null);
}

function showFamilies(s, budget) {
  const methods = DATA.methods.filter((method) => !method.unsupported_reasons[s.format]);
  const heads = ["Family", ...methods.map((method) => label(method, s))];
  const table = byId("families");
  table.tHead.replaceChildren(
    element("tr", {}, ...heads.map((text) => element("th", { scope: "col" }, text))));
  const families = [...new Set(DATA.models.map((model) => model.family).filter(Boolean))];
  table.tBodies[0].replaceChildren(...families.map((family) => {
    const models = DATA.models.filter((model) => model.family === family);
    const cells = methods.map((method) => {
      const found = largestModel(models, method, s, budget);
      return element("td", {}, found ? found.short : "-");
    });
    return element("tr", {}, element("th", { scope: "row" }, family), ...cells);
  }));
}

/** Show the plan; `moved` is the slider that was moved, which stays where it is, if one was. */
function show(moved) {
  const a = chosenArchitecture();
  byId("own").hidden = byId("own").disabled = byId("model").value !== "own";
  if (a.positions >= 1) byId("context").max = a.positions;
  if (a.layers >= 1) byId("tail").max = a.layers;
  if (number("context") > a.positions) byId("context").value = a.positions;
  if (number("tail") > a.layers && byId("model").value !== "own") byId("tail").value = a.layers;
  Object.keys(SLIDERS).filter((id) => id !== moved).forEach(toSlider);
  const wrong = mistake(a);
  byId("summary").className = wrong ? "no" : "";
  const rows = byId("methods").tBodies[0];
  if (wrong) {
    byId("summary").textContent = wrong;
    rows.replaceChildren();
    byId("families").tBodies[0].replaceChildren();
    return;
  }
  const s = setting(), budget = 1e9 * number("budget");
  rows.replaceChildren(...DATA.methods.map((method) => methodRow(a, method, s, budget)));
  const fitting = rows.querySelectorAll(".yes").length;
  byId("summary").textContent = `${a.parameters.toLocaleString("en")} parameters, `
    + `${formatBytes(weight_bytes(a, s))} of weights; ${is_eager(a, s) ? "eager" : "sdpa"} attention, loss of `
    + `${LOSSES[s.loss]}; ${fitting} of ${DATA.methods.length} methods fit ${formatBytes(budget)}.`;
  showFamilies(s, budget);
}

/* The beginning */

function fillModels() {
  const select = byId("model");
  const groups = new Map();
  DATA.models.forEach((model, index) => {
    const option = element("option", { value: index }, model.name);
    if (!model.family) return select.append(option);
    if (!groups.has(model.family)) {
      groups.set(model.family, element("optgroup", { label: model.family }));
      select.append(groups.get(model.family));
    }
    return groups.get(model.family).append(option);
  });
  select.append(element("option", { value: "own" }, "own sizes"));
}

function begin() {
  fillModels();
  for (const format of DATA.formats) byId("format").append(element("option", {}, format));
  for (const name of DATA.attentions) byId("attention").append(element("option", {}, name));
  for (const name of DATA.losses) byId("loss").append(element("option", { value: name }, LOSSES[name]));
  for (const name of DATA.adapters) {
    const text = name === "activations" ? "format of the activations" : name;
    byId("adapters").append(element("option", { value: name }, text));
  }
  byId("model").value = DATA.start.model;
  byId("budget").value = DATA.start.budget / 1e9;
  for (const [id, value] of Object.entries(DATA.start.setting)) byId(id).value = value;
  byId("legend").append(
    ...Object.entries(PARTS).map(([part, text]) =>
      element("span", {}, element("i", { className: part }), text)),
    "The line is the budget, the whole width twice the budget.");
  byId("not-counted").textContent = DATA.not_counted;
  byId("controls").addEventListener("input", (event) => {
    const moved = event.target.type === "range" ? event.target.id.replace("-slider", "") : null;
    if (moved) fromSlider(moved);
    show(moved);
  });
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  show();
}

begin();
