package ovs

import (
	"testing"

	"pathwise.dev/pathwise/internal/lab/network"
)

const threads = `main thread:
  packets received: 10
  packet recirculations: 25
  avg. datapath passes per packet: 3.50
  phwol hits: 0
  emc hits: 30
pmd thread numa_id 0 core_id 1:
  packets received: 2
  packet recirculations: 0
`

const show = `system@ovs-system:
  lookups: hit:33 missed:2 lost:0
  flows: 4
  masks: hit:40 total:3 hit/pkt:1.14
  cache: hit:20 hit-rate:57.14%
  port 0: ovs-system (internal)
    RX packets:0 errors:0 dropped:0 overruns:0 frame:0
    TX packets:0 errors:0 dropped:0 aborted:0 carrier:0
  port 1: ovs0-1
    RX packets:10 errors:0 dropped:0 overruns:0 frame:0
    TX packets:9 errors:0 dropped:0 aborted:0 carrier:0
    collisions:0
    RX bytes:840  TX bytes:750
  port 2: sdn-vxlan0 (vxlan: packet_type=ptap)
    RX packets:? errors:? dropped:? overruns:? frame:?
`

func TestPassed(t *testing.T) {
	if p, err := parseThreads(threads); err != nil || p != (network.Passed{Packets: 12, Passes: 37}) {
		t.Errorf("threads: %+v, %v", p, err)
	}
	if p, err := parseShow(show); err != nil || p != (network.Passed{Packets: 10, Passes: 35}) {
		t.Errorf("show: %+v, %v", p, err)
	}
	for _, bad := range []string{"", "main thread:\n  packets received: many\n", "  lookups: hit:x missed:2 lost:0\n"} {
		if p, err := parseThreads(bad); err == nil {
			t.Errorf("threads: %q: %+v", bad, p)
		}
		if p, err := parseShow(bad); err == nil {
			t.Errorf("show: %q: %+v", bad, p)
		}
	}
}

func FuzzPassed(f *testing.F) {
	f.Add(threads)
	f.Add(show)
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = parseThreads(text)
		_, _ = parseShow(text)
	})
}
