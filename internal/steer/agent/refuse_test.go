package agent

import (
	"testing"

	"pathwise.dev/pathwise/internal/steer/dataplane"
	"pathwise.dev/pathwise/internal/steer/detect"
)

// TestOneGoesAhead: of connections that wait on the same path one leaves it to find out, and the
// others after it, unless nothing comes over the path.
func TestOneGoesAhead(t *testing.T) {
	a, p, _ := askedPair(t)
	now := a.cfg.Now()
	is := detect.Progress{Open: true, Waiting: true, Sent: 1000}
	p.inquiries = map[ports]*inquiry{}
	for port := range uint16(3) {
		q := &inquiry{pair: p, ports: ports{port, 80}, side: dataplane.Ours, begun: true,
			Detour: detect.NewDetour(a.pairs.params, p.routes[0].Index, is, now.Add(-ms))}
		p.inquiries[q.ports] = q
	}
	first, second, other := p.inquiries[ports{0, 80}], p.inquiries[ports{1, 80}], p.inquiries[ports{2, 80}]
	other.From = p.routes[1].Index
	check := func(what string, q *inquiry, want detect.Around) {
		t.Helper()
		if got := a.inquirer.around(q, is, now); got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	check("all wait", second, detect.Around{})
	first.Look(is, 1, []int{p.routes[1].Index}, now.Add(a.pairs.params.AckWithin))
	check("the first itself", first, detect.Around{})
	check("the first has left", second, detect.Around{Ahead: true})
	check("it was on another path", other, detect.Around{})
	p.lines[0].silence.Since = now.Add(-is.Deaf(a.pairs.params))
	p.lines[0].Refused() // echoes do not pass
	check("nothing comes", second, detect.Around{Ahead: true, Silent: true})
	now = now.Add(10 * a.pairs.params.AckWithin)
	check("it went long ago", second, detect.Around{Silent: true})
}
