"use strict";
/* Filters the table of statements. The filter is in the address after #, so that it can be linked. */

const form = document.getElementById("filter");
const rows = [...document.querySelectorAll("#claims tbody tr")];
const texts = rows.map((row) => `${row.textContent} ${row.dataset.artifact}`.toLowerCase());
const more = document.getElementById("more");
const FIELDS = ["q", "paper", "artifact", "verdict"];
const narrow = window.matchMedia("(max-width: 48rem)");
const FIRST = 10; // rows that a phone shows until it is asked for more
let whole = false;

function asked() {
  const query = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value.trim()) query.append(name, value.trim());
  return query;
}

function show() {
  const query = asked();
  const words = (query.get("q") || "").toLowerCase().split(/\s+/);
  const verdicts = query.getAll("verdict");
  const limit = narrow.matches && !whole ? FIRST : rows.length;
  let matching = 0;
  rows.forEach((row, number) => {
    const fits = words.every((word) => texts[number].includes(word))
      && ["paper", "artifact"].every((name) => !query.has(name) || query.get(name) === row.dataset[name])
      && (!verdicts.length || verdicts.includes(row.dataset.verdict));
    matching += fits;
    row.hidden = !fits || matching > limit;
  });
  more.hidden = matching <= limit;
  more.textContent = `Show the other ${matching - limit} statements`;
  document.getElementById("count").textContent = matching
    ? `${matching} of ${rows.length} statements.` : `None of ${rows.length} statements matches.`;
}

/** Take over the filter in the address; the address of a place on the page holds none. */
function read() {
  const query = new URLSearchParams(location.hash.slice(1));
  for (const field of form.elements) {
    if (!FIELDS.includes(field.name)) continue;
    if (field.type === "checkbox") field.checked = query.getAll(field.name).includes(field.value);
    else field.value = query.get(field.name) || "";
    if (field.selectedIndex === -1) field.value = "";
  }
  show();
  if (asked().size) document.getElementById("all").scrollIntoView();
}

function change() {
  const query = asked().toString();
  history.replaceState(null, "", query ? `#${query}` : location.href.split("#")[0]);
  show();
}

form.addEventListener("input", change);
form.addEventListener("reset", () => setTimeout(change)); // after the fields are empty
form.addEventListener("submit", (event) => event.preventDefault());
more.addEventListener("click", () => { whole = true; show(); });
narrow.addEventListener("change", show);
window.addEventListener("hashchange", read);
window.addEventListener("load", () => { if (asked().size) document.getElementById("all").scrollIntoView(); });
form.hidden = false;
read();
