"use strict";
/* What the formula, translated from Python, calls of Python. */

const float = Number;
const min = Math.min;
const len = (values) => values.length;
const sum = (values) => values.reduce((total, value) => total + value, 0);
const any = (values) => values.some(Boolean);

/** The first of the largest values: of several, or of one iterable; `key` says how large. */
function max(first, ...others) {
  const { key } = typeof others.at(-1) === "object" ? others.pop() : { key: (value) => value };
  const values = others.length ? [first, ...others] : [...first];
  return values.reduce((best, value) => (key(value) > key(best) ? value : best));
}

/** A copy of an object, of its class, with some of its fields changed. */
const replace = (object, changes) =>
  Object.assign(Object.create(Object.getPrototypeOf(object)), object, changes);
