package custom

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// list is one that a test says in few words.
func list(plugins ...string) string {
	return `{"cniVersion":"1.0.0","name":"x","plugins":[` + strings.Join(plugins, ",") + `]}`
}

const (
	shared = `"ipam":{"type":"host-local","subnet":"10.1.0.0/16"}`
	own    = `"ipam":{"type":"host-local","ranges":[[{"subnet":"10.9.${HOST}.0/24"}]]}`
)

func loadRouted(t testing.TB, text string, r network.Route) (*Network, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.conflist")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return Load("x", network.List{Path: path, Route: r})
}

// TestWhereListsReach: on one host and on two, with a part of the reason where not.
func TestWhereListsReach(t *testing.T) {
	for name, tc := range map[string]struct {
		text, route, one, two string
	}{
		"ptp":            {list(`{"type":"ptp",` + shared + `}`), "", "", "ask for routes"},
		"bridge":         {list(`{"type":"bridge",`+own+`}`, `{"type":"portmap"}`), "", "", "ask for routes by cni:"},
		"routed bridge":  {list(`{"type":"bridge","isGateway":true,` + shared + `}`), "bgp", "", ""},
		"bridge without": {list(`{"type":"bridge",` + shared + `}`), "static", "", "expected isGateway: true"},
		"bridge and own": {list(`{"type":"bridge",`+shared+`}`, `{"type":"mine"}`), "", "", ""},
		"macvlan":        {list(`{"type":"macvlan","master":"eth0",` + shared + `}`), "", "", ""},
		"macvlan of ens5": {list(`{"type":"macvlan","master":"ens5",` + shared + `}`), "", "its master ens5",
			"its master ens5"},
		"private": {list(`{"type":"macvlan","mode":"private",` + shared + `}`), "",
			"keeps pods of one host apart", ""},
		"passthru": {list(`{"type":"macvlan","mode":"passthru",` + shared + `}`), "", "to one pod alone", ""},
		"vlan": {list(`{"type":"vlan","master":"${DEV}","vlanId":5,` + shared + `}`), "",
			"to one pod alone", ""},
		"ipvlan layer 3": {list(`{"type":"ipvlan","mode":"l3",` + shared + `}`), "", "", "ask for routes"},
		"fixed": {list(`{"type":"bridge","ipam":{"type":"static","addresses":[{"address":"10.1.0.2/24"}]}}`), "",
			"expected ${POD}", "expected ${HOST}"},
		"fixed on its host": {list(`{"type":"macvlan","ipam":{"type":"static","addresses":[{"address":"10.1.0.${HOST}/24"}]}}`), "", "expected ${POD}", ""},
		"one each":          {list(`{"type":"macvlan","ipam":{"type":"static","addresses":[{"address":"10.1.${HOST}.${POD}/16"}]}}`), "", "", ""},
		"no addresses": {list(`{"type":"bridge","ipam":{"type":"static"}}`), "", "its static has no addresses",
			"its static has no addresses"},
		"no ipam":  {list(`{"type":"bridge"}`), "", "expected the key ipam", "expected the key ipam"},
		"dhcp":     {list(`{"type":"macvlan","ipam":{"type":"dhcp"}}`), "", "DHCP server", "DHCP server"},
		"dummy":    {list(`{"type":"dummy",` + shared + `}`), "", "leads nowhere", "leads nowhere"},
		"tap":      {list(`{"type":"tap",` + shared + `}`), "", "hypervisor's", "hypervisor's"},
		"loopback": {list(`{"type":"loopback"}`), "", "loopback", "loopback"},
		"card": {list(`{"type":"host-device","pciBusID":"0000:3d:00.1",` + shared + `}`), "", "names a card",
			"names a card"},
		"device": {list(`{"type":"host-device","device":"enp0s1",` + shared + `}`), "", "", ""},
		"one MAC": {list(`{"type":"bridge",`+shared+`}`, `{"type":"tuning","mac":"c2:b0:57:49:47:f1"}`), "",
			"the same MAC address", "ask for routes"},
		"one MAC on all hosts": {list(`{"type":"macvlan","mac":"c2:b0:57:49:47:f1",` + shared + `}`), "",
			"expected ${POD}", "expected ${HOST}"},
		"a MAC each": {list(`{"type":"macvlan",`+shared+`}`,
			`{"type":"tuning","mac":"c2:b0:57:49:0${HOST}:0${POD}"}`), "", "", ""},
		"one MAC, routed": {list(`{"type":"ptp",`+shared+`}`,
			`{"type":"tuning","mac":"c2:b0:57:49:47:f1"}`), "static", "", ""},
		"flannel": {list(`{"type":"flannel","subnetFile":"/nowhere/subnet.env"}`, `{"type":"portmap"}`), "",
			"reads /nowhere/subnet.env, which flanneld writes", "expected flannel-vxlan"},
		"unknown": {list(`{"type":"calico","ipam":{"type":"calico-ipam"}}`), "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := loadRouted(t, tc.text, network.Route(tc.route))
			if err != nil {
				t.Fatal(err)
			}
			info := n.Info()
			for p, want := range map[topo.Placement]string{topo.OneHost: tc.one, topo.TwoHosts: tc.two} {
				ok, why := info.Supports(p)
				if ok != (want == "") || !strings.Contains(why, want) {
					t.Errorf("%s: got %v %q, want %q", p, ok, why, want)
				}
			}
			if info.Closed {
				t.Error("it is taken for a network that carries nothing by design")
			}
		})
	}
}

func TestRoutesThatAreRefused(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"macvlan": {list(`{"type":"macvlan",` + shared + `}`), "route=static: its plugin macvlan puts pods on the underlay itself"},
		"unknown": {list(`{"type":"mine","ipam":{"type":"whereabouts"}}`), "its addresses are given by whereabouts"},
		"nothing": {list(`{"type":"mine"}`), "no ipam that names ranges"},
		"overlaps": {list(
			`{"type":"ptp","ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/16","rangeStart":"10.1.${HOST}.1"}]]}}`), "overlapping ranges 10.1.0.0/16 and 10.1.0.0/16"},
	} {
		if _, err := loadRouted(t, tc.text, network.RouteStatic); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %s", name, err, tc.want)
		}
	}
}

// TestRoutedHostsHaveTheirOwnRanges: a list that is the same on all hosts gets ranges
// of their own and routes to the others; one that differs is left as it is.
func TestRoutedHostsHaveTheirOwnRanges(t *testing.T) {
	dual := `{"type":"host-local","dataDir":"/run/x","ranges":[[{"subnet":"10.244.0.0/24"}],[{"subnet":"fd00:10:244::/64"}]]}`
	for name, tc := range map[string]struct {
		text  string
		want  []string
		not   string
		given []int
	}{
		"shared": {list(`{"type":"ptp",` + shared + `}`), []string{`"subnet":"10.77.1.0/24"`, `{"dst":"10.77.0.0/16"}`},
			"10.1.0.0", []int{4}},
		"dual": {list(`{"type":"ptp","ipam":` + dual + `}`),
			[]string{`"subnet":"10.77.1.0/24"`, `"subnet":"fd70:7077:a4d:100::/64"`,
				`{"dst":"fd70:7077:a4d::/48"}`, `"dataDir":"/tmp/ipam/run/x"`}, "244", []int{4, 6}},
		"route by a gateway": {list(`{"type":"ptp","ipam":{"type":"host-local","subnet":"10.0.10.0/24","routes":[{"dst":"1.1.1.1/32","gw":"10.0.10.1"},{"dst":"2.2.2.2/32","gw":"192.0.2.1"}]}}`),
			[]string{`{"dst":"1.1.1.1/32"}`, `{"dst":"2.2.2.2/32","gw":"192.0.2.1"}`}, "10.0.10", []int{4}},
		"own": {list(`{"type":"ptp",` + own + `}`), []string{`"subnet":"10.9.1.0/24"`}, "10.77", []int{4}},
		"a plugin alone": {`{"cniVersion":"0.4.0","name":"x","type":"bridge","isDefaultGateway":true,` + shared + `}`,
			[]string{`"plugins":[{`, `"subnet":"10.77.1.0/24"`, `"cniVersion":"0.4.0"`}, `"routes"`, []int{4}},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := loadRouted(t, tc.text, network.RouteStatic)
			if err != nil {
				t.Fatal(err)
			}
			text := string(n.first.Bytes)
			for _, want := range tc.want {
				if !strings.Contains(text, want) {
					t.Errorf("%s lacks %s", text, want)
				}
			}
			if strings.Contains(text, tc.not) {
				t.Errorf("%s has %s", text, tc.not)
			}
			if got := n.Info().Families; !slices.Equal(got, tc.given) {
				t.Errorf("families %v, want %v", got, tc.given)
			}
		})
	}
}

// TestNumbersAreKept: bandwidth's rates are larger than a float64 is exact.
func TestNumbersAreKept(t *testing.T) {
	n, err := load(t, list(`{"type":"bandwidth","ingressRate":18446744073709551615}`))
	if err != nil || !strings.Contains(string(n.first.Bytes), "18446744073709551615") {
		t.Errorf("%v", err)
	}
}
