package stamp

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// stampSuite is the program of the independent implementation, built if it is
// missing.
func stampSuite(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(root, "scripts/stamp-suite.sh")).CombinedOutput()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 3:
		t.Skipf("stamp-suite cannot be built here: %s", bytes.TrimSpace(out))
	case err != nil:
		t.Fatalf("scripts/stamp-suite.sh: %v: %s", err, out)
	}
	return filepath.Join(root, "bin/stamp-suite")
}

// output collects what a program writes, also while it runs.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func mustPort(addr string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(addr), port)
}

type interop struct {
	name   string
	addr   string
	keys   Keys
	format Format
}

func interops() []interop {
	one := Keys{Current: secret.Current}
	return []interop{
		{"open IPv4", "127.0.0.1", Keys{}, NTP},
		{"authenticated IPv4", "127.0.0.1", one, NTP},
		{"open IPv6 PTP", "::1", Keys{}, PTP},
		{"authenticated IPv6 PTP", "::1", one, PTP},
	}
}

// options are stamp-suite's for a case.
func (c interop) options() []string {
	o := []string{"--local-addr", c.addr, "--hwtstamp", "off", "--clock-source",
		map[Format]string{NTP: "NTP", PTP: "PTP"}[c.format]}
	if len(c.keys.Current) == 0 {
		return append(o, "-A", "O")
	}
	return append(o, "-A", "A", "--verify-tlv-hmac", "--hmac-key", hex.EncodeToString(c.keys.Current))
}

// TestInteropSender: our sender, stamp-suite's reflector.
func TestInteropSender(t *testing.T) {
	program := stampSuite(t)
	for _, c := range interops() {
		t.Run(c.name, func(t *testing.T) {
			ns := namespace(t, "pw-t-stamp-ss")
			var out output
			cmd := exec.Command(program, append(c.options(), "-i", "--local-port", "8620", "--stateful-reflector")...)
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := netns.Start(ns, cmd); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				if t.Failed() {
					t.Log(out.String())
				}
			})
			ready := func() bool { return strings.Contains(out.String(), "listening on") }
			for end := time.Now().Add(20 * time.Second); !ready() && time.Now().Before(end); {
				time.Sleep(5 * time.Millisecond)
			}
			l := &line{replies: make(chan Reply, 100), lost: make(chan Lost, 100)}
			probeThem(t, ns, c, l)
		})
	}
}

func probeThem(t *testing.T, ns string, c interop, l *line) {
	l.to = mustPort(c.addr, 8620)
	l.r = &Reflector{sessions: newSessions(1, time.Time{})} // for messages
	s, err := NewSender(listen(t, ns, mustPort(c.addr, 0).String()), SenderConfig{
		Keys: c.keys, Format: c.format, SameClock: true, Deadline: 5 * time.Second,
		OnReply: func(r Reply) { l.replies <- r }, OnLost: func(x Lost) { l.lost <- x },
	})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, s.Run)
	l.s = s
	for i := range uint32(20) {
		o := SendOptions{DSCP: 46, ECN: 1, ClassOfService: true, ReplyDSCP: 10, DirectMeasurement: true}
		if i%2 == 1 {
			o.Size, o.TLVs = 1400, []TLV{{Type: 250, Value: []byte("unknown to it")}} // it uses 240 to 247 for drafts
		}
		l.send(t, o)
		r := l.reply(t)
		sum := r.ForwardDelay + r.BackwardDelay + r.ReflectorProcessing - r.At.Sub(r.SentAt)
		if r.Seq != i || r.ReflectorSeq != i || r.RTT <= 0 || sum.Abs() > 100*time.Microsecond ||
			r.DSCPSeen != 46 || r.ECNSeen != 1 || r.ReplyDSCP != 10 || r.DSCPRefused || r.TTL != 64 {
			t.Errorf("%+v", r)
		}
		if r.Direct == nil || r.Direct.SenderSent != i+1 || r.Direct.ReflectorReceived != i+1 {
			t.Errorf("probe %d: direct measurement %+v", i, r.Direct)
		}
		if len(r.TLVs) != 0 {
			t.Errorf("probe %d: it claims to know our experimental type: %v", i, r.TLVs)
		}
	}
	if n := s.Counters(); n.Accepted != 20 || n.Received != 20 || n.ForgedTLV+n.BadTLV+n.OddClock != 0 {
		t.Errorf("%+v", n)
	}
}

// TestInteropReflector: stamp-suite's sender, our reflector.
func TestInteropReflector(t *testing.T) {
	program := stampSuite(t)
	for _, c := range interops() {
		t.Run(c.name, func(t *testing.T) {
			ns := namespace(t, "pw-t-stamp-sr")
			conn := listen(t, ns, mustPort(c.addr, 0).String())
			r, err := NewReflector(conn, ReflectorConfig{Keys: c.keys, Format: c.format})
			if err != nil {
				t.Fatal(err)
			}
			serve(t, r.Serve)
			var out, log output
			cmd := exec.Command(program, append(c.options(), "--remote-addr", c.addr, "--remote-port", portString(addrOf(conn)),
				"--count", "20", "--send-delay", "5ms", "--timeout", "5", "--output-format", "json", "--ssid", "42",
				"--cos", "--dscp", "46", "--direct-measurement", "--extra-padding", "200")...)
			cmd.Stdout, cmd.Stderr = &out, &log
			if err := netns.Start(ns, cmd); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v: %s", err, log.String())
			}
			checkTheirs(t, c, out.String())
			if n := r.Counters(); n.Reflected != 20 || n.Received != 20 || n.BadTLV+n.ForgedTLV != 0 || n.Sessions != 1 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// checkTheirs reads stamp-suite's summary.
func checkTheirs(t *testing.T, c interop, summary string) {
	t.Helper()
	type flags struct {
		Unrecognized    int `json:"unrecognized"`
		Malformed       int `json:"malformed"`
		IntegrityFailed int `json:"integrity_failed"`
	}
	var got struct {
		Received     int     `json:"packets_received"`
		Lost         int     `json:"packets_lost"`
		RTT          float64 `json:"min_rtt_ms"`
		Measurements struct {
			LastSeq    int `json:"last_reflector_sequence"`
			Unknown    int `json:"unknown_replies"`
			Validation struct {
				Rejected int `json:"rejected_replies"`
				HMAC     struct {
					Verified int `json:"verified"`
					Failed   int `json:"failed"`
				} `json:"hmac"`
				Flags  flags `json:"flags"`
				ByType map[string]struct {
					Observed int `json:"observed"`
				} `json:"by_type"`
			} `json:"tlv_validation"`
			Direct struct {
				Observations int `json:"observations"`
			} `json:"direct_measurement"`
		} `json:"measurements"`
		OWD struct {
			Samples int `json:"samples"`
		} `json:"owd"`
	}
	if err := json.Unmarshal([]byte(summary), &got); err != nil {
		t.Fatalf("%v: %s", err, summary)
	}
	m, v := got.Measurements, got.Measurements.Validation
	signed := 0
	if len(c.keys.Current) > 0 {
		signed = 20
	}
	if got.Received != 20 || got.Lost != 0 || got.RTT <= 0 || got.OWD.Samples != 20 || m.LastSeq != 19 || m.Unknown != 0 ||
		v.Rejected != 0 || v.HMAC.Verified != signed || v.HMAC.Failed != 0 || v.Flags != (flags{}) ||
		v.ByType["1"].Observed != 20 || v.ByType["4"].Observed != 20 || v.ByType["5"].Observed != 20 ||
		m.Direct.Observations != 20 {
		t.Errorf("%+v\n%s", got, summary)
	}
}
