"use strict";
// Hover, toggles, sorting, filters and play over a page that is complete without this script.
const tip = document.getElementById("tip");
const all = (query, within = document) => [...within.querySelectorAll(query)];

function show(dot) {
  const series = dot.closest(".series");
  tip.textContent = `${series.dataset.label}, ${series.dataset.panel}: ${dot.dataset.y} at ${dot.dataset.x}` +
    ` [${dot.dataset.low}, ${dot.dataset.high}], ${dot.dataset.count} events`;
  const box = dot.getBoundingClientRect();
  tip.hidden = false;
  tip.style.left = `${Math.max(8, Math.min(box.left + 10, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(8, box.top - tip.offsetHeight - 6)}px`;
}

// The dots are small: the nearest one within reach of the pointer is meant.
function nearest(figure, x, y) {
  let best = null, reach = 18;
  for (const dot of all(".series:not(.hidden) .dot", figure)) {
    const box = dot.getBoundingClientRect();
    const distance = Math.hypot(box.left + box.width / 2 - x, box.top + box.height / 2 - y);
    if (distance < reach) { reach = distance; best = dot; }
  }
  return best;
}

for (const drawing of all("svg.figure")) {
  drawing.addEventListener("pointermove", (event) => {
    const dot = nearest(drawing, event.clientX, event.clientY);
    if (dot) show(dot); else tip.hidden = true;
  });
  drawing.addEventListener("pointerleave", () => { tip.hidden = true; });
}

for (const button of all(".legend button")) {
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    for (const series of all(".series", button.closest("figure"))) {
      if (series.dataset.label === button.dataset.label) series.classList.toggle("hidden", !on);
    }
  });
}

// Claims: filter by verdict and text, sort by column, open the rows behind one.
const claims = document.querySelector("table.claims");
const search = document.querySelector(".filters input");
function filter() {
  const kinds = new Set(all(".filters button[aria-pressed=true]").map((button) => button.dataset.kind));
  const text = search.value.toLowerCase();
  for (const body of all("tbody", claims)) {
    body.hidden = !kinds.has(body.dataset.kind) || !body.rows[0].textContent.toLowerCase().includes(text);
  }
}
if (claims) {
  search.addEventListener("input", filter);
  for (const button of all(".filters button")) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
      filter();
    });
  }
  for (const button of all("thead button", claims)) {
    button.addEventListener("click", () => {
      const head = button.closest("th"), column = Number(button.dataset.column);
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of all("thead th", claims)) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (body) => body.rows[0].cells[column].textContent;
      const bodies = all("tbody", claims).sort((a, b) => key(a).localeCompare(key(b), "en", { numeric: true }));
      if (down) bodies.reverse();
      for (const body of bodies) claims.append(body);
    });
  }
}
for (const button of all("button.open")) {
  button.addEventListener("click", () => {
    const row = button.closest("tbody").rows[1];
    row.hidden = !row.hidden;
    button.setAttribute("aria-expanded", String(!row.hidden));
  });
}

// One event: a mode that the reader picks, a hop that the reader picks or plays.
const hops = document.querySelector(".hops");
if (hops) {
  const slider = hops.querySelector("input[type=range]"), play = hops.querySelector("button");
  const draw = () => {
    hops.querySelector("output").value = slider.value;
    for (const mark of all("svg.spread [data-hop]")) {
      mark.classList.toggle("later", Number(mark.dataset.hop) > Number(slider.value));
    }
  };
  let timer = 0;
  const stop = () => { clearInterval(timer); timer = 0; play.textContent = "play"; };
  slider.addEventListener("input", () => { stop(); draw(); });
  play.addEventListener("click", () => {
    if (timer) { stop(); return; }
    slider.value = 0;
    draw();
    play.textContent = "stop";
    timer = setInterval(() => {
      slider.value = Number(slider.value) + 1;
      draw();
      if (slider.value === slider.max) stop();
    }, 700);
  });
  for (const choice of all("input[type=radio]", hops)) {
    choice.addEventListener("change", () => {
      for (const figure of all("figure.event")) figure.hidden = figure.dataset.mode !== choice.value;
    });
  }
}

// The contents tell where one is.
const links = all("nav a");
if ("IntersectionObserver" in window) {
  const watch = new IntersectionObserver((seen) => {
    for (const one of seen) {
      if (one.isIntersecting) {
        for (const link of links) link.classList.toggle("here", link.hash === `#${one.target.id}`);
      }
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  for (const section of all("main section")) watch.observe(section);
}

// On paper nothing can be opened.
addEventListener("beforeprint", () => { for (const folded of all("h3 + details")) folded.open = true; });
