"use strict";
// A click on a box of a flame graph enlarges it to the whole width.
(function () {
  const whole = 1200, letter = 5.6;
  function label(text, name, width) {
    const room = Math.floor((width - 4) / letter);
    text.textContent = room < 3 ? "" : name.length > room ? name.slice(0, room - 1) + "…" : name;
  }
  function zoom(svg, from, share) {
    for (const g of svg.querySelectorAll("g")) {
      const x = (Number(g.dataset.x) - from) * whole / share, w = Number(g.dataset.w) * whole / share;
      const left = Math.max(0, x), right = Math.min(whole, x + w);
      g.toggleAttribute("data-gone", right - left < 0.2);
      if (right - left < 0.2) continue;
      const rect = g.querySelector("rect");
      rect.setAttribute("x", left);
      rect.setAttribute("width", right - left);
      let text = g.querySelector("text");
      if (!text) {
        text = document.createElementNS("http://www.w3.org/2000/svg", "text");
        text.setAttribute("y", rect.getAttribute("y"));
        text.setAttribute("dx", 2);
        text.setAttribute("dy", 10.5);
        g.append(text);
      }
      text.setAttribute("x", left);
      label(text, g.dataset.n, right - left);
    }
  }
  for (const svg of document.querySelectorAll("svg.graph")) {
    svg.addEventListener("click", e => {
      const g = e.target.closest("g");
      if (g) zoom(svg, Number(g.dataset.x), Number(g.dataset.w));
    });
  }
})();
