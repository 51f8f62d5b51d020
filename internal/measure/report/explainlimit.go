package report

import (
	"pathwise.dev/pathwise/internal/explain"
)

// limitRows are what the counters of limits show.
func limitRows() []explainRow {
	share := func(name string, of func(explain.Finding) float64) explainRow {
		return explainRow{name, false, func(f explain.Finding) (string, bool) {
			v := of(f)
			return shareText(v), v >= 0.0005
		}}
	}
	stream := func(name string, of func(explain.Streams) float64) explainRow {
		return share(name, func(f explain.Finding) float64 {
			if f.Streams == nil {
				return 0
			}
			return of(*f.Streams)
		})
	}
	return []explainRow{
		share("of a queue's rate used", func(f explain.Finding) float64 { return mostUsed(f) }),
		stream("held by windows", func(s explain.Streams) float64 { v, _ := s.Held(); return v }),
		stream("held by send buffers", func(s explain.Streams) float64 { _, v := s.Held(); return v }),
		stream("segments sent again", explain.Streams.Resent),
	}
}

// mostUsed is the largest part of its rate that a queue let through.
func mostUsed(f explain.Finding) (most float64) {
	for _, q := range f.Limits.Queues {
		most = max(most, q.Use())
	}
	return most
}

// explainLimits writes the counters of limits as tidy data.
func explainLimits(row func(group, name, figure, unit string, v float64), f explain.Finding) {
	for _, q := range f.Limits.Queues {
		name := q.Kind + " " + q.Handle + " " + q.Dev + " " + string(q.Place)
		row("queue", name, "rate", "bit/s", q.Rate)
		row("queue", name, "use", "ratio", q.Use())
		row("queue", name, "overlimits", "1", float64(q.Over))
		row("queue", name, "dropped", "1", float64(q.Dropped))
	}
	for _, p := range f.Limits.Policers {
		name := "police " + string(p.Place)
		row("policer", name, "rate", "bit/s", p.Rate)
		row("policer", name, "packets", "1", float64(p.Packets))
		row("policer", name, "dropped", "1", float64(p.Dropped))
	}
	for _, d := range f.Limits.Drops {
		row("drop", d.Reason+" "+string(d.Place), "packets", "1", float64(d.Packets))
	}
	for _, d := range f.Limits.Datagrams {
		row("datagrams", string(d.Place), "received", "1", float64(d.Received))
		row("datagrams", string(d.Place), "no_room", "1", float64(d.NoRoom))
	}
	if s := f.Streams; s != nil {
		window, buffer := s.Held()
		row("streams", "all", "by_window", "ratio", window)
		row("streams", "all", "by_buffer", "ratio", buffer)
		row("streams", "all", "sent_again", "ratio", s.Resent())
		row("streams", "all", "rtt", "s", s.RTT)
		row("streams", "all", "min_rtt", "s", s.MinRTT)
		row("streams", "all", "receive_buffer", "B", s.Receive)
		row("streams", "all", "send_buffer", "B", s.Send)
	}
}
