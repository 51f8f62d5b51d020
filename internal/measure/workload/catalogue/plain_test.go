package catalogue_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"syscall"
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

// TestMain is the plain server where its address and size are in the environment. The server
// has a process of its own, as those of the workloads have: on a busy machine each hand-over
// to another process waits for a CPU, which goroutines of one process do not.
func TestMain(m *testing.M) {
	var p plain
	var at string
	if n, _ := fmt.Sscan(os.Getenv(plainServer), &at, &p.size); n == 2 {
		p.serve(at)
		return
	}
	os.Exit(m.Run())
}

const plainServer = "PATHWISE_TEST_PLAIN_SERVER"

// serve answers until the process is killed.
func (p plain) serve(at string) {
	l, err := (&net.ListenConfig{Control: socket.Control(workload.Congestion)}).Listen(context.Background(), "tcp", at)
	if err != nil {
		panic(err)
	}
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

// start starts the server in its pod, until the test ends.
func (p plain) start(t *testing.T, g *testbed.Ground) (at string) {
	t.Helper()
	at = netip.AddrPortFrom(g.Pairs[0].Server.Addr(), 7201).String()
	server := exec.Command(os.Args[0])
	server.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", plainServer, at, p.size))
	server.Stderr = os.Stderr
	// A child has the namespace of the thread that starts it.
	if err := g.Do(g.Pairs[0].Server, server.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait() // it was killed
	})
	return at
}

// run is the times of the answers.
func (p plain) run(t *testing.T, g *testbed.Ground, to string, d time.Duration) *sample.Histogram {
	t.Helper()
	sum := sample.NewHistogram()
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range p.connections {
		var c net.Conn
		err := g.Do(g.Pairs[0].Client, func() (err error) {
			c, err = dial(to)
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

// dial connects to the server once it listens.
func dial(to string) (c net.Conn, err error) {
	dialer := net.Dialer{Control: socket.Control(workload.Congestion)}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if c, err = dialer.DialContext(context.Background(), "tcp", to); !errors.Is(err, syscall.ECONNREFUSED) {
			return c, err
		}
	}
	return nil, err
}

// TestLatencyIsThePlainClients: no generator, nor the server that it asks, adds to latency
// what a client and a server without any craft do not have: pacing, corking, delayed
// acknowledgements, all of which take milliseconds; one is no fault, as MongoDB's driver takes
// half of it for what it does itself, and more on a busy machine. The bound is generous
// where a CPU is waited for; of several rounds, which other programs may disturb, the best
// counts.
func TestLatencyIsThePlainClients(t *testing.T) {
	const rounds, window, times, floor = 12, 400 * time.Millisecond, 5, time.Millisecond
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
			at := tc.start(t, g)
			var tails []time.Duration
			for range rounds {
				want := seconds(tc.run(t, g, at, window).Percentile(99))
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
