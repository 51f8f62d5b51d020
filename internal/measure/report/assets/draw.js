"use strict";
// Draws every figure when it comes near the window, again when something it
// depends on changes, and all of them for print.
(function () {
  const figures = [...document.querySelectorAll("figure[data-chart]")];
  const drawn = new Map();
  let theme = shapes.theme();

  function state(figure, section) {
    const el = document.getElementById(figure.dataset.section);
    const axis = figure.querySelector(".axis-pick");
    return section ? { load: pathwise.loadOf(el), metric: pathwise.metricOf(el), axis: axis ? Number(axis.value) : 0 } : {};
  }

  function draw(figure) {
    const plot = figure.querySelector(".plot"), width = plot.clientWidth;
    if (!width) return;
    const section = pathwise.data.sections.find(s => s.id === figure.dataset.section);
    const out = charts[figure.dataset.chart](section, state(figure, section), theme, width);
    let chart = drawn.get(figure);
    if (!out) {
      if (chart) chart.dispose();
      plot.innerHTML = '<p class="empty">no figures for this choice</p>';
      plot.style.height = "auto";
      drawn.set(figure, null);
      return;
    }
    plot.style.height = out.height + "px";
    if (!chart) {
      plot.textContent = "";
      chart = echarts.init(plot, null, { renderer: "svg", width, height: out.height });
      drawn.set(figure, chart);
      if (out.ready) out.ready(chart, figure);
    }
    chart.resize({ width, height: out.height });
    chart.setOption(out.option, true);
    // Paper has another width than the window: there the drawing is scaled.
    plot.querySelector("svg").setAttribute("viewBox", "0 0 " + width + " " + out.height);
  }

  pathwise.redraw = from => {
    theme = shapes.theme();
    for (const f of drawn.keys()) if (!from || from.contains(f)) draw(f);
  };
  pathwise.drawAll = () => figures.forEach(draw);

  const near = new IntersectionObserver(entries => {
    for (const e of entries) if (e.isIntersecting && !drawn.has(e.target)) draw(e.target);
  }, { rootMargin: "400px" });
  figures.forEach(f => near.observe(f));

  let timer = 0;
  addEventListener("resize", () => { clearTimeout(timer); timer = setTimeout(() => pathwise.redraw(), 100); });
  // Paper is light, whatever the screen is, and cannot be unfolded.
  const folded = [...document.querySelectorAll("details.why, details.events, #machine details")];
  let closed = [];
  matchMedia("print").addEventListener("change", e => { if (e.matches) pathwise.drawAll(); pathwise.redraw(); });
  addEventListener("beforeprint", () => {
    pathwise.drawAll();
    closed = folded.filter(d => !d.open);
    closed.forEach(d => { d.open = true; });
  });
  addEventListener("afterprint", () => closed.forEach(d => { d.open = false; }));
})();
