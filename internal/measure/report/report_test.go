package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/perf/benchfmt"

	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

func render(t *testing.T, format string, in Input, o Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := Render(&out, format, in, o); err != nil {
		t.Fatalf("%s: %v", format, err)
	}
	return out.String()
}

// quick are options for tests that do not look at rank intervals.
func quick() Options { return Options{Rank: rank.Options{Draws: 50}} }

// broken is a full disk.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

var errBroken = errors.New("no space left on device")

func TestEveryFormatOfEveryFixture(t *testing.T) {
	for name, in := range fixtures() {
		for _, format := range Formats() {
			if err := Render(io.Discard, format, in, quick()); format == SVG && errors.Is(err, errUnranked) {
				continue
			}
			if render(t, format, in, quick()) == "" {
				t.Errorf("%s as %s is empty", name, format)
			}
			if err := Render(broken{}, format, in, quick()); !errors.Is(err, errBroken) {
				t.Errorf("%s as %s to a full disk: %v", name, format, err)
			}
		}
	}
}

// TestNotesAreShown: how a network was built is said with its figures, of trials
// that count alone.
func TestNotesAreShown(t *testing.T) {
	in := Input{Results: smallPlan().results()}
	for i := range in.Results.Trials {
		switch in.Results.Trials[i].Network {
		case "macvlan":
			in.Results.Trials[i].Notes = []string{"switch 2.0, in user space"}
		case "vxlan": // all of them failed
			in.Results.Trials[i].Notes = []string{"switch 3.0"}
		}
	}
	for _, format := range []string{Text, Markdown, HTML, JSON} {
		out := render(t, format, in, quick())
		if !strings.Contains(out, "switch 2.0, in user space") {
			t.Errorf("%s does not say how the network was built", format)
		}
		if format == Text && strings.Contains(out, "switch 3.0") {
			t.Error("a note of a trial that failed")
		}
	}
}

func TestUnknownFormat(t *testing.T) {
	for format, want := range map[string]string{"": "expected one of text, wide, markdown", "xml": "expected one of",
		"mark": `did you mean "markdown"?`} {
		if err := Render(&bytes.Buffer{}, format, Input{}, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("format %q: %v, want %q", format, err, want)
		}
	}
}

func TestTextFitsTheTerminal(t *testing.T) {
	ansi := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for name, in := range fixtures() {
		for _, width := range []int{80, 100, 132} {
			var brief bytes.Buffer
			if err := Brief(&brief, in, Options{Width: width, Color: true, Rank: quick().Rank}); err != nil {
				t.Fatal(err)
			}
			for _, l := range strings.Split(brief.String()+render(t, Text, in, Options{Width: width, Rank: quick().Rank}),
				"\n") {
				l = ansi.ReplaceAllString(l, "")
				if n := utf8.RuneCountInString(l); n > width {
					t.Errorf("%s: %d columns in %d: %s", name, n, width, l)
				}
			}
		}
	}
}

// TestWhatIsLeftOutIsSaid: a terminal is told what it does not see and how to see it; a pipe
// and -o wide lack nothing.
func TestWhatIsLeftOutIsSaid(t *testing.T) {
	in := fixtures()["small"]
	in.Dir = "results/small"
	const hint = "shows every column; left out to fit 80: "
	whole := render(t, Text, in, quick())
	for name, tc := range map[string]struct {
		text string
		want bool
	}{
		"report": {render(t, Text, in, Options{Width: 80, Rank: quick().Rank}), true},
		"wide":   {render(t, Wide, in, Options{Width: 80, Rank: quick().Rank}), false},
		"pipe":   {whole, false},
		"brief":  {briefly(t, in, Options{Width: 80, Rank: quick().Rank}), false},
	} {
		if strings.Contains(tc.text, hint) != tc.want {
			t.Errorf("%s: is it said what was left out? %v:\n%s", name, !tc.want, tc.text)
		}
	}
	for _, name := range []string{"p99.9 us", "retransmits 1/GB"} {
		if wide := render(t, Wide, in, Options{Width: 80, Rank: quick().Rank}); !strings.Contains(wide, name) ||
			!strings.Contains(whole, name) {
			t.Errorf("a column is missing from -o wide or from a pipe: %s", name)
		}
	}
	narrow := briefly(t, in, Options{Width: 48, Rank: quick().Rank})
	if !strings.Contains(strings.Join(strings.Fields(narrow), " "),
		`"pathwise report results/small -o wide" shows every column; left out to fit 48: `) {
		t.Errorf("the end of a run does not say what shows more:\n%s", narrow)
	}
}

func briefly(t *testing.T, in Input, o Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := Brief(&out, in, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestIncompleteIsSaid(t *testing.T) {
	for _, format := range []string{Text, Markdown, Bench, HTML} {
		if out := render(t, format, fixtures()["zero"], Options{}); !strings.Contains(out,
			"incomplete: 0 of 120 trials, continue with --resume") {
			t.Errorf("%s does not say that the run is incomplete", format)
		}
	}
}

// TestCSVRecomputes takes the published figures from the CSV alone: means,
// and z-scores by equation (1) of Atici and Boluk (2020).
func TestCSVRecomputes(t *testing.T) {
	in := fixtures()["full"]
	rows, err := csv.NewReader(strings.NewReader(render(t, CSV, in, Options{}))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	col := map[string]int{}
	for i, name := range rows[0] {
		col[name] = i
	}
	values := map[string][]float64{}
	for _, r := range rows[1:] {
		get := func(name string) string { return r[col[name]] }
		if get("workload") != "tcp-stream" || get("placement") != "two-hosts" || get("connections") != "8" ||
			get("metric") != sample.Throughput || get("status") != "ok" {
			continue
		}
		v, err := strconv.ParseFloat(get("value"), 64)
		if err != nil {
			t.Fatal(err)
		}
		values[get("network")] = append(values[get("network")], v)
	}
	checkZ(t, in, values)
}

// checkZ compares z-scores by hand with those of the ranking.
func checkZ(t *testing.T, in Input, values map[string][]float64) {
	t.Helper()
	mean := func(v []float64) (m float64) {
		for _, x := range v {
			m += x / float64(len(v))
		}
		return m
	}
	var means []float64
	for network, v := range values {
		if network != rank.Baseline {
			means = append(means, mean(v))
		}
	}
	mu, variance := mean(means), 0.0
	for _, m := range means {
		variance += (m - mu) * (m - mu) / float64(len(means))
	}
	checked := 0
	for _, r := range rank.Rank(in.Results.Trials, rank.Options{}) {
		if r.Name != "two-hosts/tcp-stream/c=8" {
			continue
		}
		for _, row := range r.Rows {
			for _, f := range row.Features {
				checked++
				if z := (mean(values[row.Network]) - mu) / math.Sqrt(variance); math.Abs(z-f.Z) > 1e-9 {
					t.Errorf("%s: z %g by hand, %g in the ranking", row.Network, z, f.Z)
				}
			}
		}
	}
	if checked != 8 {
		t.Errorf("%d z-scores checked, want 8", checked)
	}
}

func TestCSVHasEveryTrial(t *testing.T) {
	for name, in := range fixtures() {
		rows, err := csv.NewReader(strings.NewReader(render(t, CSV, in, Options{}))).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := 1
		for _, tr := range in.Results.Trials {
			want += max(len(tr.Metrics), 1)
		}
		if len(rows) != want {
			t.Errorf("%s: %d rows, want %d", name, len(rows), want)
		}
	}
}

func TestJSONReadsBack(t *testing.T) {
	for name, in := range fixtures() {
		var d Document
		if err := json.Unmarshal([]byte(render(t, JSON, in, quick())), &d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d.Format != Format || d.Version != Version || len(d.Trials) != len(in.Results.Trials) ||
			d.Run.Finished != (in.Results.Footer != nil) {
			t.Errorf("%s: read back %s version %d with %d trials", name, d.Format, d.Version, len(d.Trials))
		}
	}
}

// TestBenchIsRead gives the output to the reader that benchstat uses.
func TestBenchIsRead(t *testing.T) {
	for name, in := range fixtures() {
		r := benchfmt.NewReader(strings.NewReader(render(t, Bench, in, Options{})), name)
		got := 0
		for r.Scan() {
			switch rec := r.Result().(type) {
			case *benchfmt.SyntaxError:
				t.Errorf("%s: %v", name, rec)
			case *benchfmt.Result:
				got++
				if rec.GetConfig("experiment") == "" {
					t.Errorf("%s: a result without experiment", name)
				}
			}
		}
		want := 0
		for _, tr := range in.Results.Trials {
			if tr.Status == sample.OK {
				want++
			}
		}
		if err := r.Err(); err != nil || got != want {
			t.Errorf("%s: %d results, want %d; %v", name, got, want, err)
		}
		for key, m := range r.Units() {
			if key.Key == "better" && m.Value != "higher" && m.Value != "lower" {
				t.Errorf("%s: unit %s is better %q", name, key.Unit, m.Value)
			}
		}
	}
}

func TestBenchUnitsDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, m := range sample.Metrics() {
		u := benchUnit(m)
		if seen[u] != "" {
			t.Errorf("%s and %s share the unit %s", m.Name, seen[u], u)
		}
		seen[u] = m.Name
	}
}

// TestHTMLKeepsDataFromMarkup: reasons, names and YAML are text wherever they stand.
func TestHTMLKeepsDataFromMarkup(t *testing.T) {
	for _, name := range []string{"failed", "full"} {
		out := render(t, HTML, fixtures()[name], quick())
		for _, bad := range []string{"<script>alert", "<b>not markup", "</script> isolation", "</script><b>"} {
			if strings.Contains(out, bad) {
				t.Errorf("%s: %q is in the page", name, bad)
			}
		}
		if n := strings.Count(out, "</script"); n != 3 {
			t.Errorf("%s: %d ends of scripts, want 3", name, n)
		}
	}
}

// TestLibraryIsTheOneRecorded compares the vendored file with its README.
func TestLibraryIsTheOneRecorded(t *testing.T) {
	raw, err := os.ReadFile("echarts/echarts.min.js")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("echarts/README.md")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	if !bytes.Contains(readme, []byte(hex.EncodeToString(sum[:]))) {
		t.Errorf("echarts.min.js has sha256 %x, which README.md does not name", sum)
	}
}

// TestFamiliesStayApart: figures of IPv6 are told as such and ranked with their like.
func TestFamiliesStayApart(t *testing.T) {
	in := fixtures()["tiny"]
	trials := in.Results.Trials
	for _, tr := range trials {
		tr.Scenario.Family = topo.IPv6
		in.Results.Trials = append(in.Results.Trials, tr)
	}
	for format, want := range map[string]string{Text: ",family=6", Markdown: ",family=6", HTML: ", IPv6",
		JSON: `"family": 6`, CSV: ",family=6", Bench: "/family=6"} {
		if out := render(t, format, in, quick()); !strings.Contains(out, want) {
			t.Errorf("%s does not have %s", format, want)
		}
		in := in
		in.Results.Trials = trials
		if out := render(t, format, in, quick()); strings.Contains(out, want) {
			t.Errorf("%s has %s without any", format, want)
		}
	}
	both, one := rank.Rank(in.Results.Trials, quick().Rank), rank.Rank(trials, quick().Rank)
	if len(both) != 2*len(one) {
		t.Errorf("%d rankings of two families, %d of one", len(both), len(one))
	}
	for _, r := range both {
		if q := r.Question; q != nil && q.Scenario.Family != 0 && q.Scenario.Family != topo.IPv6 {
			t.Errorf("%s", r.Name)
		}
	}
}
