package network

import (
	"strings"
	"testing"
)

func TestParseList(t *testing.T) {
	for _, tc := range []struct{ find, path, route, name, want string }{
		{"cni:a/10-mine.conflist", "a/10-mine.conflist", "", "cni-10-mine", ""},
		{"cni:/etc/cni/net.d/x.conf?route=bgp", "/etc/cni/net.d/x.conf", "bgp", "cni-x-bgp", ""},
		{"cni:x?route=static", "x", "static", "cni-x-static", ""},
		{"cni:", "", "", "", `"cni:" names no file: expected cni:FILE`},
		{"cni:x?route=ospf", "", "", "", `unknown route "ospf": expected static or bgp`},
		{"cni:x?rout=static", "", "", "", "expected route=static or route=bgp"},
		{"cni:x?", "", "", "", "expected route=static or route=bgp"},
		{"cni:x?route=static&route=bgp", "", "", "", "expected route=static or route=bgp"},
	} {
		l, ok, err := ParseList(tc.find)
		switch {
		case !ok:
			t.Errorf("%s is no list", tc.find)
		case tc.want != "":
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, want %s", tc.find, err, tc.want)
			}
		case err != nil || l.Path != tc.path || string(l.Route) != tc.route || l.Name() != tc.name || l.String() != tc.find:
			t.Errorf("%s: got %+v, %s, %v", tc.find, l, l.Name(), err)
		}
	}
	if _, ok, err := ParseList("bridge"); ok || err != nil {
		t.Errorf("bridge: %v %v", ok, err)
	}
}
