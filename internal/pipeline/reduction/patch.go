package reduction

import (
	"fmt"

	"pathwise.dev/pathwise/internal/pipeline"
)

// Changes are the lines that make one pipeline of another, for ovs-ofctl --bundle add-flows:
// all of them or none is done.
func Changes(from, to *pipeline.Pipeline) []string {
	name := func(p *pipeline.Pipeline, f *pipeline.Flow) string {
		return fmt.Sprintf("table=%s,%s", p.Names.FormatTable(f.Table), p.PrintMatch(f))
	}
	index := func(p *pipeline.Pipeline) map[string]string {
		out := map[string]string{}
		for _, f := range p.Flows {
			out[name(p, f)] = p.Print(f, pipeline.AsGiven)
		}
		return out
	}
	before, after := index(from), index(to)
	out := []string{}
	for _, f := range from.Flows {
		if k := name(from, f); after[k] == "" && before[k] != "" {
			out = append(out, "delete_strict "+k)
			delete(before, k)
		}
	}
	for _, f := range to.Flows {
		if k := name(to, f); after[k] != "" && after[k] != before[k] {
			out = append(out, "add "+after[k])
			delete(after, k)
		}
	}
	return out
}
