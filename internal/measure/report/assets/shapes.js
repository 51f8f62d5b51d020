"use strict";
// What all charts share: colours that follow the theme, number texts,
// whiskers, axes.
const shapes = (function () {
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);
  // A custom property is computed only where it is used as a colour.
  const color = name => { probe.style.color = "var(--" + name + ")"; return getComputedStyle(probe).color; };

  const patterns = [null,
    { symbol: "rect", rotation: -Math.PI / 4, dashArrayX: [1, 0], dashArrayY: [2, 3] },
    { symbol: "circle", symbolSize: 0.6 },
    { symbol: "rect", dashArrayX: [1, 0], dashArrayY: [3, 4] }];
  const symbols = ["circle", "rect", "triangle", "diamond"];
  const dashes = ["solid", [6, 3], [2, 2], [8, 3, 2, 3]];

  function theme() {
    const t = { ink: color("ink"), muted: color("muted"), line: color("line"), bg: color("bg"), panel: color("panel"), strong: color("strong") };
    t.networks = pathwise.data.networks.map(n => ({
      color: color("n" + n.color),
      symbol: symbols[n.cycle % 4], dash: n.baseline ? [2, 2] : dashes[n.cycle % 4],
      decal: patterns[n.cycle % 4] ? { ...patterns[n.cycle % 4], color: t.bg } : null,
    }));
    t.parts = ["p0", "p1", "p2", "p3", "p4", "p5"].map(color);
    return t;
  }

  // Three significant digits, as in the tables.
  function num(v) {
    if (v === null || v === undefined || !isFinite(v)) return "–";
    if (v === 0) return "0";
    const d = Math.min(Math.max(2 - Math.floor(Math.log10(Math.abs(v) * 1.0005)), 0), 6);
    return v.toFixed(d);
  }
  // An axis needs no more digits than its steps.
  const tick = v => (v === 0 ? "0" : String(Number(v.toPrecision(3))));
  const interval = c => num(c[0]) + (c[1] !== null && c[2] !== null ? " [" + num(c[1]) + ", " + num(c[2]) + "]" : "");
  const escape = s => echarts.format.encodeHTML(String(s));

  const pen = document.createElement("canvas").getContext("2d");
  pen.font = "11px " + getComputedStyle(document.body).fontFamily;
  const textWidth = s => pen.measureText(s).width;

  const base = t => ({
    animation: false,
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily, color: t.ink, fontSize: 11 },
    tooltip: { confine: true, backgroundColor: t.bg, borderColor: t.strong, textStyle: { color: t.ink, fontSize: 12 }, extraCssText: "box-shadow:none" },
  });
  const axis = (t, o) => ({
    nameTextStyle: { color: t.muted }, axisLabel: { color: t.muted, hideOverlap: true, ...(o.axisLabel || {}) },
    axisLine: { lineStyle: { color: t.strong } }, axisTick: { lineStyle: { color: t.strong } },
    splitLine: { show: o.type !== "category", lineStyle: { color: t.line } },
    ...Object.fromEntries(Object.entries(o).filter(([k]) => k !== "axisLabel")),
  });
  const valueAxis = (t, name, o) => axis(t, { type: "value", name, nameLocation: "middle", nameGap: 26, min: 0, ...o, axisLabel: { formatter: tick, ...((o || {}).axisLabel || {}) } });

  // whisker draws an interval from [position, centre, low, high] next to a bar
  // or on a point; across says that values run along x. Ends outside the axis
  // are cut there, without a cap.
  function whisker(t, across, offset, text) {
    return (params, api) => {
      const at = api.value(0), c = api.value(1), cap = 3;
      const point = v => (across ? api.coord([v, at]) : api.coord([at, v]));
      const box = params.coordSys, shift = offset ? offset(api) : 0;
      const along = p => (across ? p[0] : p[1]), side = p => (across ? p[1] : p[0]) + shift;
      const from = across ? box.x : box.y, to = across ? box.x + box.width : box.y + box.height;
      const clip = v => Math.min(Math.max(v, from), to);
      const children = [];
      const line = (a1, s1, a2, s2) => children.push({
        type: "line", shape: across ? { x1: a1, y1: s1, x2: a2, y2: s2 } : { x1: s1, y1: a1, x2: s2, y2: a2 },
        style: { stroke: t.ink, lineWidth: 1.2, opacity: 0.85 }, silent: true,
      });
      const s = side(point(c)), low = api.value(2), high = api.value(3);
      let end = along(point(c));
      if (isFinite(low) && isFinite(high)) {
        const a = along(point(low)), b = along(point(high));
        line(clip(a), s, clip(b), s);
        for (const e of [a, b]) if (e >= from && e <= to) line(e, s - cap, e, s + cap);
        end = across ? Math.max(end, clip(b)) : end;
      }
      if (text) children.push({ type: "text", silent: true, x: end + 6, y: s, style: { text: text(params.dataIndex), fill: t.ink, font: "11px " + getComputedStyle(document.body).fontFamily, textVerticalAlign: "middle" } });
      return { type: "group", children };
    };
  }

  // The highest end that is worth an axis: a wild interval of few repetitions
  // is cut rather than shrinking everything else.
  function top(cells) {
    let most = 0;
    for (const c of cells) if (c) most = Math.max(most, c[0], c[2] !== null && c[2] < 2.5 * c[0] ? c[2] : 0);
    return most || 1;
  }
  return { theme, num, tick, interval, escape, base, axis, valueAxis, whisker, top, textWidth };
})();
