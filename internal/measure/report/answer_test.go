package report

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/measure/claim"
	"pathwise.dev/pathwise/internal/measure/figure"
	"pathwise.dev/pathwise/internal/measure/paper"
	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// closePlan is of networks that are near one another and scatter: some questions stay open.
func closePlan(name string, reps int) madePlan {
	return madePlan{reps: reps, networks: []made{{"host", 1, 1, 0.02}, {"near-" + name, 0.90, 1.2, 0.04},
		{"by-" + name, 0.84, 1.3, 0.04}, {"far-" + name, 0.4, 3, 0.04}},
		questions: []sample.Question{
			question1("tcp-stream", topo.TwoHosts, 1, sample.Load{Connections: 1}),
			question1("tcp-latency", topo.TwoHosts, 1, sample.Load{Connections: 1, Size: 64}),
			question1("tcp-stream", topo.OneHost, 1, sample.Load{Connections: 1}),
		}}
}

// madeStudy is the repeated study of an invented document: claims that hold, that do not, that
// are open and that cannot be tested.
func madeStudy() Input {
	in := Input{Name: "study", Dir: "results/study", Results: closePlan("a", 3).results()}
	p := func(v float64) *float64 { return &v }
	tcp := claim.Where{Workload: "tcp-stream", Placements: []topo.Placement{topo.TwoHosts}}
	add := func(id, text, published, exhibit, of, to string, r claim.Range) {
		in.Claims = append(in.Claims, claim.Claim{ID: id, Source: "Author 2015", Text: text, Published: published,
			Metric: sample.Throughput, Where: tcp, Exhibits: []string{exhibit},
			Test: claim.Test{Ratio: &claim.Ratio{Of: claim.Side{Network: of}, To: claim.Side{Network: to}, Range: r}}})
	}
	add("far-slow", "far has less than half of the host's throughput", "under 50 %", "fig-1", "far-a", "host",
		claim.Range{Most: p(0.5)})
	add("far-close", "far is close behind near", "90 %", "fig-1", "far-a", "near-a", claim.Range{Least: p(0.8)})
	add("near-first", "near is a tenth faster than by", "", "fig-1", "near-a", "by-a", claim.Range{Least: p(1.1)})
	add("by-most", "by has 93 to 120 % of near", "93 %", "fig-2", "by-a", "near-a",
		claim.Range{Least: p(0.93), Most: p(1.2)})
	in.Claims = append(in.Claims, claim.Claim{ID: "mac", Source: "Author 2015", Text: "a pod has a MAC address of its own",
		Exhibits: []string{"fig-3"}, Untested: "it is no figure"})
	view := paper.View{Where: claim.Where{Workload: "tcp-stream"}, Metric: sample.Throughput}
	const drawing = "a drawing of how it is built, not a measurement"
	in.Paper = &paper.Paper{Title: "Networks compared", Authors: "Author 2015", Reference: "a conference",
		Setup: "Two servers.", Differs: "One machine.",
		Networks: []paper.Alias{{Theirs: "far", Here: []string{"far-a"},
			Note: "it represents a network of the document whose name and whose history take a long line to tell, and then some more"}},
		Exhibits: []paper.Exhibit{
			{ID: "fig-1", Title: "Throughput by network", Shows: []paper.View{view}},
			{ID: "fig-2", Title: "Throughput once more", Shows: []paper.View{view}},
			{ID: "table-1", Title: "Networks to use", Choice: true},
			{ID: "fig-3", Title: "How a pod is attached", Why: drawing}, {ID: "fig-4", Title: "Drawing", Why: drawing},
			{ID: "fig-5", Title: "Drawing", Why: drawing},
		}}
	return in
}

// TestAnswerOfStudy: the first screen's sentences, without a browser.
func TestAnswerOfStudy(t *testing.T) {
	a := newAnswer(analyse(madeStudy(), quick()))
	for what, want := range map[string]string{
		a.Asked:       `^Do the findings of Author 2015, “Networks compared”, hold on this machine\? 4 of the document's 5 claims can be tested by trials here, on 4 networks\.$`,
		said(a.Known): `(?s)^2 of 4 claims that can be tested are told: 1 holds, 1 does not hold\.\nholds far has less than half .* measured far-a / host 0\.\d+ \(0\.\d+-0\.\d+\); published under 50 %\.\ndoes not hold far is close`,
		said(a.Open):  `(?s)^2 claims cannot be told yet\. About (a|\d+) minutes? more of repetitions are expected to settle 2 of them, the cheapest first: .*\nmac: not tested; each says why\.$`,
	} {
		if !regexp.MustCompile(want).MatchString(what) {
			t.Errorf("the page says\n%s\nwant %s", what, want)
		}
	}
	if a.Forest == nil || len(a.Forest.Panels) != 1 || len(a.Forest.Panels[0].Rows) != 4 {
		t.Errorf("the picture: %+v", a.Forest)
	}
}

func said(lines []answerLine) string {
	var out []string
	for _, l := range lines {
		out = append(out, strings.TrimSpace(l.Mark+" "+l.Text))
	}
	return strings.Join(out, "\n")
}

// TestWhatWouldTell measures as much more as the page says and looks whether that told: the
// number of repetitions is an expectation, so about half of the time it does, and not much less.
func TestWhatWouldTell(t *testing.T) {
	const first = 3
	asked, told := 0, 0
	for i := range 24 {
		o := outlook(t, closePlan(fmt.Sprint(i), first))
		for _, n := range o.Odds[1:] {
			more := o.Wants(n, mostBlocks)
			if n.Tie != rank.Open || more == mostBlocks || more > 40 {
				continue
			}
			asked++
			later := outlook(t, closePlan(fmt.Sprint(i), first+more))
			odds, _ := later.Find(n.Network)
			leader, _ := later.Find(o.Odds[0].Network)
			if odds.Tie != rank.Open && leader.Tie != rank.Open {
				told++
			}
		}
	}
	if asked < 8 || 5*told < 2*asked {
		t.Errorf("%d of %d told after the repetitions that were said to be expected to", told, asked)
	}
	t.Logf("%d of %d told", told, asked)
}

// outlook is that of two hosts.
func outlook(t *testing.T, p madePlan) *rank.Outlook {
	t.Helper()
	for _, r := range rank.Rank(p.results().Trials, rank.Options{Draws: 500}) {
		if r.Scope == rank.Overall && r.Scenario.Placement == topo.TwoHosts {
			return r.Outlook
		}
	}
	t.Fatal("no ranking")
	return nil
}

// onScreen are the rectangle of the first element of each selector.
const onScreen = `(selectors => selectors.map(s => { const r = document.querySelector(s).getBoundingClientRect(); return [r.top, r.bottom, r.width]; }))`

// sentences are what is seen of paragraphs and lists, but for names of networks alone.
const sentences = `[...document.querySelectorAll("main p, main li")].filter(e => e.checkVisibility() && !e.querySelector("p, li") && !e.closest("#trials"))
	.flatMap(e => e.innerText.replace(/ details$/, "").split(/(?<=[.!?])\s+(?=[A-Z])/)).map(s => s.trim()).filter(s => s.length > 25)`

// TestAnswerInBrowser opens the pages of a bench, of one with claims, a study and drills as readers do, and looks
// at what is in the first 900 pixels and how the rest fits a phone.
func TestAnswerInBrowser(t *testing.T) {
	b := browser(t)
	drills := filepath.Join(t.TempDir(), "drills.html")
	if err := os.WriteFile(drills, []byte(renderSteering(t, Steering, openDrills(), Options{})), 0o644); err != nil {
		t.Fatal(err)
	}
	bench := Input{Name: "close", Results: closePlan("a", 3).results()}
	claims := Input{Name: "networks", Results: bench.Results, Claims: madeStudy().Claims}
	for name, file := range map[string]string{"bench": writeReport(t, bench), "networks": writeReport(t, claims),
		"study": writeReport(t, madeStudy()), "drills": drills} {
		looks := []view{{"wide-light", 1300, "light"}, {"phone-dark", 400, "dark"}}
		if name == "study" {
			looks = append(looks, view{"wide-dark", 1300, "dark"}, view{"phone-light", 400, "light"})
		}
		for _, v := range looks {
			t.Run(name+"/"+v.name, func(t *testing.T) {
				tab := open(t, b, file, v)
				checkFirstScreen(t, tab, v)
				eval[bool](t, tab, `pathwise.drawAll(), true`)
				seen := map[string]int{}
				for _, s := range eval[[]string](t, tab, sentences) {
					if seen[s]++; seen[s] == 2 {
						t.Errorf("said twice: %s", s)
					}
				}
				eval[bool](t, tab, `document.querySelectorAll("main details").forEach(d => { d.open = true; }), true`)
				checkWidth(t, tab)
				screenshot(t, tab, "answer-"+name+"-"+v.name)
				tab.report(t)
			})
		}
	}
}

// openDrills are figures of which some are open, without a script.
func openDrills() SteeringInput {
	in := madeSteering()
	in.Scripts = nil
	in.Figures = append(in.Figures,
		SteeringFigure{Figure: figure.Figure{Drill: "rr", Name: "round trip steered / native", Unit: "ratio",
			Value: 1.02, Low: 0.95, High: 1.1, N: 10, Least: 0.9, Median: 1.02, P99: 1.2, Most: 1.2,
			Bar: &figure.Bar{Limit: 1.05}}, Took: 90e9})
	return in
}

// checkFirstScreen: the question, something known, something unknown with the minutes that it
// takes, and a picture are in the first 900 pixels of a wide window, and first on a phone.
func checkFirstScreen(t *testing.T, b *tab, v view) {
	t.Helper()
	selectors := []string{"#asked", "#known li", "#unknown li", "#picture svg"}
	rects := eval[[][]float64](t, b, onScreen+`(["`+strings.Join(selectors, `", "`)+`"])`)
	for i, r := range rects {
		if v.width > 1000 && (r[0] < 0 || r[1] > 900 || r[2] < 100) {
			t.Errorf("%s is from %.0f to %.0f px, %.0f wide: not in the first 900", selectors[i], r[0], r[1], r[2])
		}
	}
	if text := eval[string](t, b, `document.getElementById("unknown").innerText`); !regexp.MustCompile(
		`minutes? more| h \d+ min more`).MatchString(text) {
		t.Errorf("it is not said how long it takes: %s", text)
	}
	if text := eval[string](t, b, `document.getElementById("known").innerText`); !regexp.MustCompile(
		`\d \(\d.*\d\)`).MatchString(text) {
		t.Errorf("what is known has no interval: %s", text)
	}
	if first := eval[string](t, b, `document.querySelector("main").firstElementChild.id`); first != "answer" {
		t.Errorf("the page begins with %q", first)
	}
}

// checkWidth: the page is no wider than the window, nor is any table that does not scroll by
// itself; of rankings and of the figures of drills no column is out of sight in its own box, nor a letter of the
// picture.
func checkWidth(t *testing.T, b *tab) {
	t.Helper()
	type size struct{ Scroll, Client int }
	s := eval[size](t, b, `({Scroll: document.body.scrollWidth, Client: document.documentElement.clientWidth})`)
	if s.Scroll > s.Client {
		t.Errorf("the page is %d px wide in a window of %d px: %v", s.Scroll, s.Client, eval[[]string](t, b, wideElements))
	}
	for _, text := range eval[[]string](t, b, `[...document.querySelectorAll("#picture text")].filter(e => { const r = e.getBoundingClientRect(),
		box = e.closest("svg").getBoundingClientRect(); return r.left < box.left - 1 || r.right > box.right + 1; }).map(e => e.textContent)`) {
		t.Errorf("cut off in the picture: %s", text)
	}
	for _, cell := range eval[[]string](t, b, `[...document.querySelectorAll(".stack td, .stack th, .reco td, .finding td, #answer *")].filter(e =>
		e.checkVisibility() && !(innerWidth > 1000 && e.closest(".workload")) && e.getBoundingClientRect().right > (e.closest(".scroll") ?? document.documentElement).getBoundingClientRect().right + 1).map(e => e.tagName + " " + e.textContent.slice(0, 40))`) {
		t.Errorf("cut off: %s", cell)
	}
}

// TestIndexInBrowser: the page that leads to the studies fits a phone.
func TestIndexInBrowser(t *testing.T) {
	in := madeStudy()
	s := Study{Name: "made", Paper: *in.Paper, Claims: Judge(in, quick()), Dir: in.Dir, Finished: true,
		Report: "made/report.html"}
	s.Paper.Title = "A title of a document that is as long as those of documents are, and then a little longer"
	var page bytes.Buffer
	if err := Index(&page, []Study{s, s}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "index.html")
	if err := os.WriteFile(file, page.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	b := browser(t)
	for _, v := range []view{{"wide-light", 1300, "light"}, {"phone-dark", 400, "dark"}} {
		tab := open(t, b, file, v)
		checkWidth(t, tab)
		screenshot(t, tab, "index-"+v.name)
		tab.report(t)
	}
}

// TestOrderOfStudy: a study begins with the document's figures and its claims; rankings follow.
func TestOrderOfStudy(t *testing.T) {
	study, bench := render(t, HTML, madeStudy(), quick()), render(t, HTML, fixtures()["claims"], quick())
	for name, tc := range map[string]struct {
		page string
		ids  []string
	}{
		"study": {study, []string{"answer", "paper", "claims", "verdict", "rankings", "workloads"}},
		"bench": {bench, []string{"answer", "verdict", "rankings", "claims", "workloads"}},
	} {
		var at []int
		for _, id := range tc.ids {
			i := strings.Index(tc.page, `<section id="`+id+`"`)
			if i < 0 {
				t.Errorf("%s has no section %s", name, id)
			}
			at = append(at, i)
		}
		if !slices.IsSorted(at) {
			t.Errorf("%s: sections %v are at %v", name, tc.ids, at)
		}
	}
	for _, want := range []string{`id="claim-far-slow"`, `id="exhibit-fig-4"`} {
		if strings.Count(study, want) != 1 {
			t.Errorf("the study has %d of %s", strings.Count(study, want), want)
		}
	}
}
