package topo

import (
	"net/netip"
	"strings"
	"testing"
)

func TestPodRange(t *testing.T) {
	for _, tc := range []struct {
		pods string
		i    int
		want string
	}{
		{"10.77.0.0/16", 0, "10.77.0.0/16"},
		{"10.77.0.0/16", 1, "10.78.0.0/16"},
		{"10.77.0.0/16", 200, "is exhausted"},
		{"11.0.0.0/16", 200, "11.200.0.0/16"},
		{"10.77.12.0/22", 2, "10.77.20.0/22"},
		{"255.254.0.0/16", 1, "255.255.0.0/16"},
		{"255.254.0.0/16", 2, "is exhausted"},
		{"0.0.0.0/0", 1, "is exhausted"},
		{"fd00::/64", 1, "expected an IPv4 range"},
	} {
		got, err := PodRange(netip.MustParsePrefix(tc.pods), tc.i)
		if err == nil && got.String() != tc.want || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("PodRange(%s, %d) = %v, %v, want %s", tc.pods, tc.i, got, err, tc.want)
		}
	}
}

func TestOn(t *testing.T) {
	p := Pod{Attachments: []Attachment{{Network: "a", Dev: "eth0"}, {Network: "b", Dev: "net1"}}}
	if a, ok := p.On("b"); !ok || a.Dev != "net1" {
		t.Errorf("got %v %v", a, ok)
	}
	if _, ok := p.On("c"); ok {
		t.Error("found an attachment that is not there")
	}
}

func TestPodBits(t *testing.T) {
	for pods, want := range map[int]int{0: 24, 1: 24, 253: 24, 254: 23, 509: 23, 510: 22, 1 << 20: 11} {
		if got := PodBits(pods); got != want {
			t.Errorf("PodBits(%d) = %d, want %d", pods, got, want)
		}
	}
	got, err := HostPods(DefaultPods(), 23, 64)
	if err != nil || got != netip.MustParsePrefix("10.77.128.0/23") {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := HostPods(DefaultPods(), 23, 128); err == nil ||
		!strings.Contains(err.Error(), "no /23 left for host 128") {
		t.Errorf("got %v", err)
	}
}
