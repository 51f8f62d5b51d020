package catalogue_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/measure/workload/socket"
	"pathwise.dev/pathwise/internal/measure/workload/testbed"
	"pathwise.dev/pathwise/internal/sample"
)

// plain is a client and a server without any craft, written for this test: a goroutine for
// each connection asks by a line for an answer of a size, reads it whole, and pauses.
type plain struct {
	connections, size int
	// pause of a connection between requests.
	pause time.Duration
}

// serve answers between the pods until the listener is closed.
func (p plain) serve(l net.Listener) {
	body := make([]byte, p.size)
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			for r := bufio.NewReader(c); ; {
				if _, err := r.ReadString('\n'); err != nil {
					return
				}
				if _, err := c.Write(body); err != nil {
					return
				}
			}
		}()
	}
}

// run is the times of the answers.
func (p plain) run(t *testing.T, g *testbed.Ground, d time.Duration) *sample.Histogram {
	t.Helper()
	control := socket.Control(workload.Congestion)
	to := netip.AddrPortFrom(g.Pairs[0].Server.Addr(), 7201).String()
	var l net.Listener
	err := g.Do(g.Pairs[0].Server, func() (err error) {
		lc := net.ListenConfig{Control: control}
		l, err = lc.Listen(t.Context(), "tcp", to)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go p.serve(l)
	sum := sample.NewHistogram()
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range p.connections {
		var c net.Conn
		err := g.Do(g.Pairs[0].Client, func() (err error) {
			dialer := net.Dialer{Control: control}
			c, err = dialer.DialContext(context.Background(), "tcp", to)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer c.Close()
			h := sample.NewHistogram()
			answer := make([]byte, p.size)
			time.Sleep(p.pause * time.Duration(i) / time.Duration(p.connections)) // not all at once
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(p.pause) {
				begun := time.Now()
				if _, err := io.WriteString(c, "go\n"); err != nil {
					t.Error(err)
					return
				}
				if _, err := io.ReadFull(c, answer); err != nil {
					t.Error(err)
					return
				}
				h.Record(time.Since(begun))
			}
			mu.Lock()
			defer mu.Unlock()
			sum.Merge(h)
		})
	}
	all.Wait()
	return sum
}

// TestLatencyIsThePlainClients: no generator, nor the server that it asks, adds to latency
// what a client and a server without any craft do not have: pacing, corking, delayed
// acknowledgements, all of which take milliseconds; one is no fault, as MongoDB's driver takes
// half of it for what it does itself, and more on a busy machine. The bound is generous
// where a CPU is waited for; of several rounds, which other programs may disturb, the best
// counts.
func TestLatencyIsThePlainClients(t *testing.T) {
	const rounds, window, times, floor = 6, 400 * time.Millisecond, 5, time.Millisecond
	self := build(t)
	all := map[string]workload.Workload{}
	for _, w := range present(self) {
		all[w.Info().Name] = w
	}
	for _, tc := range []struct {
		name string
		load sample.Load
		plain
	}{
		{"http", sample.Load{Connections: 50, Size: 10 << 10, Rate: 1000}, plain{50, 10 << 10, 50 * time.Millisecond}},
		{"http", sample.Load{Connections: 20, Size: 100 << 10, Rate: 200}, plain{20, 100 << 10, 100 * time.Millisecond}},
		{"http-close", sample.Load{Connections: 20, Size: 10 << 10, Rate: 400}, plain{20, 10 << 10, 50 * time.Millisecond}},
		{"tcp-rr", sample.Load{Connections: 1, Size: 1}, plain{1, 1, 0}},
		{"tcp-rr", sample.Load{Connections: 4, Size: 10 << 10}, plain{4, 10 << 10, 0}},
		{"mongo-insert-empty", sample.Load{Connections: 1}, plain{1, 100, 0}},
		{"loaded-latency", sample.Load{Connections: 1}, plain{1, 64, 0}},
	} {
		w, ok := all[tc.name]
		if !ok {
			t.Fatalf("no workload %s", tc.name)
		}
		l := w.Info().Fill(tc.load)
		t.Run(tc.name+"/"+l.String(), func(t *testing.T) {
			g := bed(t, 1, self)
			var tails []time.Duration
			for range rounds {
				want := seconds(tc.run(t, g, window).Percentile(99))
				out, err := w.Run(t.Context(), g.Bed(), l, workload.Window{Warmup: 200 * time.Millisecond, Duration: window},
					&testbed.Meter{})
				if err != nil {
					t.Fatal(err)
				}
				name := sample.LatencyP99
				if tc.name == "loaded-latency" {
					name = sample.LatencyIdle // the median of the idle path: alongside streams, queues are what it measures
				}
				got := seconds(out.Metrics[name])
				tails = append(tails, got, want)
				if got <= max(times*want, floor) {
					t.Logf("%v, a plain client %v", got, want)
					return
				}
			}
			t.Errorf("p99 in turn with a plain client's, more than %d times as long in all rounds: %v", times, tails)
		})
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
