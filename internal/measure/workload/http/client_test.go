package http

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
)

const size = 1000

// serve answers with handle on a loopback port.
func serve(t *testing.T, handle http.HandlerFunc) netip.AddrPort {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).AddrPort()
}

func whole(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", strconv.Itoa(size))
	w.Header().Set("Server", "test")
	_, _ = w.Write(make([]byte, size))
}

// generate runs the client and returns what it counted.
func generate(t *testing.T, o Offer) (Count, error) {
	t.Helper()
	now, err := program.Monotonic()
	if err != nil {
		t.Fatal(err)
	}
	o.Size, o.Begin = size, now+100*time.Millisecond
	if o.Duration == 0 {
		o.Duration = 300 * time.Millisecond
	}
	var b bytes.Buffer
	if err := Generate(t.Context(), &b, o); err != nil {
		if b.Len() > 0 {
			t.Errorf("failed and printed %q", b.String())
		}
		return Count{}, err
	}
	c, err := parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return c, nil
}

func TestCountsWholeAnswers(t *testing.T) {
	var asked atomic.Int64
	target := serve(t, func(w http.ResponseWriter, r *http.Request) { asked.Add(1); whole(w, r) })
	for _, o := range []Offer{{Connections: 4}, {Connections: 4, Close: true}, {Connections: 4, Rate: 500},
		{Connections: 4, Rate: 100, Close: true}} {
		asked.Store(0)
		o.Target = target
		c, err := generate(t, o)
		if err != nil || c.Failed != 0 || c.Operations == 0 || c.Bytes != size*c.Operations || c.Server != "test" {
			t.Errorf("%+v: %+v, %v", o, c, err)
		}
		if n := asked.Load(); n < c.Operations {
			t.Errorf("%+v: counted %d answers to %d requests", o, c.Operations, n)
		}
	}
}

// TestRateCountsWhatWasDue: at a constant rate as many requests begin in the
// window as were due in it, whatever the server does meanwhile, and those that a
// slow answer held up were slow too.
func TestRateCountsWhatWasDue(t *testing.T) {
	const stall = 300 * time.Millisecond
	var n atomic.Int64
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 150 {
			time.Sleep(stall)
		}
		whole(w, r)
	})
	o := Offer{Target: target, Connections: 1, Rate: 1000, Duration: 800 * time.Millisecond}
	c, err := generate(t, o)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Operations + c.Failed; got < 799 || got > 801 {
		t.Errorf("%d requests counted, 800 were due", got)
	}
	slow := 0
	for p := 0.5; p < 100; p++ {
		if c.Latency.Percentile(p) > stall.Seconds()/2 {
			slow++
		}
	}
	if slow < 15 { // of 100: those due in the stall's first half, 150 of 800
		t.Errorf("%d %% of the latencies show the stall", slow)
	}
}

// TestRateBeyondTheServer: what was due and could not begin is counted.
func TestRateBeyondTheServer(t *testing.T) {
	target := serve(t, func(w http.ResponseWriter, r *http.Request) { time.Sleep(5 * time.Millisecond); whole(w, r) })
	c, err := generate(t, Offer{Target: target, Connections: 1, Rate: 1000, Duration: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Operations + c.Failed; c.Unsent == 0 || c.Failure == "" || got < 499 || got > 501 {
		t.Errorf("%+v: 500 were due", c)
	}
}

func TestSaysWhatWentWrong(t *testing.T) {
	var n atomic.Int64
	for _, tc := range []struct {
		name, want string
		handle     http.HandlerFunc
	}{
		{"error", `"500 Internal Server Error"`, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }},
		{"other object", "Content-Length", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "short") }},
		{"silent", "no answer within", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		{"torn", "before its answer was complete", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(size))
			_, _ = w.Write(make([]byte, size/2))
			panic(http.ErrAbortHandler)
		}},
		{"now and then", "", func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1)%2 == 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			whole(w, r)
		}},
	} {
		for _, shut := range []bool{false, true} {
			c, err := generate(t, Offer{Target: serve(t, tc.handle), Connections: 2, Close: shut})
			switch {
			case tc.want == "" && (err != nil || c.Failed == 0 || c.Operations == 0 || !strings.Contains(c.Failure, "503")):
				t.Errorf("%s: %+v, %v", tc.name, c, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
			}
		}
	}
}

func TestStartsInTimeOrNotAtAll(t *testing.T) {
	err := Generate(t.Context(), &bytes.Buffer{}, Offer{Target: netip.MustParseAddrPort("127.0.0.1:1"), Connections: 1,
		Begin: 1, Duration: 1})
	if err == nil || !strings.Contains(err.Error(), "too busy") {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"operations":1,"latency":""}`))
	f.Add([]byte(`{"operations":1,"failed":1,"unsent":2}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if c, err := parse(raw); err == nil && (c.Operations < 1 || c.Latency.Count() != c.Operations ||
			c.Unsent > c.Failed) {
			t.Errorf("accepted %+v", c)
		}
	})
}
