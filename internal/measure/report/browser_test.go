package report

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser starts a headless Chromium and returns a context for new tabs.
func browser(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if errors.Is(err, exec.ErrNotFound) {
		if os.Getenv("PATHWISE_ALLOW_SKIP") != "" {
			t.Skip("chromium is missing (Debian package chromium): the HTML report was not opened")
		}
		t.Fatal("chromium is missing: install the Debian package chromium, or set PATHWISE_ALLOW_SKIP=1 to go without opening the HTML report")
	}
	opts := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir()), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("no-first-run", true),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start chromium: %v", err)
	}
	return ctx
}

// view is how a reader holds a report.
type view struct {
	name   string
	width  int64
	scheme string
}

func views() []view {
	return []view{{"wide-light", 1400, "light"}, {"wide-dark", 1400, "dark"}, {"phone-light", 390, "light"},
		{"phone-dark", 390, "dark"}}
}

// tab is an open report and what went wrong in it.
type tab struct {
	context.Context
	mu       sync.Mutex
	problems []string
}

func (b *tab) problem(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.problems = append(b.problems, fmt.Sprintf(format, args...))
}

// report fails the test for everything that went wrong.
func (b *tab) report(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.problems {
		t.Error(p)
	}
}

// open shows the file in a new tab.
func open(t *testing.T, browser context.Context, file string, v view) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, time.Minute)
	t.Cleanup(cancel)
	b := &tab{Context: ctx}
	url := "file://" + file
	// The first action opens the tab; what it says before is not the page's.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	err := chromedp.Listen(ctx, func(ev any) {
		switch ev := ev.(type) {
		case *runtime.EventConsoleAPICalled:
			for _, a := range ev.Args {
				b.problem("console %s: %s %s", ev.Type, a.Value, a.Description)
			}
		case *runtime.EventExceptionThrown:
			b.problem("exception: %+v", ev.ExceptionDetails.Exception.Description)
		case *log.EventEntryAdded:
			b.problem("log: %s %s", ev.Entry.Level, ev.Entry.Text)
		case *network.EventRequestWillBeSent:
			if ev.Request.URL != url && !strings.HasPrefix(ev.Request.URL, "data:") {
				b.problem("request for %s", ev.Request.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	call(t, b, network.Enable, network.EnableParams{})
	call(t, b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: v.width, Height: 900, DeviceScaleFactor: 1, Mobile: v.width < 600,
	})
	call(t, b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: v.scheme}},
	})
	if err := chromedp.Do(ctx, chromedp.Navigate(url), chromedp.WaitReady("footer")); err != nil {
		t.Fatalf("open %s: %v", file, err)
	}
	return b
}

// call sends a command of the DevTools protocol.
func call[P, R any](t *testing.T, b *tab, c cdp.Command[P, R], params P) {
	t.Helper()
	if _, err := chromedp.Call(b, c, params); err != nil {
		t.Fatalf("%s: %v", c.Method, err)
	}
}

// eval runs a script and decodes its value.
func eval[T any](t *testing.T, b *tab, script string) T {
	t.Helper()
	out, err := chromedp.Run(b, chromedp.Evaluate[T](script))
	if err != nil {
		t.Fatalf("evaluate %s: %v", script, err)
	}
	return out
}

func writeReport(t *testing.T, in Input) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := Render(f, HTML, in, quick()); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestHTMLInBrowser opens every fixture's report as readers do and looks at
// what the browser made of it. PATHWISE_SCREENSHOTS names a directory that
// receives a picture of each.
func TestHTMLInBrowser(t *testing.T) {
	b := browser(t)
	for name, in := range fixtures() {
		file := writeReport(t, in)
		looks := views()
		if name != "full" && name != "many" {
			looks = []view{looks[0], looks[3]}
		}
		for _, v := range looks {
			t.Run(name+"/"+v.name, func(t *testing.T) {
				tab := open(t, b, file, v)
				checkPage(t, tab, len(in.Results.Trials))
				checkTheme(t, tab, v)
				screenshot(t, tab, name+"-"+v.name)
				tab.report(t)
			})
		}
	}
}

// wideElements names what sticks out of the window and does not scroll by itself.
const wideElements = `[...document.querySelectorAll("body *")].filter(e =>
	e.getBoundingClientRect().right > document.documentElement.clientWidth && !e.closest(".scroll *")).map(e =>
	e.tagName + "." + e.className + " " + e.textContent.slice(0, 30)).slice(0, 8)`

// checkPage draws everything and measures it.
func checkPage(t *testing.T, b *tab, trials int) {
	t.Helper()
	eval[bool](t, b, `pathwise.drawAll(), true`)
	for _, bad := range eval[[]string](t, b, `[...document.querySelectorAll("figure[data-chart]")].filter(f =>
		!f.querySelector(".plot svg path, .plot svg rect, .plot .empty")).map(f => f.dataset.section + " " + f.dataset.chart)`) {
		t.Errorf("chart not drawn: %s", bad)
	}
	if n := eval[int](t, b, `document.querySelectorAll("figure[data-chart]").length`); (n > 0) != (trials > 0) {
		t.Errorf("%d charts for %d trials", n, trials)
	}
	if n := eval[int](t, b, `document.querySelectorAll("#trial-table tbody tr").length`); n != trials {
		t.Errorf("%d rows of trials, want %d", n, trials)
	}
	type size struct{ Scroll, Client int }
	s := eval[size](t, b, `({Scroll: document.documentElement.scrollWidth, Client: document.documentElement.clientWidth})`)
	if s.Scroll > s.Client {
		t.Errorf("the page is %d px wide in a window of %d px: %v", s.Scroll, s.Client, eval[[]string](t, b, wideElements))
	}
	if n := eval[int](t, b, `document.querySelectorAll("main b b, script[src], link[rel=stylesheet], img").length`); n != 0 {
		t.Errorf("%d elements that load something or come from data", n)
	}
}

// checkTheme looks at the ground's colour as the system wants it, and as the
// buttons do.
func checkTheme(t *testing.T, b *tab, v view) {
	t.Helper()
	const ground = `getComputedStyle(document.body).backgroundColor`
	colors := map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}
	if got := eval[string](t, b, ground); got != colors[v.scheme] {
		t.Errorf("ground is %s in a %s system", got, v.scheme)
	}
	for _, want := range []string{"light", "dark", "auto"} {
		before := eval[string](t, b, `document.querySelector(".plot svg")?.outerHTML ?? ""`)
		eval[bool](t, b, `document.querySelector("[data-theme-is=`+want+`]").click(), true`)
		color := colors[want]
		if want == "auto" {
			color = colors[v.scheme]
		}
		if got := eval[string](t, b, ground); got != color {
			t.Errorf("ground is %s after a click on %s", got, want)
		}
		after := eval[string](t, b, `document.querySelector(".plot svg")?.outerHTML ?? ""`)
		if want == "dark" && before != "" && before == after {
			t.Error("the charts did not follow the theme")
		}
	}
}

func screenshot(t *testing.T, b *tab, name string) {
	t.Helper()
	dir := os.Getenv("PATHWISE_SCREENSHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b, chromedp.FullScreenshot(100))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
}
