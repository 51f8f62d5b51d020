package conflist

import (
	"net/netip"
	"testing"
)

// TestWithin: a part of any size gives all its addresses but the first and the last, in
// both IP families.
func TestWithin(t *testing.T) {
	for part, want := range map[string][4]string{
		"10.77.1.0/24": {"10.77.1.1", "10.77.1.254", "fd70:7077:a4d::101", "fd70:7077:a4d::1fe"},
		"10.77.2.0/23": {"10.77.2.1", "10.77.3.254", "fd70:7077:a4d::201", "fd70:7077:a4d::3fe"},
		"10.77.8.0/21": {"10.77.8.1", "10.77.15.254", "fd70:7077:a4d::801", "fd70:7077:a4d::ffe"},
		"10.77.9.8/29": {"10.77.9.9", "10.77.9.14", "fd70:7077:a4d::909", "fd70:7077:a4d::90e"},
	} {
		r := Within(netip.MustParsePrefix("10.77.0.0/16"), netip.MustParsePrefix(part))
		six := r.six()
		if got := [4]string{r.First.String(), r.Last.String(), six.First.String(), six.Last.String()}; got != want ||
			six.Subnet.String() != "fd70:7077:a4d::/64" {
			t.Errorf("%s: %v of %v", part, got, six.Subnet)
		}
	}
}
