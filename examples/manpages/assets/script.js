"use strict";

// Completion: the names that begin with the text so far. The list is a listbox of ARIA's combobox pattern.
const query = document.getElementById("query");
const list = document.getElementById("completions");
let asked = null; // ends a question that the next one has overtaken
let chosen = -1;

function close() {
  list.hidden = true;
  chosen = -1;
  query.setAttribute("aria-expanded", "false");
  query.removeAttribute("aria-activedescendant");
}

function choose(index) {
  const rows = list.children;
  chosen = (index + rows.length) % rows.length;
  for (let i = 0; i < rows.length; ++i) rows[i].setAttribute("aria-selected", String(i === chosen));
  rows[chosen].scrollIntoView({ block: "nearest" });
  query.setAttribute("aria-activedescendant", rows[chosen].id);
}

function show(found) {
  list.replaceChildren(...found.map((entry, index) => {
    const row = document.createElement("li");
    const about = document.createElement("small");
    row.id = `completion_${index}`;
    row.setAttribute("role", "option");
    row.dataset.url = entry.url;
    about.textContent = entry.about;
    row.append(entry.label, about);
    return row;
  }));
  close();
  if (found.length === 0 || document.activeElement !== query) return;
  list.hidden = false;
  query.setAttribute("aria-expanded", "true");
}

async function complete() {
  if (asked) asked.abort();
  asked = new AbortController();
  if (query.value.trim() === "") return close();
  try {
    const answer = await fetch(`/complete?q=${encodeURIComponent(query.value)}`, { signal: asked.signal });
    if (answer.ok) show(await answer.json());
  } catch (error) {
    if (error.name !== "AbortError") close(); // the server is gone: the form still works when it is back
  }
}

query.addEventListener("input", complete);
query.addEventListener("blur", close);
query.addEventListener("keydown", (event) => {
  if (list.hidden) return;
  if (event.key === "ArrowDown") choose(chosen + 1);
  else if (event.key === "ArrowUp") choose(chosen < 0 ? -1 : chosen - 1);
  else if (event.key === "Escape") close();
  else if (event.key === "Enter" && chosen >= 0) location.assign(list.children[chosen].dataset.url);
  else return;
  event.preventDefault();
});
list.addEventListener("mousedown", (event) => {
  const row = event.target.closest("li");
  event.preventDefault(); // else the field loses the focus, and the list closes first
  if (row) location.assign(row.dataset.url);
});

// The directory shows pages as they are loaded.
const live = document.getElementById("live");
if (live) {
  const loaded = document.getElementById("loaded");
  const events = new EventSource("/live");
  events.addEventListener("pages", (event) => {
    const { newest, counts } = JSON.parse(event.data);
    for (const [system, count] of Object.entries(counts)) {
      const place = document.querySelector(`[data-count="${CSS.escape(system)}"]`);
      if (place) place.textContent = count.toLocaleString("en");
    }
    loaded.replaceChildren(...newest.map((entry) => {
      const row = document.createElement("li");
      const link = document.createElement("a");
      const system = document.createElement("span");
      const about = document.createElement("span");
      link.href = entry.url;
      link.textContent = entry.label;
      system.className = "system";
      system.textContent = entry.system;
      about.className = "about";
      about.textContent = entry.about;
      row.append(link, " ", system, about);
      return row;
    }));
    live.hidden = false;
  });
  addEventListener("pagehide", () => events.close());
}
