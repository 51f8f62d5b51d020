package impair

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// FuzzOrders: orders are refused with a reason, or a packet goes on no earlier than
// it came and in bounded time: a line that panics loses all that it holds.
func FuzzOrders(f *testing.F) {
	f.Add(`{"in":{"delay_ns":1000000,"jitter_ns":1000,"reorder":0.5,"rate":1000000},"out":{}}`, 1500)
	f.Add(`{"in":{"jitter_ns":9223372036854775807}}`, 60)
	f.Add(`{"out":{"delay_ns":-1}}`, 60)
	f.Add(`{"out":{"rate":1}}`, 65535)
	f.Add(`{"stop":true}`, 0)
	f.Fuzz(func(t *testing.T, text string, size int) {
		o, err := readOrders(strings.NewReader(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "read orders: ") {
				t.Errorf("error without a place: %v", err)
			}
			return
		}
		size = max(0, min(size, 1<<16))
		for _, h := range []*Hold{o.In, o.Out} {
			if h == nil {
				continue
			}
			l := law{Hold: *h, rnd: rand.New(rand.NewPCG(1, 2))}
			for now := time.Duration(0); now < time.Second; now += 100 * time.Millisecond {
				// At 1 bit/s one packet takes the wire for a week.
				most := now + queueTime + 8*(1<<16)*time.Second + h.Delay + h.Jitter
				if due, ok := l.due(now, size); ok && (due < now-h.Jitter || due > most) {
					t.Fatalf("%s: came at %v, goes on at %v", text, now, due)
				}
			}
		}
	})
}
