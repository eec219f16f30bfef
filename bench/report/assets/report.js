"use strict";
// Hover and legend toggles over drawings that are complete without this script.
const tip = document.getElementById("tip");

function show(dot) {
  const series = dot.closest(".series");
  tip.textContent = `${series.dataset.label}, ${series.dataset.panel}: ${dot.dataset.y} at ${dot.dataset.x}` +
    ` [${dot.dataset.low}, ${dot.dataset.high}], ${dot.dataset.count} runs`;
  const box = dot.getBoundingClientRect();
  tip.hidden = false;
  tip.style.left = `${Math.max(8, Math.min(box.left + 10, innerWidth - tip.offsetWidth - 8))}px`;
  tip.style.top = `${Math.max(8, box.top - tip.offsetHeight - 6)}px`;
}

// The dots are small: the nearest one within reach of the pointer is meant.
function nearest(figure, x, y) {
  let best = null, reach = 18;
  for (const dot of figure.querySelectorAll(".series:not(.hidden) .dot")) {
    const box = dot.getBoundingClientRect();
    const distance = Math.hypot(box.left + box.width / 2 - x, box.top + box.height / 2 - y);
    if (distance < reach) { reach = distance; best = dot; }
  }
  return best;
}

for (const drawing of document.querySelectorAll("svg.figure")) {
  drawing.addEventListener("pointermove", (event) => {
    const dot = nearest(drawing, event.clientX, event.clientY);
    if (dot) show(dot); else tip.hidden = true;
  });
  drawing.addEventListener("pointerleave", () => { tip.hidden = true; });
}

for (const button of document.querySelectorAll(".legend button")) {
  button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    for (const series of button.closest("figure").querySelectorAll(".series")) {
      if (series.dataset.label === button.dataset.label) series.classList.toggle("hidden", !on);
    }
  });
}

for (const slider of document.querySelectorAll(".hops input")) {
  slider.addEventListener("input", () => {
    slider.closest(".hops").querySelector("output").value = slider.value;
    for (const mark of document.querySelectorAll("svg.spread [data-hop]")) {
      mark.classList.toggle("later", Number(mark.dataset.hop) > Number(slider.value));
    }
  });
}
