"use strict";
/* Searches ENTRIES (entries.js): statements and sections of the documents, on every page. */

const search = document.getElementById("search");
const query = document.getElementById("query");
const list = document.getElementById("results");
const LIMIT = 8;
const lowered = ENTRIES.map(([kind, title, , text]) =>
  [(kind === "statement" ? title : `${title} ${kind}`).toLowerCase(), text.toLowerCase(), kind]);

/** Return the entries that contain every word: first the one with this id, then by words in the title. */
function matches(words) {
  return lowered
    .map(([title, text, kind], number) => {
      if (!words.every((word) => title.includes(word) || text.includes(word))) return null;
      const isNamed = kind === "statement" && text.startsWith(`${words.join(" ")} `);
      const named = isNamed ? words.length + 1 : 0;
      return { number, score: named + words.filter((word) => title.includes(word)).length };
    })
    .filter(Boolean)
    .sort((a, b) => b.score - a.score || a.number - b.number);
}

function answer() {
  const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.length ? matches(words) : [];
  list.replaceChildren(...found.slice(0, LIMIT).map(({ number }) => {
    const [kind, title, address] = ENTRIES[number];
    const link = document.createElement("a");
    link.href = search.dataset.root + address;
    link.textContent = title;
    const item = document.createElement("li");
    const note = document.createElement("small");
    note.textContent = ` ${kind}`;
    item.append(link, note);
    return item;
  }));
  // counted anew in the index, whose rows also show verdicts and numbers
  if (found.length > LIMIT && found.some(({ number }) => lowered[number][2] === "statement")) {
    const link = document.createElement("a");
    link.href = `${search.dataset.root}index.html#q=${encodeURIComponent(query.value.trim())}`;
    link.textContent = "All matching statements";
    const item = document.createElement("li");
    item.append(link);
    list.append(item);
  }
  list.hidden = !found.length;
  document.getElementById("found").textContent = words.length
    ? `${found.length} result${found.length === 1 ? "" : "s"}` : "";
}

query.addEventListener("input", answer);
search.addEventListener("submit", (event) => {
  event.preventDefault();
  list.querySelector("a")?.click();
});
search.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { query.value = ""; answer(); }
});
list.addEventListener("click", () => { list.hidden = true; });
search.hidden = false;
