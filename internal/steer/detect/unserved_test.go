package detect

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestUnserved: a port that answers nowhere is asked about less and less, and a scan of many ports not at all.
func TestUnserved(t *testing.T) {
	var u Unserved
	params := Pairs()
	first := params.UnservedFirst
	tcp := func(port uint16) Service { return Service{unix.IPPROTO_TCP, port} }
	now := time.Unix(1e9, 0)
	for _, want := range []time.Duration{first, 2 * first, 4 * first} {
		if u.Bars(&params, tcp(80), now) {
			t.Fatalf("barred before %v", want)
		}
		u.Add(&params, tcp(80), now)
		if !u.Bars(&params, tcp(80), now.Add(want-1)) || u.Bars(&params, tcp(80), now.Add(want)) ||
			u.Bars(&params, tcp(81), now) {
			t.Errorf("expected a pause of %v for one port", want)
		}
		now = now.Add(want)
	}
	for port := range uint16(params.UnservedServices) {
		u.Add(&params, tcp(1000+port), now)
	}
	if !u.Bars(&params, tcp(81), now) {
		t.Error("a scan is not seen")
	}
	now = now.Add(time.Hour)
	if u.Bars(&params, tcp(81), now) {
		t.Error("a scan bars all others for ever")
	}
	u.Add(&params, tcp(80), now)
	if u.Bars(&params, tcp(81), now) || len(u) != 1 {
		t.Errorf("%d ports are kept for ever", len(u))
	}
}
