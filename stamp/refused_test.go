package stamp

import (
	"reflect"
	"slices"
	"testing"
)

// TestRefusedIsComplete: each counter is among the refused, but for those that count something else.
func TestRefusedIsComplete(t *testing.T) {
	var r ReflectorCounters
	checkRefused(t, &r, func() map[string]uint64 { return r.Refused() }, "Received", "Reflected", "Delivered",
		"SendErrors", "Sessions")
	var s SenderCounters
	checkRefused(t, &s, func() map[string]uint64 { return s.Refused() }, "Received", "Accepted", "Late", "OddClock",
		"Lost")
}

func checkRefused(t *testing.T, counters any, refused func() map[string]uint64, others ...string) {
	t.Helper()
	v := reflect.ValueOf(counters).Elem()
	var want, got uint64
	for i := range v.NumField() {
		n := uint64(1) << i
		v.Field(i).SetUint(n)
		if !slices.Contains(others, v.Type().Field(i).Name) {
			want += n
		}
	}
	for _, n := range refused() {
		got += n
	}
	if got != want {
		t.Errorf("%T: %b are counted, want %b", counters, got, want)
	}
}
