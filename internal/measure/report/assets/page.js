"use strict";
// The page's own controls: theme, load and figure pickers, network chips and
// the trials' filter. Without scripts everything is shown.
const pathwise = { data: JSON.parse(document.getElementById("data").textContent), hidden: new Set(), redraw() {}, drawAll() {} };

(function () {
  const root = document.documentElement;
  const all = (selector, from) => [...(from || document).querySelectorAll(selector)];
  all("[hidden]").forEach(e => { e.hidden = false; });

  // A file opened from disk may have no storage at all.
  const store = {
    get() { try { return localStorage.getItem("pathwise-theme"); } catch { return null; } },
    set(v) { try { localStorage.setItem("pathwise-theme", v); } catch { /* not kept */ } },
  };
  function setTheme(name) {
    if (name === "light" || name === "dark") root.dataset.theme = name;
    else delete root.dataset.theme;
    all("[data-theme-is]").forEach(b => b.setAttribute("aria-pressed", String(b.dataset.themeIs === (root.dataset.theme || "auto"))));
    pathwise.redraw();
  }
  all("[data-theme-is]").forEach(b => b.addEventListener("click", () => { store.set(b.dataset.themeIs); setTheme(b.dataset.themeIs); }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => pathwise.redraw());
  setTheme(store.get());

  function showLoad(section) {
    const pick = section.querySelector(".load-pick");
    const load = pick ? pick.value : "0";
    all(".question", section).forEach(q => { q.style.display = load === "all" || q.dataset.load === load ? "" : "none"; });
  }
  all("section.workload").forEach(section => {
    showLoad(section);
    all("select", section).forEach(s => s.addEventListener("change", () => {
      showLoad(section);
      const m = pathwise.metricOf(section);
      all(".metric-name", section).forEach(e => { e.textContent = m.title + " (" + m.unit + ")"; });
      pathwise.redraw(section);
    }));
  });

  // What a section's pickers say.
  pathwise.metricOf = section => {
    const s = pathwise.data.sections.find(d => d.id === section.id);
    const pick = section.querySelector(".metric-pick");
    return s.metrics[pick ? Number(pick.value) : 0];
  };
  pathwise.loadOf = section => {
    const pick = section.querySelector(".load-pick");
    return pick && pick.value !== "all" ? Number(pick.value) : 0;
  };

  const chips = all(".chip[data-network]").filter(c => c.dataset.network !== "all");
  function showNetworks() {
    chips.forEach(c => c.setAttribute("aria-pressed", String(!pathwise.hidden.has(Number(c.dataset.network)))));
    pathwise.redraw();
  }
  chips.forEach(c => c.addEventListener("click", () => {
    const i = Number(c.dataset.network);
    if (!pathwise.hidden.delete(i)) pathwise.hidden.add(i);
    showNetworks();
  }));
  all(".chip.all").forEach(c => c.addEventListener("click", () => { pathwise.hidden.clear(); showNetworks(); }));

  const find = document.getElementById("trial-find"), status = document.getElementById("trial-status");
  if (find && status) {
    const rows = all("#trial-table tbody tr").map(tr => ({ tr, text: tr.textContent.toLowerCase() }));
    const filter = () => {
      const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const { tr, text } of rows) {
        const fits = status.value === "warned" ? tr.dataset.status === "ok" && "noted" in tr.dataset : !status.value || tr.dataset.status === status.value;
        tr.hidden = !(fits && words.every(w => text.includes(w)));
        shown += tr.hidden ? 0 : 1;
      }
      document.getElementById("trial-count").textContent = shown + " of " + rows.length + " shown";
    };
    find.addEventListener("input", filter);
    status.addEventListener("change", filter);
    filter();
  }

  if (matchMedia("(max-width: 1099px)").matches) all(".toc details").forEach(d => { d.open = false; });
})();
