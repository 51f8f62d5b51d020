package limit

import (
	"encoding/binary"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/vishvananda/netlink/nl"

	"pathwise.dev/pathwise/internal/lab/sockdiag"
)

// attribute is a struct rtattr with padding.
func attribute(kind uint16, body []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(body)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), body...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func join(parts ...[]byte) (out []byte) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func words(v ...uint32) (out []byte) {
	for _, w := range v {
		out = binary.NativeEndian.AppendUint32(out, w)
	}
	return out
}

// action is one as the kernel lists it; a policer of 25 MB/s that saw 900 packets,
// dropped 30 and counted 31 over its rate.
func action(kind string, index uint32, rate uint32) []byte {
	police := join(words(index, 2, 0, 1000, 2047), make([]byte, 8), words(rate), make([]byte, 12), words(1, 1, 0))
	return join(attribute(nl.TCA_ACT_KIND, append([]byte(kind), 0)),
		attribute(nl.TCA_ACT_STATS, join(
			attribute(nl.TCA_STATS_BASIC, join(binary.NativeEndian.AppendUint64(nil, 1e6), words(900, 0))),
			attribute(nl.TCA_STATS_QUEUE, words(0, 0, 30, 0, 31)))),
		attribute(nl.TCA_ACT_OPTIONS|0x8000, attribute(nl.TCA_POLICE_TBF, police)))
}

func message(actions ...[]byte) []byte {
	var list []byte
	for i, a := range actions {
		list = append(list, attribute(uint16(i+1), a)...)
	}
	return append(make([]byte, tcaMessage), attribute(nl.TCA_ACT_TAB, list)...)
}

func TestParsePolicers(t *testing.T) {
	got, err := parsePolicers(message(action("police", 7, 25e6), action("gact", 8, 1)))
	if want := (policer{rate: 200e6, packets: 900, over: 31, drops: 30}); err != nil || len(got) != 1 || got[7] != want {
		t.Errorf("got %+v, %v", got, err)
	}
	for name, raw := range map[string][]byte{"short": {0}, "size": append(make([]byte, 4), 200, 0, 1, 0),
		"no size": append(make([]byte, 4), 1, 0, 1, 0)} {
		if got, err := parsePolicers(raw); err == nil {
			t.Errorf("%s: accepted as %+v", name, got)
		}
	}
}

func FuzzParsePolicers(f *testing.F) {
	f.Add(message(action("police", 7, 25e6)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := parsePolicers(raw)
		if err != nil && len(got) > 0 && len(raw) < tcaMessage {
			t.Errorf("%+v and %v", got, err)
		}
	})
}

const snmp = `Ip: Forwarding DefaultTTL
Ip: 1 64
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors
Udp: 120 3 9 40 9 0 0
UdpLite: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors
UdpLite: 5 5 5 5 5 5
`

const snmp6 = "Ip6InReceives                   \t44\nUdp6InDatagrams                 \t30\nUdp6RcvbufErrors                \t2\nUdpLite6InDatagrams \t4\n"

func TestParseDatagrams(t *testing.T) {
	for text, want := range map[string]datagrams{snmp: {120, 9}, snmp6: {30, 2}, "": {}} {
		if got, err := parseDatagrams([]byte(text)); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	for _, text := range []string{"Udp: InDatagrams NoPorts\nUdp: x 1\n", "Udp: InDatagrams NoPorts\nUdp: 1 2 3\n",
		"Udp6InDatagrams -1\n"} {
		if got, err := parseDatagrams([]byte(text)); err == nil {
			t.Errorf("%q: accepted as %+v", text, got)
		}
	}
}

func FuzzParseDatagrams(f *testing.F) {
	f.Add([]byte(snmp))
	f.Add([]byte(snmp6))
	f.Fuzz(func(_ *testing.T, raw []byte) { _, _ = parseDatagrams(raw) })
}

func TestProcesses(t *testing.T) {
	all, err := processes()
	if err != nil {
		t.Error(err)
	}
	if p, ok := all[os.Getpid()]; !ok || !p.program || p.parent != os.Getppid() {
		t.Errorf("this process: %+v", p)
	}
}

func TestSpent(t *testing.T) {
	if got := spent(map[int]ticks{1: 100, 2: 50, 3: 9}, map[int]ticks{1: 150, 2: 40, 4: 25}); got != 0.75 {
		t.Errorf("got %v: 1 used 50 ticks, 2 is another process by that number, 3 has ended, 4 is new with 25", got)
	}
}

func TestStrangers(t *testing.T) {
	got := strangers(map[int]process{1: {0, 5, true}, 2: {0, 7, false}, 10: {1, 1, true}, 11: {10, 2, true},
		12: {11, 3, true}, 20: {1, 4, true}, 30: {31, 6, true}, 31: {30, 8, true}}, 10)
	if len(got) != 4 || got[1] != 5 || got[20] != 4 || got[30] != 6 || got[31] != 8 {
		t.Errorf("got %v: 10 and its children are ours, 2 is the kernel's", got)
	}
}

// TestHost: a child's time is no stranger's.
func TestHost(t *testing.T) {
	a, err := ReadHost()
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done").Run(); err != nil {
		t.Fatal(err)
	}
	z, err := ReadHost()
	if err != nil {
		t.Fatal(err)
	}
	if h := a.Until(z); h == nil || h.Others < 0 || h.Others > 1.5 || h.Idle < 0 || len(z.used) == 0 {
		t.Errorf("got %+v", h)
	}
	if _, ok := z.used[os.Getpid()]; ok {
		t.Error("this process is a stranger")
	}
}

// TestFlow: a connection that was there counts from the window's begin, one that was
// opened in it from its own; buffers that a program has set do not grow.
func TestFlow(t *testing.T) {
	pods := []pod{{send: [2]float64{16384, 4e6}, receive: [2]float64{131072, 6e6}},
		{send: [2]float64{16384, 4e6}, receive: [2]float64{131072, 6e6}}}
	begin := time.Unix(100, 0)
	f := &seen{pod: 0, begin: begin, last: begin.Add(2 * time.Second), send: 87040, receive: 131072,
		first: sockdiag.Socket{BytesAcked: 1000, Busy: time.Second, SegmentsOut: 10, Retransmits: 1},
		now: sockdiag.Socket{BytesAcked: 9000, Busy: 3 * time.Second, ByWindow: time.Second, SegmentsOut: 30,
			Retransmits: 4, MaxPacing: 1e6, Window: 10, SegmentSize: 1448, MinRTT: time.Millisecond}}
	peer := &seen{pod: 1, receive: 4608}
	e, ok := f.flow(pods, peer)
	if !ok || e.Seconds != 2 || e.Bytes != 8000 || e.Busy != 2 || e.ByWindow != 1 || e.Segments != 20 || e.Again != 3 ||
		e.Pacing != 8e6 ||
		e.Send != 87040 || e.SendMost != 4e6 || e.Receive != 4608 || e.ReceiveMost != 4608 || e.Congestion != 14480 ||
		e.MinRTT != 1e-3 {
		t.Errorf("got %+v", e)
	}
	f.now.MaxPacing = 1<<64 - 1
	if e, _ := f.flow(pods, nil); e.Pacing != 0 || e.Receive != 0 {
		t.Errorf("got %+v", e)
	}
	f.now.BytesAcked = 1000
	if e, ok := f.flow(pods, nil); ok {
		t.Errorf("sent nothing: %+v", e)
	}
}
