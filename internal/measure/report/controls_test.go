package report

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"pathwise.dev/pathwise/internal/sample"
)

// workload is the second workload's section: tcp-latency on one host.
const workload = `document.querySelectorAll("section.workload")[1]`

// pick gives a control a value, as a reader does.
func pick(t *testing.T, b *tab, control, value string) {
	t.Helper()
	eval[bool](t, b, fmt.Sprintf(`(() => { const e = %s; e.value = %q;
		for (const name of ["input", "change"]) e.dispatchEvent(new Event(name, {bubbles: true}));
		return true; })()`, control, value))
}

// drawing is the chart of a kind in the workload's section.
func drawing(t *testing.T, b *tab, kind string) string {
	t.Helper()
	return eval[string](t, b, fmt.Sprintf(`%s.querySelector("[data-chart=%s] svg").outerHTML`, workload, kind))
}

// TestHTMLPickers chooses loads, figures and networks as a reader would.
func TestHTMLPickers(t *testing.T) {
	tab := open(t, browser(t), writeReport(t, fixtures()["full"]), views()[0])
	eval[bool](t, tab, `pathwise.drawAll(), true`)
	const rankings = `[...` + workload + `.querySelectorAll(".question")].filter(e => e.offsetParent).length`
	if n := eval[int](t, tab, rankings); n != 1 {
		t.Errorf("%d rankings shown at first, want that of one load", n)
	}
	before := drawing(t, tab, "curve")
	pick(t, tab, workload+`.querySelector(".load-pick")`, "2")
	if drawing(t, tab, "curve") == before {
		t.Error("the percentiles did not follow the load")
	}
	pick(t, tab, workload+`.querySelector(".load-pick")`, "all")
	if n := eval[int](t, tab, rankings); n != 3 {
		t.Errorf("%d rankings shown for all loads, want 3", n)
	}
	before = drawing(t, tab, "bars")
	pick(t, tab, workload+`.querySelector(".metric-pick")`, "2")
	if drawing(t, tab, "bars") == before {
		t.Error("the bars did not follow the figure")
	}
	if got := eval[string](t, tab, workload+`.querySelector(".metric-name").textContent`); got != "p99 (us)" {
		t.Errorf("the caption says %q", got)
	}
	before = drawing(t, tab, "load")
	eval[bool](t, tab, `document.querySelector("[data-network='1']").click(), true`)
	if drawing(t, tab, "load") == before {
		t.Error("the lines did not lose the network that was switched off")
	}
	tab.report(t)
}

// TestHTMLFilter finds trials, and reads every chart's tooltips.
func TestHTMLFilter(t *testing.T) {
	full, failed := fixtures()["full"], 0
	for _, tr := range full.Results.Trials {
		if tr.Status == sample.Failed {
			failed++
		}
	}
	tab := open(t, browser(t), writeReport(t, full), views()[0])
	eval[bool](t, tab, `pathwise.drawAll(), true`)
	const rows = `[...document.querySelectorAll("#trial-table tbody tr")].filter(e => !e.hidden).length`
	pick(t, tab, `document.getElementById("trial-status")`, "failed")
	if n := eval[int](t, tab, rows); n != failed {
		t.Errorf("%d failed trials found, want %d", n, failed)
	}
	pick(t, tab, `document.getElementById("trial-find")`, "ovs-vsctl startup")
	if n := eval[int](t, tab, rows); n != 1 {
		t.Errorf("%d trials found, want 1", n)
	}
	eval[bool](t, tab, `document.querySelectorAll("figure .plot").forEach(p => { const c = echarts.getInstanceByDom(p);
		c && c.getOption().series.forEach((s, i) => s.type !== "custom" && c.dispatchAction({type: "showTip", seriesIndex: i, dataIndex: 0})); }), true`)
	tab.report(t)
}

// TestHTMLPrints prints a dark screen's report and finds it light and whole.
func TestHTMLPrints(t *testing.T) {
	b := browser(t)
	tab := open(t, b, writeReport(t, fixtures()["small"]), views()[1])
	pdf, err := chromedp.Run(tab, chromedp.PrintToPDF(chromedp.PDFPrintBackground()))
	if err != nil {
		t.Fatal(err)
	}
	if len(pdf) < 20_000 {
		t.Errorf("the PDF has %d bytes", len(pdf))
	}
	call(t, tab, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 740, Height: 1000,
		DeviceScaleFactor: 1})
	call(t, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	if got := eval[string](t, tab, `getComputedStyle(document.body).backgroundColor`); got != "rgb(255, 255, 255)" {
		t.Errorf("paper is %s", got)
	}
	if n := eval[int](t, tab, `[...document.querySelectorAll(".question")].filter(e => !e.offsetParent).length`); n != 0 {
		t.Errorf("%d rankings are not printed", n)
	}
	if n := eval[int](t, tab, `[...document.querySelectorAll("figure[data-chart]")].filter(f => !f.querySelector(".plot svg")).length`); n != 0 {
		t.Errorf("%d charts are not printed", n)
	}
	screenshot(t, tab, "print")
	tab.report(t)
}
