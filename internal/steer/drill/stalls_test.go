package drill

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// A counter is found by its name, whatever is in front of it.
func TestCounter(t *testing.T) {
	const text = "TcpExt: SyncookiesSent TCPOrigDataSent Last\nTcpExt: 1 42 3\nIpExt: TCPOrigDataSent\nIpExt: 7\n"
	if n, err := counter(text, "TcpExt:", "TCPOrigDataSent"); n != 42 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	for _, bad := range []string{"", "TcpExt: TCPOrigDataSent\n", "TcpExt: A\nTcpExt: 1\n"} {
		if n, err := counter(bad, "TcpExt:", "TCPOrigDataSent"); !errors.Is(err, errNoCounter) {
			t.Errorf("%q: %d, %v", bad, n, err)
		}
	}
	if _, err := counter("TcpExt: A\nTcpExt: x\n", "TcpExt:", "A"); err == nil {
		t.Error("a word was taken for a number")
	}
}

// The longest silence of a sender is told, up to the end if it is not over by then.
func TestSilence(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stop, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		d, err := silence(os.Getpid(), stop)
		if err != nil {
			t.Error(err)
		}
		longest <- d
	}()
	for range 40 { // others on this machine's loopback may speak too: that makes silences shorter alone
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	close(stop)
	if d := <-longest; d <= 0 || d > 2*time.Second {
		t.Errorf("%v", d)
	}
	if _, err := silence(-1, stop); err == nil {
		t.Error("nobody has sent")
	}
}

// Each program has its own figures for each fault.
func TestProgramsFigures(t *testing.T) {
	o := Options{Programs: []string{"wrk", "nginx"}, Faults: []string{"both", "pod"}}
	all := []Sample{{Variant: "wrk both", Values: map[string]float64{"stall_s": 0.03, "detected_s": 0.02}},
		{Variant: "wrk both", Values: map[string]float64{"stall_s": 0.3, "detected_s": 0.04}},
		{Variant: "wrk both", Values: map[string]float64{"stall_s": 0.03, "detected_s": 0}},
		{Variant: "nginx pod", Values: map[string]float64{"stall_s": 0.05, "detected_s": 0}},
		{Variant: "wrk pod", Values: map[string]float64{"stall_s": 6}}, {Variant: "nginx both", Error: "broken"}}
	got := programsFigures(o, all)
	if len(got) != 6 || got[0].N != 3 || !got[0].Met() || got[1].Met() || got[2].Met() || !got[4].Met() || !got[5].Met() ||
		got[0].Note != "detected after 30.0 ms (median); 1 of 3 found by the other end's agent" ||
		got[2].Note != "no failover of the pair: single connections at most were moved" ||
		got[4].Note != "found by the other end's agent" {
		t.Errorf("%+v", got)
	}
}
