package pipeline

import (
	"fmt"
	"slices"
	"strings"
)

// Print is a flow as ovs-ofctl --no-stats dump-flows writes it.
func (p *Pipeline) Print(f *Flow, v Version) string {
	w := printer{Pipeline: p, version: v}
	if f.Cookie != 0 {
		fmt.Fprintf(&w, "cookie=%#x, ", f.Cookie)
	}
	if f.Table != 0 {
		fmt.Fprintf(&w, "table=%s, ", p.Names.FormatTable(f.Table))
	}
	if f.IdleTimeout != 0 {
		fmt.Fprintf(&w, "idle_timeout=%d, ", f.IdleTimeout)
	}
	if f.HardTimeout != 0 {
		fmt.Fprintf(&w, "hard_timeout=%d, ", f.HardTimeout)
	}
	for _, flag := range []string{"send_flow_rem", "check_overlap", "reset_counts", "no_packet_counts", "no_byte_counts"} {
		if slices.Contains(f.Flags, flag) && v != OpenFlow10 {
			w.WriteString(flag + " ")
		}
	}
	if f.Importance != 0 && v != OpenFlow10 {
		fmt.Fprintf(&w, "importance=%d, ", f.Importance)
	}
	m := p.PrintMatch(f)
	w.WriteString(m)
	if m != "" {
		w.WriteString(" ")
	}
	w.WriteString("actions=")
	w.actions(f.Actions)
	return w.String()
}

// PrintMatch is a flow's priority and match.
func (p *Pipeline) PrintMatch(f *Flow) string {
	w := printer{Pipeline: p}
	w.match(f.Match, f.Priority)
	if len(f.Carried) > 0 {
		if w.Len() > 0 {
			w.WriteString(",")
		}
		w.WriteString(strings.Join(f.Carried, ","))
	}
	return w.String()
}

// PrintActions is a list of actions.
func (p *Pipeline) PrintActions(list []Action) string {
	w := printer{Pipeline: p}
	w.actions(list)
	return w.String()
}

// PrintTerms is a match, or a packet, without a priority.
func (p *Pipeline) PrintTerms(m Match) string {
	w := printer{Pipeline: p}
	w.match(m, DefaultPriority)
	return w.String()
}
