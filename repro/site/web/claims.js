"use strict";
/* Filters the table of claims. What is asked for stands in the address after #, to be linked. */

const form = document.getElementById("filter");
const rows = [...document.querySelectorAll("#claims tbody tr")];
const texts = rows.map((row) => row.textContent.toLowerCase());
const FIELDS = ["q", "paper", "artifact", "verdict"];

function asked() {
  const query = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value.trim()) query.append(name, value.trim());
  return query;
}

function show() {
  const query = asked();
  const words = (query.get("q") || "").toLowerCase().split(/\s+/);
  const verdicts = query.getAll("verdict");
  let shown = 0;
  rows.forEach((row, number) => {
    const fits = words.every((word) => texts[number].includes(word))
      && ["paper", "artifact"].every((name) => !query.has(name) || query.get(name) === row.dataset[name])
      && (!verdicts.length || verdicts.includes(row.dataset.verdict));
    row.hidden = !fits;
    shown += fits;
  });
  document.getElementById("count").textContent = shown
    ? `${shown} of ${rows.length} claims.` : `None of ${rows.length} claims is like that.`;
}

/** Take over what the address asks for; an address of a place on the page asks for nothing. */
function read() {
  const query = new URLSearchParams(location.hash.slice(1));
  for (const field of form.elements) {
    if (!FIELDS.includes(field.name)) continue;
    if (field.type === "checkbox") field.checked = query.getAll(field.name).includes(field.value);
    else field.value = query.get(field.name) || "";
    if (field.selectedIndex === -1) field.value = "";
  }
  show();
}

function change() {
  const query = asked().toString();
  history.replaceState(null, "", query ? `#${query}` : location.href.split("#")[0]);
  show();
}

form.addEventListener("input", change);
form.addEventListener("reset", () => setTimeout(change)); // after the fields are empty
form.addEventListener("submit", (event) => event.preventDefault());
window.addEventListener("hashchange", () => {
  read();
  if (asked().size) document.getElementById("all").scrollIntoView();
});
form.hidden = false;
read();
