package bench

import (
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/measure/workload"
)

func TestParseSNMP6(t *testing.T) {
	const text = "Ip6InReceives                   \t7\nIp6OutRequests \t5\nIp6InOctets                     \t700\nIp6OutOctets \t65\nIp6InMcastOctets\t9\n"
	got, err := parseSNMP6(text)
	if err != nil || got != (counters{bytes: 765, packets: 12}) {
		t.Errorf("%+v, %v", got, err)
	}
	for bad, want := range map[string]string{"": "0 of 4", "Ip6InOctets 7\n": "1 of 4",
		"Ip6InOctets many\n": "Ip6InOctets"} {
		if _, err := parseSNMP6(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestPayloadOfTheOtherFamily: what was said to have been carried by IPv6 and was not.
func TestPayloadOfTheOtherFamily(t *testing.T) {
	for carried, refused := range map[uint64]bool{0: true, 400: true, 900: false, 1100: false} {
		m := &meter{devices: []device{{}}, before: []counters{{bytes: 50, packets: 1}},
			then: []counters{{bytes: 50 + carried, packets: 1 + carried/100}}}
		m.devices[0].Name = "IPv6"
		if why := m.crossed(workload.Outcome{Bytes: 1000}); (why != "") != refused || refused &&
			!strings.Contains(why, "IPv6") {
			t.Errorf("%d bytes: %q", carried, why)
		}
	}
}
