"use strict";
// One function per kind of chart: section data and state to an ECharts option
// and a height. They return null where there is nothing to draw.
const charts = (function () {
  const { num, tick, interval, escape, base, axis, valueAxis, whisker, top, textWidth } = shapes;
  const names = () => pathwise.data.networks.map(n => n.name);
  const visible = () => pathwise.data.networks.map((_, i) => i).filter(i => !pathwise.hidden.has(i));
  const unit = m => m.title + " (" + m.unit + ")";

  // Bars of one load lie down, sorted, with their figures; more loads stand in groups.
  function bars(sec, st, t, width) {
    const m = st.metric, shown = visible().filter(n => m.cells.some(l => l[n]));
    const room = width / Math.max(1, shown.length * sec.loads.length);
    if (sec.loads.length > 1 && room >= 9) return groups(sec, st, t, width, shown);
    const cells = m.cells[st.load];
    const list = visible().filter(n => cells[n] || sec.ends[st.load][n]);
    if (!list.some(n => cells[n])) return null;
    list.sort((a, b) => (cells[b] ? 1 : 0) - (cells[a] ? 1 : 0) || (cells[a] ? (cells[b][0] - cells[a][0]) * (m.lower ? -1 : 1) : 0));
    const label = n => (cells[n] ? num(cells[n][0]) : sec.ends[st.load][n]);
    const o = base(t);
    Object.assign(o, {
      grid: { left: 8, right: 56, top: sec.loads.length > 1 ? 22 : 8, bottom: 8, containLabel: true },
      title: sec.loads.length > 1 ? { text: sec.loads[st.load], left: 0, top: 0, textStyle: { fontSize: 11, fontWeight: "normal", color: t.muted } } : undefined,
      xAxis: valueAxis(t, unit(m), { max: top(list.map(n => cells[n])) * 1.02, axisLabel: { showMaxLabel: false } }),
      yAxis: axis(t, { type: "category", inverse: true, data: list.map(n => names()[n]), axisTick: { show: false }, axisLabel: { color: t.ink, hideOverlap: false, interval: 0 } }),
      series: [
        { type: "bar", barCategoryGap: "28%", data: list.map(n => ({ value: cells[n] ? cells[n][0] : null, itemStyle: { color: t.networks[n].color, decal: t.networks[n].decal } })) },
        { type: "custom", z: 5, tooltip: { show: false }, encode: { x: [1, 2, 3], y: 0 }, data: list.map((n, i) => [i, ...(cells[n] || [0, NaN, NaN]).map(v => v === null ? NaN : v)]), renderItem: whisker(t, true, null, i => label(list[i])) },
      ],
    });
    o.tooltip.formatter = p => { const n = list[p.dataIndex]; return escape(names()[n]) + "<br>" + escape(unit(m)) + ": <b>" + (cells[n] ? interval(cells[n]) : escape(sec.ends[st.load][n])) + "</b>"; };
    return { option: o, height: 52 + 24 * list.length };
  }

  function groups(sec, st, t, width, shown) {
    const m = st.metric, o = base(t), count = shown.length;
    if (!count) return null;
    const offset = i => api => { const l = api.barLayout({ barGap: "0%", barCategoryGap: "18%", count })[i]; return l.offsetCenter; };
    Object.assign(o, {
      grid: { left: 8, right: 8, top: 10, bottom: 8 + legendRoom(shown, width), containLabel: true },
      legend: legend(t, shown),
      xAxis: axis(t, { type: "category", data: sec.loads, axisTick: { show: false }, axisLabel: { color: t.ink, interval: 0, hideOverlap: false, lineHeight: 13, width: width / sec.loads.length - 8, overflow: "break" } }),
      yAxis: valueAxis(t, "", { max: top(m.cells.flat()) * 1.02, axisLabel: { showMaxLabel: false } }),
      series: shown.flatMap((n, i) => [
        { type: "bar", name: names()[n], barGap: "0%", barCategoryGap: "18%", itemStyle: { color: t.networks[n].color, decal: t.networks[n].decal }, data: m.cells.map(l => (l[n] ? l[n][0] : null)) },
        { type: "custom", z: 5, tooltip: { show: false }, encode: { x: 0, y: [1, 2, 3] }, data: m.cells.map((l, k) => [k, ...(l[n] || [NaN, NaN, NaN]).map(v => v === null ? NaN : v)]).filter(d => !isNaN(d[1])), renderItem: whisker(t, false, offset(i)) },
      ]),
    });
    o.tooltip.formatter = p => { const n = names().indexOf(p.seriesName); return escape(p.seriesName) + ", " + escape(sec.loads[p.dataIndex]) + "<br>" + escape(unit(m)) + ": <b>" + interval(m.cells[p.dataIndex][n]) + "</b>"; };
    return { option: o, height: 290 + legendRoom(shown, width) };
  }

  const legend = (t, shown) => ({
    type: "plain", bottom: 4, left: 0, right: 0, itemWidth: 18, itemHeight: 9, itemGap: 8, padding: 0, selectedMode: false,
    textStyle: { color: t.ink, fontSize: 11 }, data: shown.map(n => names()[n]),
  });
  // A plain legend wraps; this is about how high it then is.
  function legendRoom(shown, width) {
    let rows = 1, x = 0;
    for (const n of shown) {
      const w = 32 + textWidth(names()[n]);
      if (x + w > width && x > 0) { rows++; x = 0; }
      x += w;
    }
    return rows * 18 + 6;
  }

  // Lines of a metric along a knob, with intervals.
  function load(sec, st, t, width) {
    const m = st.metric, ax = sec.axes[st.axis], shown = visible().filter(n => ax.loads.some(l => m.cells[l][n]));
    if (!shown.length) return null;
    const o = base(t);
    Object.assign(o, {
      grid: { left: 8, right: 14, top: 10, bottom: 8 + legendRoom(shown, width), containLabel: true },
      legend: legend(t, shown),
      xAxis: axis(t, { type: "log", logBase: 2, name: ax.title, nameLocation: "middle", nameGap: 24, min: ax.x[0] / 1.15, max: ax.x[ax.x.length - 1] * 1.15,
        splitLine: { show: false }, axisTick: { customValues: ax.x }, axisLabel: { customValues: ax.x, formatter: v => String(Number(v.toPrecision(6))) } }),
      yAxis: valueAxis(t, "", { max: top(ax.loads.flatMap(l => m.cells[l])) * 1.02, axisLabel: { showMaxLabel: false } }),
      series: shown.flatMap(n => {
        const points = ax.loads.map((l, i) => [ax.x[i], ...(m.cells[l][n] || [NaN, NaN, NaN]).map(v => v === null ? NaN : v)]);
        return [
          { type: "line", name: names()[n], connectNulls: false, symbol: t.networks[n].symbol, symbolSize: 7, lineStyle: { width: 1.8, type: t.networks[n].dash }, itemStyle: { color: t.networks[n].color }, data: points.map(p => [p[0], isNaN(p[1]) ? null : p[1], p[2], p[3]]) },
          { type: "custom", z: 1, silent: true, tooltip: { show: false }, data: points.filter(p => !isNaN(p[1])), encode: { x: 0, y: [1, 2, 3] }, renderItem: whisker({ ink: t.networks[n].color }, false, null) },
        ];
      }),
    });
    o.tooltip.formatter = p => escape(p.seriesName) + ", " + escape(ax.title) + " " + tick(p.value[0]) + "<br>" + escape(unit(m)) + ": <b>" + interval([p.value[1], isNaN(p.value[2]) ? null : p.value[2], isNaN(p.value[3]) ? null : p.value[3]]) + "</b>";
    return { option: o, height: 290 + legendRoom(shown, width) };
  }

  // Latency by percentile on -log10(1-p): the tail gets the room it deserves.
  const percents = [[Math.log10(2), "50 %"], [1, "90 %"], [2, "99 %"], [3, "99.9 %"], [4, "99.99 %"], [5, "99.999 %"]];
  const percentText = x => { const p = percents.find(p => Math.abs(p[0] - x) < 0.02); return p ? p[1] : String(Number((100 * (1 - Math.pow(10, -x))).toPrecision(x > 2 ? 5 : 3))) + " %"; };
  function curve(sec, st, t, width) {
    const points = sec.curve.points[st.load], shown = visible().filter(n => points[n] && points[n].length);
    if (!shown.length) return null;
    const end = Math.max(...shown.map(n => points[n][points[n].length - 1][0]), 1);
    const ticks = percents.filter(p => p[0] <= end + 0.01).map(p => p[0]);
    const o = base(t);
    Object.assign(o, {
      grid: { left: 8, right: 24, top: 10, bottom: 8 + legendRoom(shown, width), containLabel: true },
      legend: legend(t, shown),
      xAxis: axis(t, { type: "value", name: "percentile, " + sec.loads[st.load], nameLocation: "middle", nameGap: 24, min: 0, max: end,
        axisTick: { customValues: ticks }, axisLabel: { customValues: ticks, formatter: percentText } }),
      yAxis: axis(t, { type: "log", axisLabel: { formatter: tick, showMinLabel: false, showMaxLabel: false },
        min: e => Math.pow(10, Math.floor(Math.log10(e.min) * 4) / 4), max: e => Math.pow(10, Math.ceil(Math.log10(e.max) * 4) / 4) }),
      series: shown.map(n => ({ type: "line", name: names()[n], showSymbol: false, symbol: t.networks[n].symbol, lineStyle: { width: 1.8, type: t.networks[n].dash }, itemStyle: { color: t.networks[n].color }, data: points[n] })),
    });
    o.tooltip.trigger = "axis";
    o.tooltip.formatter = ps => percentText(ps[0].value[0]) + " of the round trips within<br>" + ps.map(p => [p.value[1], p.marker + escape(p.seriesName) + ": <b>" + num(p.value[1]) + " " + escape(sec.curve.unit) + "</b>"]).sort((a, b) => a[0] - b[0]).map(p => p[1]).join("<br>");
    return { option: o, height: 290 + legendRoom(shown, width) };
  }

  // CPU cost against the main figure, one labelled point per network. Where
  // one network is far off, logarithms keep the others apart.
  function cost(sec, st, t, width) {
    const x = sec.metrics[0], y = sec.metrics[sec.cost];
    const shown = visible().filter(n => x.cells[st.load][n] && y.cells[st.load][n]);
    if (!shown.length) return null;
    const o = base(t), height = Math.min(340, Math.max(260, width * 0.6)), box = { left: 46, right: 16, top: 16, bottom: 40 };
    const along = extent(shown.map(n => x.cells[st.load][n][0])), up = extent(shown.map(n => y.cells[st.load][n][0]));
    const px = n => [box.left + along.part(x.cells[st.load][n][0]) * (width - box.left - box.right), box.top + (1 - up.part(y.cells[st.load][n][0])) * (height - box.top - box.bottom)];
    const labels = place(shown.map(n => ({ at: px(n), text: names()[n] })), width, height - box.bottom);
    Object.assign(o, {
      grid: box,
      xAxis: valueAxis(t, unit(x) + ", " + sec.loads[st.load], along.axis),
      yAxis: valueAxis(t, "", up.axis),
      series: shown.map((n, i) => ({
        type: "scatter", name: names()[n], symbol: t.networks[n].symbol, symbolSize: 10, itemStyle: { color: t.networks[n].color, borderColor: t.bg, borderWidth: 1, opacity: 0.95 },
        data: [[x.cells[st.load][n][0], y.cells[st.load][n][0]]],
        label: { show: labels[i] !== null, formatter: names()[n], color: t.ink, fontSize: 11 },
        labelLayout: labels[i] || {}, labelLine: { show: labels[i] !== null && labels[i].far, lineStyle: { color: t.muted, width: 0.7 } },
      })),
    });
    o.tooltip.formatter = p => { const n = names().indexOf(p.seriesName); return escape(p.seriesName) + "<br>" + escape(unit(x)) + ": <b>" + interval(x.cells[st.load][n]) + "</b><br>" + escape(y.unit) + ": <b>" + interval(y.cells[st.load][n]) + "</b>"; };
    return { option: o, height };
  }

  // extent is an axis for values and where on it a value lies, 0 to 1.
  function extent(values) {
    const low = Math.min(...values), high = Math.max(...values);
    if (low > 0 && high / low > 8) {
      const min = low / 1.25, max = high * 1.25;
      const ticks = [];
      for (let e = Math.floor(Math.log10(min)); e <= Math.log10(max); e++) for (const d of max / min > 200 ? [1] : [1, 2, 5]) ticks.push(d * Math.pow(10, e));
      const customValues = ticks.filter(v => v >= min && v <= max);
      return { axis: { type: "log", min, max, axisTick: { customValues }, axisLabel: { customValues } }, part: v => Math.log(v / min) / Math.log(max / min) };
    }
    const max = high * 1.08 || 1;
    return { axis: { min: 0, max, axisLabel: { showMaxLabel: false } }, part: v => v / max };
  }

  // place finds room for each point's label, the nearest first; a far one gets
  // a line to its point. null where there is no room: the tooltip and the
  // table name the point.
  function place(points, width, height) {
    const taken = points.map(p => [p.at[0] - 6, p.at[1] - 6, p.at[0] + 6, p.at[1] + 6]), h = 12;
    const overlaps = (a, b) => a[2] > b[0] && a[0] < b[2] && a[3] > b[1] && a[1] < b[3];
    return points.map((p, self) => {
      const w = textWidth(p.text) + 4, side = 8 + w / 2;
      const near = [[0, -13], [side, 0], [-side, 0], [0, 13]], far = [22, 38, 54, 70].flatMap(r => [[-side, -r], [side, -r], [0, -r], [-side, r], [side, r], [0, r]]);
      for (const [dx, dy] of [...near, ...far]) {
        const x = p.at[0] + dx, y = p.at[1] + dy, b = [x - w / 2, y - h / 2, x + w / 2, y + h / 2];
        if (b[0] < 0 || b[2] > width || b[1] < 0 || b[3] > height || taken.some((o, i) => i !== self && overlaps(b, o))) continue;
        taken.push(b);
        return { x, y, align: "center", verticalAlign: "middle", far: Math.abs(dy) > 13 };
      }
      return null;
    });
  }

  // stack draws totals split in parts, one lying bar per network.
  function stack(t, width, title, parts, shades, rows, whiskers) {
    if (!rows.length) return null;
    const o = base(t), shown = rows.map(r => r.n);
    Object.assign(o, {
      grid: { left: 8, right: 52, top: 28, bottom: 8, containLabel: true },
      legend: { ...legend(t, []), data: parts, top: 0, bottom: undefined },
      xAxis: valueAxis(t, title, {}),
      yAxis: axis(t, { type: "category", inverse: true, data: shown.map(n => names()[n]), axisTick: { show: false }, axisLabel: { color: t.ink, hideOverlap: false, interval: 0 } }),
      series: parts.map((p, k) => ({ type: "bar", stack: "all", name: p, barCategoryGap: "28%", itemStyle: { color: t.parts[shades[k]], borderColor: t.bg, borderWidth: 0.5 }, data: rows.map(r => r.v[k]) })),
    });
    const total = r => parts.reduce((s, _, k) => s + r.v[k], 0);
    o.series.push({ type: "custom", z: 5, silent: true, tooltip: { show: false }, encode: { x: [1, 2, 3], y: 0 },
      data: rows.map((r, i) => [i, total(r), whiskers ? (r.v[parts.length] ?? NaN) : NaN, whiskers ? (r.v[parts.length + 1] ?? NaN) : NaN]), renderItem: whisker(t, true, null, i => num(total(rows[i]))) });
    if (whiskers) o.xAxis.max = top(rows.map(r => [total(r), r.v[parts.length], r.v[parts.length + 1]])) * 1.02;
    if (whiskers) o.xAxis.axisLabel.showMaxLabel = false;
    o.tooltip.trigger = "axis";
    o.tooltip.axisPointer = { type: "none" };
    o.tooltip.formatter = ps => { const r = rows[ps[0].dataIndex]; return escape(names()[r.n]) + "<br>" + parts.map((p, k) => escape(p) + ": <b>" + num(r.v[k]) + "</b>").join("<br>") + "<br>total: <b>" + num(total(r)) + "</b>"; };
    return { option: o, height: 76 + 24 * rows.length };
  }
  const rowsOf = cells => visible().filter(n => cells[n]).map(n => ({ n, v: cells[n] }));
  const at = (sec, st) => (sec.loads.length > 1 ? ", " + sec.loads[st.load] : "");
  const modes = (sec, st, t, width) => stack(t, width, sec.modes.unit + at(sec, st), sec.modes.parts, [2, 1, 0, 3], rowsOf(sec.modes.cells[st.load]), false);
  const start = (sec, st, t, width) => stack(t, width, "start-up (" + sec.start.unit + ")" + at(sec, st), sec.start.parts, [0, 2], rowsOf(sec.start.cells[st.load]), true);
  const phases = (_, st, t, width) => stack(t, width, "mean seconds per trial", pathwise.data.phaseNames, [1, 2, 3, 0, 4, 5], rowsOf(pathwise.data.phases), false);

  return { bars, load, curve, cost, modes, start, phases };
})();
