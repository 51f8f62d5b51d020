package bundle

import (
	"fmt"
	"strings"

	"pathwise.dev/pathwise/internal/pipeline"
	"pathwise.dev/pathwise/internal/pipeline/reduction"
)

// way is what a file holds: lines for a bundle, and those of the bundle that they take back.
type way struct{ done, back []string }

// Words that lines begin with.
const (
	doneMark  = "# done: "
	addLine   = "add "
	cutStrict = "delete_strict "
)

// text is the file for the way back. ovs-ofctl takes it too.
func text(b Bridge, r reduction.Result) string {
	var out strings.Builder
	fmt.Fprintf(&out, "# Takes back what \"pathwise ovs shorten %s --apply\" did:\n", b)
	fmt.Fprintf(&out, "#   pathwise ovs shorten %s --revert FILE\n", b)
	fmt.Fprintf(&out, "#   ovs-ofctl -O OpenFlow14 --bundle add-flows %s FILE\n", b)
	for _, l := range r.Apply {
		out.WriteString(doneMark + l + "\n")
	}
	for _, l := range r.Revert {
		out.WriteString(l + "\n")
	}
	return out.String()
}

// parse reads such a file. An error begins with the line's number.
func parse(raw string) (w way, err error) {
	n := 0
	for line := range strings.Lines(raw) {
		n++
		line = strings.TrimSpace(line)
		to := &w.back
		if rest, ok := strings.CutPrefix(line, doneMark); ok {
			to, line = &w.done, rest
		} else if line == "" || line[0] == '#' {
			continue
		}
		if _, _, err := flowOf(pipeline.New(nil), line); err != nil {
			return way{}, fmt.Errorf("%d: %w: expected \"add FLOW\" or \"delete_strict MATCH\"", n, err)
		}
		*to = append(*to, line)
	}
	if len(w.done) == 0 || len(w.back) == 0 {
		return way{}, fmt.Errorf("1: no line begins with %q, or none follows: expected a file that --apply wrote", doneMark)
	}
	return w, nil
}

// flowOf reads a line of a bundle, and whether it adds the flow or deletes it.
func flowOf(p *pipeline.Pipeline, line string) (f *pipeline.Flow, add bool, err error) {
	rest, add := strings.CutPrefix(line, addLine)
	if !add {
		match, ok := strings.CutPrefix(line, cutStrict)
		if !ok {
			return nil, false, fmt.Errorf("%.60q is no change of a flow", line)
		}
		rest = match + " actions=drop"
	}
	one := p.With(nil)
	one.Lost = nil
	one.ReadLine(1, rest)
	if len(one.Flows) != 1 {
		if len(one.Lost) > 0 {
			return nil, false, fmt.Errorf("%s", one.Lost[0].Reason)
		}
		return nil, false, fmt.Errorf("%.60q names no flow", line)
	}
	return one.Flows[0], add, nil
}

// place names a flow within a bridge, which has one of each.
func place(p *pipeline.Pipeline, f *pipeline.Flow) string {
	return fmt.Sprintf("table=%s,%s", p.Names.FormatTable(f.Table), p.PrintMatch(f))
}

// unmet is what is not as it would be after a bundle's lines; "" if all is.
func unmet(p *pipeline.Pipeline, lines []string) string {
	have := map[string]string{}
	for _, f := range p.Flows {
		have[place(p, f)] = p.Print(f, pipeline.AsGiven)
	}
	for _, l := range lines {
		f, add, err := flowOf(p, l)
		if err != nil {
			return err.Error()
		}
		now, found := have[place(p, f)]
		switch {
		case add && !found:
			return "there is no flow " + p.Print(f, pipeline.AsGiven)
		case add && now != p.Print(f, pipeline.AsGiven):
			return "there is " + now + ", not " + p.Print(f, pipeline.AsGiven)
		case !add && found:
			return "there is " + now
		}
	}
	return ""
}

// differ is the first thing in which two readings of a bridge differ; "" if they do not.
func differ(a, b *pipeline.Pipeline) string {
	if lines := reduction.Changes(a, b); len(lines) > 0 {
		if gone, ok := strings.CutPrefix(lines[0], cutStrict); ok {
			return "there is no " + gone
		}
		return "there is " + strings.TrimPrefix(lines[0], addLine)
	}
	known := map[string]bool{}
	for _, g := range a.Groups {
		known[g.Text] = true
	}
	for _, g := range b.Groups {
		if !known[g.Text] {
			return "there is " + g.Text
		}
	}
	if len(a.Groups) != len(b.Groups) || len(a.Lost) != len(b.Lost) {
		return "there are other groups, or other lines that are not understood"
	}
	return ""
}
