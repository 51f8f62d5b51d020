"use strict";
// The charts of the page about steering: section data to an ECharts option and
// a height, as in charts.js. Phases and moves are drawn in rows above the plot.
const charts = (function () {
  const { num, tick, escape, base, axis, valueAxis, textWidth } = shapes;
  const row = 18, left = 50, right = 14;
  const dashes = [[6, 3], [2, 2], [9, 3, 2, 3], [4, 2]];
  const names = () => pathwise.data.networks.map(n => n.name);
  const dash = l => (l.steered ? "solid" : dashes[(pathwise.data.networks[l.network].color - 1) % dashes.length]);
  const second = v => String(Number(v.toFixed(3)));
  const tone = { load: "accent", limit: "warn", fault: "bad" };
  const ground = document.createElement("span");
  ground.hidden = true;
  document.body.append(ground);
  // A long number has no room next to the axis.
  const compact = v => (Math.abs(v) >= 1e6 ? tick(v / 1e6) + "M" : tick(v));
  const css = name => { ground.style.color = "var(--" + name + ")"; return getComputedStyle(ground).color; };
  const font = size => size + "px " + getComputedStyle(document.body).fontFamily;
  const rect = (x, y, width, height, style, more) => ({ type: "rect", shape: { x, y, width, height }, style, ...more });

  const plotOf = (sec, kind) => document.querySelector('figure[data-section="' + sec.id + '"][data-chart="' + kind + '"] .plot');

  // What the reader zoomed to stays when the chart is drawn again.
  function window_(sec, kind) {
    const plot = plotOf(sec, kind), chart = plot && echarts.getInstanceByDom(plot), zoom = chart && chart.getOption().dataZoom;
    return zoom && zoom[0] ? { start: zoom[0].start, end: zoom[0].end } : { start: 0, end: 100 };
  }

  const zoom = (t, sec, kind) => [
    { type: "slider", xAxisIndex: 0, filterMode: "none", ...window_(sec, kind), bottom: 4, height: 16, left, right, showDataShadow: false, brushSelect: false, showDetail: false,
      borderColor: t.line, backgroundColor: t.panel, fillerColor: t.fill, handleStyle: { color: t.bg, borderColor: t.strong }, moveHandleStyle: { color: t.strong }, handleSize: 16, moveHandleSize: 0, emphasis: { handleStyle: { borderColor: t.ink } } },
    { type: "inside", xAxisIndex: 0, filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, moveOnMouseMove: "shift", preventDefaultMouseMove: false },
  ];
  const timeAxis = (t, sec) => axis(t, { type: "value", min: sec.from, max: sec.end, name: "seconds", nameLocation: "middle", nameGap: 24, splitLine: { show: false }, axisLabel: { formatter: second } });

  // phases shades the plot and writes the name into a row above, as far as there is room.
  function phases(sec, t, top) {
    return {
      type: "custom", id: "phases", z: 0, clip: false, data: sec.phases.map(p => [p.from, p.to]), encode: { x: [0, 1] }, tooltip: { trigger: "item" },
      renderItem(params, api) {
        const p = sec.phases[params.dataIndex], box = params.coordSys, clip = x => Math.min(Math.max(x, box.x), box.x + box.width);
        const x0 = clip(api.coord([p.from, 0])[0]), x1 = clip(api.coord([p.to, 0])[0]);
        if (x1 - x0 < 0.5 && (x1 <= box.x || x0 >= box.x + box.width)) return null;
        const w = Math.max(x1 - x0, 1), color = t.tones[p.kind] || t.tones.load, y = p.lane * row;
        const quiet = { silent: true }, shade = { limit: 0.09, fault: 0.13 }[p.kind] || (params.dataIndex % 2 ? 0.04 : 0.1);
        const children = [
          rect(x0, box.y, w, box.height, { fill: color, opacity: shade }, quiet),
          rect(x0, y, Math.max(w - 1, 1), row - 2, { fill: color, opacity: 0.18 + shade }),
          { type: "line", silent: true, shape: { x1: x0, y1: top, x2: x0, y2: box.y + box.height }, style: { stroke: color, lineWidth: 1, opacity: 0.45 } },
        ];
        const whole = p.letter + "  " + p.name, text = textWidth(whole) + 8 <= w ? whole : w > 60 ? cut(whole, w - 8) : p.letter;
        if (w > textWidth(text) + 2) children.push({ type: "text", silent: true, x: text === p.letter ? x0 + w / 2 : x0 + 4, y: y + row / 2 - 1, style: { text, fill: t.ink, font: font(11), align: text === p.letter ? "center" : "left", verticalAlign: "middle" } });
        return { type: "group", children };
      },
    };
  }
  function cut(text, width) {
    while (text.length > 1 && textWidth(text + "…") > width) text = text.slice(0, -1);
    return text.trimEnd() + "…";
  }

  // shape of a move's mark, as in the key below the chart.
  const shape = kind => ({ switch: "triangle", failover: "diamond" })[kind] || (kind === "several" || kind === "fallback" ? "rect" : "circle");
  function symbol(kind, x, y, r, style) {
    switch (shape(kind)) {
      case "triangle": return { type: "polygon", shape: { points: [[x - r, y - r], [x + r, y - r], [x, y + r]] }, style };
      case "diamond": return { type: "polygon", shape: { points: [[x, y - r - 1], [x + r + 1, y], [x, y + r + 1], [x - r - 1, y]] }, style };
      case "rect": return rect(x - r, y - r, 2 * r, 2 * r, style);
      default: return { type: "circle", shape: { cx: x, cy: y, r }, style };
    }
  }

  // marks draws a line for every move, and in a row above its mark and number.
  // Those that would cover each other share a mark until the reader zooms in.
  const merge = 11;
  function marks(sec, t, y, full) {
    return {
      type: "custom", id: "marks", z: 6, clip: false, data: sec.marks.map(m => [m.at, 0]), encode: { x: 0 }, tooltip: { trigger: "item" },
      renderItem(params, api) {
        const m = sec.marks[params.dataIndex], box = params.coordSys, px = k => api.coord([sec.marks[k].at, 0])[0], x = px(params.dataIndex);
        if (x < box.x - 0.5 || x > box.x + box.width + 0.5) return null;
        if (!params.context.groups) {
          params.context.groups = full ? grouped(sec, px) : [];
          // More lines than these hide what they cross: then the marks must do.
          params.context.crowd = sec.marks.filter((_, k) => px(k) >= box.x && px(k) <= box.x + box.width).length > box.width / 12;
        }
        const line = params.context.crowd ? { type: "group", children: [] } : { type: "line", silent: true, shape: { x1: x, y1: full ? y : box.y, x2: x, y2: box.y + box.height }, style: { stroke: t.ink, lineWidth: 1, lineDash: [3, 3], opacity: full ? 0.5 : 0.3 } };
        const group = params.context.groups.find(g => g.first === params.dataIndex);
        if (!group) return line;
        const same = sec.marks.slice(group.first, group.last + 1).every(o => o.network === m.network);
        const color = m.network < 0 || !same ? t.muted : t.networks[m.network].color;
        const children = [line, symbol(m.kind, x, y, 4.5, { fill: color, stroke: t.bg, lineWidth: 1 }), rect(x - 9, y - 9, 18, 18, { fill: "transparent" })];
        const label = groupLabel(sec, group), room = (group.last + 1 < sec.marks.length ? px(group.last + 1) : box.x + box.width + right) - x;
        if (room > 14 + textWidth(label)) children.push({ type: "text", silent: true, x: x + 7, y, style: { text: label, fill: t.ink, font: font(10), verticalAlign: "middle" } });
        return { type: "group", children };
      },
    };
  }
  function grouped(sec, px) {
    const groups = [];
    sec.marks.forEach((_, i) => {
      const g = groups[groups.length - 1];
      if (g && px(i) - px(g.first) < merge) g.last = i;
      else groups.push({ first: i, last: i });
    });
    return groups;
  }
  function groupLabel(sec, g) {
    const ends = [sec.marks[g.first].label.split("-")[0], sec.marks[g.last].label.split("-").pop()];
    return ends[0] === ends[1] ? ends[0] : ends.join("–");
  }
  function markText(m) {
    const lines = m.lines.filter(Boolean).map(escape);
    return "<b>" + (m.kind === "several" ? "several moves" : "move " + escape(m.label)) + "</b>, " + lines[0] + lines.slice(1).map((l, i) => "<br>" + (i === 0 && m.kind !== "several" ? "<b>" + l + "</b>" : l)).join("");
  }
  // groupText tells the moves that share a mark in the present window.
  function groupText(sec, first) {
    const chart = echarts.getInstanceByDom(plotOf(sec, "line")), px = k => chart.convertToPixel({ xAxisIndex: 0 }, sec.marks[k].at);
    const g = grouped(sec, px).find(g => g.first === first) || { first, last: first };
    const shown = sec.marks.slice(g.first, Math.min(g.last + 1, g.first + 3)).map(markText);
    if (g.last - g.first >= 3) shown.push("and " + (g.last - g.first - 2) + " more");
    return shown.join("<br>");
  }

  // band is the range of the joined steps, piece by piece between gaps.
  function band(l, t) {
    const pieces = [];
    let piece = null;
    l.mean.forEach((v, i) => {
      if (v === null) { piece = null; return; }
      if (!piece) pieces.push(piece = []);
      piece.push([l.x[i], l.low[i], l.high[i]]);
    });
    return {
      type: "custom", id: "band " + l.network, z: 2, clip: true, silent: true, tooltip: { show: false }, data: pieces.map(p => [p[0][0], p[p.length - 1][0]]), encode: { x: [0, 1] },
      renderItem: (params, api) => {
        const p = pieces[params.dataIndex];
        return { type: "polygon", silent: true, shape: { points: [...p.map(q => api.coord([q[0], q[2]])), ...p.map(q => api.coord([q[0], q[1]])).reverse()] }, style: { fill: t.networks[l.network].color, opacity: 0.18 } };
      },
    };
  }

  // A value between two gaps has no line: it gets a dot.
  function points(l) {
    const lone = i => l.mean[i] !== null && (l.mean[i - 1] ?? null) === null && (l.mean[i + 1] ?? null) === null;
    return l.mean.map((v, i) => ({ value: [l.x[i], v], ...(lone(i) ? { symbol: "circle", symbolSize: 4 } : {}) }));
  }

  function colors(t) {
    t.tones = Object.fromEntries(Object.entries(tone).map(([k, v]) => [k, css(v)]));
    t.fill = t.tones.load.replace(/^rgb\((.*)\)$/, "rgba($1, 0.15)");
    return t;
  }

  const tip = o => Object.assign(o.tooltip, { extraCssText: "box-shadow:none;max-width:min(26rem,86vw);white-space:normal;overflow-wrap:anywhere" });

  function line(sec, _, t, width) {
    colors(t);
    const lines = sec.lines.filter(l => !pathwise.hidden.has(l.network)), o = base(t);
    const strip = sec.lanes * row, head = strip + (sec.marks.length ? 20 : 4);
    const values = lines.flatMap(l => [...l.mean, ...(l.high || [])]).filter(v => v !== null), low = Math.min(0, ...lines.map(l => least(l)));
    Object.assign(o, {
      grid: { left, right, top: head + 2, bottom: 62 },
      xAxis: timeAxis(t, sec),
      yAxis: valueAxis(t, "", { min: low, max: (values.reduce((a, b) => Math.max(a, b), 0) || 1) * 1.05, axisLabel: { showMaxLabel: false, formatter: compact } }),
      dataZoom: zoom(t, sec, "line"),
      series: [
        phases(sec, t, head),
        ...lines.filter(l => l.low).map(l => band(l, t)),
        ...lines.map(l => ({ type: "line", id: "line " + l.network, name: names()[l.network], z: l.steered ? 5 : 3, symbol: "none", connectNulls: false, emphasis: { disabled: true },
          lineStyle: { width: (l.steered ? 2.2 : 1.5) * (width < 600 ? 0.7 : 1), type: dash(l) }, itemStyle: { color: t.networks[l.network].color }, data: points(l) })),
        marks(sec, t, strip + 9, true),
      ],
    });
    tip(o);
    o.tooltip.trigger = "axis";
    o.tooltip.axisPointer = { type: "line", snap: false, lineStyle: { color: t.strong } };
    o.tooltip.formatter = p => (Array.isArray(p) ? moment(sec, lines, p[0].axisValue, t, width) : item(sec, p));
    return { option: o, height: head + (width < 600 ? 290 : 380), ready };
  }
  const least = l => [...l.mean, ...(l.low || [])].reduce((a, b) => (b !== null && b < a ? b : a), 0);

  // item is the text of a phase or a move.
  function item(sec, p) {
    if (p.seriesId === "marks") return groupText(sec, p.dataIndex);
    if (p.seriesId !== "phases") return "";
    const ph = sec.phases[p.dataIndex];
    return "<b>" + escape(ph.letter) + "</b>  " + escape(ph.name) + "<br>" + second(ph.from) + " to " + second(ph.to) + " s";
  }

  function nearest(list, x) {
    let low = 0, high = list.length - 1;
    while (high - low > 1) { const mid = (low + high) >> 1; if (list[mid] <= x) low = mid; else high = mid; }
    return x - list[low] <= list[high] - x ? low : high;
  }

  // moment is what all runs did at a time, and the moves near it.
  function moment(sec, lines, x, t, width) {
    x = Number(x);
    const z = echarts.getInstanceByDom(plotOf(sec, "line")).getOption().dataZoom[0], near = (sec.end - sec.from) * (z.end - z.start) / 100 * 6 / width;
    const out = ["<b>" + second(x) + " s</b> " + sec.phases.filter(p => p.from <= x && x < p.to).map(p => escape(p.letter + " " + p.name)).join(" + ")];
    for (const l of lines) {
      const i = nearest(l.x, x), v = Math.abs(l.x[i] - x) <= l.step ? l.mean[i] : null;
      const range = v !== null && l.low && l.low[i] !== l.high[i] ? " [" + num(l.low[i]) + ", " + num(l.high[i]) + "]" : "";
      out.push('<span style="color:' + t.networks[l.network].color + '">■</span> ' + escape(names()[l.network]) + ": <b>" + num(v) + "</b> " + (v === null ? "" : escape(sec.unit)) + range);
    }
    for (const m of sec.marks.filter(m => Math.abs(m.at - x) <= near).slice(0, 3)) out.push(markText(m));
    return out.join("<br>");
  }

  function shares(sec, _, t, width) {
    colors(t);
    const s = sec.shares, o = base(t), x = s.x.slice();
    Object.assign(o, {
      grid: { left, right, top: 26, bottom: 62 },
      legend: { type: "plain", top: 0, left, itemWidth: 14, itemHeight: 9, itemGap: 10, padding: 0, selectedMode: false, icon: "rect", textStyle: { color: t.ink, fontSize: 11 }, data: s.networks.map(n => names()[n]) },
      xAxis: timeAxis(t, sec),
      yAxis: axis(t, { type: "value", min: 0, max: 100, interval: 25, axisLabel: { formatter: v => v + " %" } }),
      dataZoom: zoom(t, sec, "shares"),
      series: [
        ...s.networks.map((n, i) => ({ type: "line", name: names()[n], stack: "all", step: "end", symbol: "none", silent: true, emphasis: { disabled: true }, lineStyle: { width: 0 }, itemStyle: { color: t.networks[n].color },
          areaStyle: { color: t.networks[n].color, opacity: 0.85, decal: t.networks[n].decal }, data: [...x.map((at, k) => [at, 100 * s.parts[i][k]]), [Math.max(sec.end, x[x.length - 1]), 100 * s.parts[i][x.length - 1]]] })),
        marks(sec, t, 0, false),
      ],
    });
    tip(o);
    o.tooltip.trigger = "axis";
    o.tooltip.axisPointer = { type: "line", snap: false, lineStyle: { color: t.strong } };
    o.tooltip.formatter = p => {
      if (!Array.isArray(p)) return item(sec, p);
      const at = Number(p[0].axisValue), k = x.reduce((last, v, i) => (v <= at ? i : last), -1);
      return "<b>" + second(at) + " s</b><br>" + s.networks.map((n, i) => '<span style="color:' + t.networks[n].color + '">■</span> ' + escape(names()[n]) + ": <b>" + (k < 0 ? "–" : Number((100 * s.parts[i][k]).toFixed(1)) + " %") + "</b>").join("<br>");
    };
    return { option: o, height: width < 600 ? 210 : 230, ready };
  }

  // The charts of a script zoom and point together.
  function ready(chart, figure) {
    chart.group = figure.dataset.section;
    echarts.connect(chart.group);
  }
  document.querySelectorAll("button[data-zoom]").forEach(b => b.addEventListener("click", () => {
    const sec = pathwise.data.sections.find(s => s.id === b.dataset.zoom);
    const chart = echarts.getInstanceByDom(plotOf(sec, "line"));
    if (!chart) return;
    for (const dataZoomIndex of [0, 1]) chart.dispatchAction({ type: "dataZoom", dataZoomIndex, startValue: Number(b.dataset.from || sec.from), endValue: Number(b.dataset.to || sec.end) });
  }));
  // A link into the folded list unfolds it.
  document.querySelectorAll('a[href$="-events"]').forEach(a => a.addEventListener("click", () => { const d = document.querySelector(a.getAttribute("href")); if (d) d.open = true; }));

  return { line, shares };
})();
