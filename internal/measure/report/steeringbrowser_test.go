package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writeSteering(t *testing.T, in SteeringInput) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "steering.html")
	if err := os.WriteFile(file, []byte(renderSteering(t, Steering, in, Options{})), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestSteeringInBrowser opens the page as readers do, as TestHTMLInBrowser does.
func TestSteeringInBrowser(t *testing.T) {
	b := browser(t)
	wide, phone := []view{{"wide-light", 1200, "light"}, {"wide-dark", 1200, "dark"}},
		[]view{{"phone-light", 380, "light"}, {"phone-dark", 360, "dark"}}
	for name, in := range steeringFixtures() {
		looks := map[string][]view{"demo": append(wide, phone...), "odd": wide[1:], "zero": phone[1:],
			"huge": phone[1:]}[name]
		file := writeSteering(t, in)
		for _, v := range looks {
			t.Run(name+"/"+v.name, func(t *testing.T) {
				tab := open(t, b, file, v)
				checkSteering(t, tab, in)
				if name == "demo" {
					checkTheme(t, tab, v)
				}
				screenshot(t, tab, "steering-"+name+"-"+v.name)
				tab.report(t)
			})
		}
	}
}

func checkSteering(t *testing.T, b *tab, in SteeringInput) {
	t.Helper()
	eval[bool](t, b, `pathwise.drawAll(), true`)
	charts := 0
	for _, s := range in.Scripts {
		for _, r := range s.Runs {
			if len(r.Points) > 0 {
				charts++
				break
			}
		}
	}
	if n := eval[int](t, b, `[...document.querySelectorAll("figure[data-chart=line]")].filter(f => f.querySelector(".plot svg path")).length`); n != charts {
		t.Errorf("%d time lines drawn, want %d", n, charts)
	}
	if n := eval[int](t, b, `document.querySelectorAll("#figures tbody tr:not(.drill):not(.why)").length`); n != len(in.Figures) {
		t.Errorf("%d rows of figures, want %d", n, len(in.Figures))
	}
	type size struct{ Scroll, Client int }
	s := eval[size](t, b, `({Scroll: document.documentElement.scrollWidth, Client: document.documentElement.clientWidth})`)
	if s.Scroll > s.Client {
		t.Errorf("the page is %d px wide in a window of %d px: %v", s.Scroll, s.Client, eval[[]string](t, b, wideElements))
	}
	if n := eval[int](t, b, `document.querySelectorAll("main b b, script[src], link[rel=stylesheet], img").length`); n != 0 {
		t.Errorf("%d elements that load something or come from data", n)
	}
	for _, bad := range eval[[]string](t, b, `[...document.querySelectorAll("button, a, [role=img], [role=region], [role=group], section")].filter(e =>
		!(e.textContent.trim() && !e.matches("[role], section") || e.getAttribute("aria-label") || document.getElementById(e.getAttribute("aria-labelledby"))?.textContent.trim()))
		.map(e => e.outerHTML.slice(0, 80))`) {
		t.Errorf("no accessible name: %s", bad)
	}
}

// tooltip points at the chart and returns what it says.
func tooltip(t *testing.T, b *tab, action string) string {
	t.Helper()
	return eval[string](t, b, `(() => { const p = document.querySelector("[data-chart=line] .plot"), c = echarts.getInstanceByDom(p);
		const series = id => c.getOption().series.findIndex(s => s.id === id);
		`+action+`; return [...p.children].map(e => e.tagName === "DIV" && !e.querySelector("svg") ? e.innerText : "").join(""); })()`)
}

// TestSteeringControls points, hides, zooms and unfolds as a reader would.
func TestSteeringControls(t *testing.T) {
	tab := open(t, browser(t), writeSteering(t, madeSteering()), views()[0])
	eval[bool](t, tab, `pathwise.drawAll(), true`)
	got := tooltip(t, tab, `c.dispatchAction({type: "showTip", seriesIndex: series("marks"), dataIndex: 2})`)
	for _, want := range []string{"move 3", "failover", "macvlan → routed-bgp", "answered none of 3 probes",
		"detected in 21.0 ms", "brought"} {
		if !strings.Contains(got, want) {
			t.Errorf("a move's tooltip lacks %q: %s", want, got)
		}
	}
	got = tooltip(t, tab, `c.dispatchAction({type: "showTip", seriesIndex: series("phases"), dataIndex: 2})`)
	if !strings.Contains(got, "rate limit vxlan") || !strings.Contains(got, "40 to 62 s") {
		t.Errorf("a phase's tooltip: %s", got)
	}
	got = tooltip(t, tab, `const [x, y] = c.convertToPixel({gridIndex: 0}, [40.7, 1e2]); c.dispatchAction({type: "showTip", x, y})`)
	for _, want := range []string{"steered", "macvlan", "Mbit/s", "move 2", "C rate limit"} {
		if !strings.Contains(got, want) {
			t.Errorf("the lines' tooltip lacks %q: %s", want, got)
		}
	}
	const lines = `echarts.getInstanceByDom(document.querySelector("[data-chart=line] .plot")).getOption().series.filter(s => s.type === "line").length`
	zoomed := func(chart string) []float64 {
		return eval[[]float64](t, tab, `(() => { const z = echarts.getInstanceByDom(document.querySelector("[data-chart=`+
			chart+`] .plot")).getOption().dataZoom[0]; return [z.startValue, z.endValue]; })()`)
	}
	eval[bool](t, tab, `document.querySelector("button[data-zoom][data-from='60.72']").click(), true`)
	eval[bool](t, tab, `document.querySelectorAll(".chip")[1].click(), true`)
	if n := eval[int](t, tab, lines); n != 3 {
		t.Errorf("%d lines after one of 4 was switched off", n)
	}
	for _, chart := range []string{"line", "shares"} {
		if z := zoomed(chart); len(z) != 2 || z[0] < 60 || z[1] > 80 {
			t.Errorf("%s shows %v after the zoom to the black hole", chart, z)
		}
	}
	if eval[bool](t, tab, `document.querySelector("details.events").open`) {
		t.Error("the events are unfolded")
	}
	eval[bool](t, tab, `document.querySelector('.key a').click(), true`)
	if !eval[bool](t, tab, `document.querySelector("details.events").open`) {
		t.Error("the link did not unfold the events")
	}
	eval[bool](t, tab, `document.querySelectorAll("details").forEach(d => { d.open = true; }), true`)
	screenshot(t, tab, "steering-zoomed")
	tab.report(t)
}
