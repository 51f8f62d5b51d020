package sandbox

import (
	"net/netip"
	"strings"
	"testing"
)

// multus is an annotation as Multus 4.2.3 wrote it of CNI 1.0.0 results of bridge and macvlan.
const multus = `[{"name":"podnet","interface":"eth0","ips":["10.244.1.4"],"mac":"0a:58:0a:f4:01:04","default":true,
"dns":{},"gateway":["\u003cnil\u003e"]},
{"name":"default/netb","interface":"net1","ips":["10.1.1.4","fd00::4"],"mac":"6e:01:02:03:04:05","dns":{},"gateway":["<nil>"]},
{"name":"shop/layer2","interface":"net2","mac":"6e:01:02:03:04:06","dns":{},
"device-info":{"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:18:02.5"}}}]`

func TestParseStatus(t *testing.T) {
	got, err := ParseStatus(multus)
	if err != nil || len(got) != 3 {
		t.Fatalf("%v, %v", got, err)
	}
	if d := got[0]; !d.Default || d.Network != Default || d.Dev != "eth0" || d.MAC.String() != "0a:58:0a:f4:01:04" ||
		len(d.Addrs) != 1 {
		t.Errorf("the default network: %+v", d)
	}
	if b := got[1]; b.Default || b.Network != "default/netb" || len(b.Addrs) != 2 ||
		b.Addrs[1] != netip.MustParseAddr("fd00::4") {
		t.Errorf("the second: %+v", b)
	}
	if l := got[2]; l.Network != "shop/layer2" || l.Addrs != nil {
		t.Errorf("the one without addresses: %+v", l)
	}
	for _, empty := range []string{"[]", "null"} {
		if got, err := ParseStatus(empty); err != nil || len(got) != 0 {
			t.Errorf("%s: %v, %v", empty, got, err)
		}
	}
}

func TestParseStatusRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                                 "read network-status",
		`{}`:                               "read network-status",
		`[{"name":""}]`:                    "entry 1: name",
		`[{"name":"../etc"}]`:              "entry 1: name",
		`[{"name":"a/b/c"}]`:               "entry 1: name",
		`[{"name":"default"}]`:             "it is not the default network",
		`[{"name":"n","interface":"a/b"}]`: "interface",
		`[{"name":"n","interface":"0123456789abcdef"}]`:               "interface",
		`[{"name":"n","interface":".."}]`:                             "interface",
		`[{"name":"n","ips":["10.0.0.1/24"]}]`:                        "ips",
		`[{"name":"n","ips":["<nil>"]}]`:                              "ips",
		`[{"name":"n","ips":["fe80::1%eth0"]}]`:                       "ips",
		`[{"name":"n","ips":["0.0.0.0"]}]`:                            "ips",
		`[{"name":"n","mac":"nil"}]`:                                  "mac",
		`[{"name":"n"},{"name":"n"}]`:                                 "entry 2: n, on , is there twice",
		`[{"name":"n","interface":"x"},{"name":"m","interface":"x"}]`: "twice",
		`[{"name":"n","default":true},{"name":"m","default":true}]`:   "twice",
		`[` + strings.Repeat(`{"name":"n"},`, 64) + `{"name":"n"}]`:   "65 entries",
		strings.Repeat(" ", mostStatus+1):                             "longer",
	} {
		if _, err := ParseStatus(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
}

// FuzzParseStatus: what is read is bounded, names no interface and no network twice, and its
// errors are short, on one line.
func FuzzParseStatus(f *testing.F) {
	f.Add(multus)
	f.Add(`[{"name":"n","ips":["::ffff:10.0.0.1"],"mac":"00:00:5e:00:53:01"}]`)
	f.Add(`[{"name":"` + strings.Repeat("x", 400) + `"}]`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseStatus(text)
		if err != nil {
			if len(err.Error()) > 1000 || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: error %q", text, err)
			}
			return
		}
		networks, devs := map[string]bool{}, map[string]bool{}
		for _, st := range got {
			if networks[st.Network] || st.Dev != "" && devs[st.Dev] || strings.Contains(st.Dev, "/") || st.Network == "" ||
				st.Default != (st.Network == Default) {
				t.Errorf("%q: %+v", text, st)
			}
			networks[st.Network], devs[st.Dev] = true, true
			for _, a := range st.Addrs {
				if !a.IsValid() || a.Is4In6() || a.Zone() != "" {
					t.Errorf("%q: address %v", text, a)
				}
			}
		}
	})
}
