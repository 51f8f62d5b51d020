package custom

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

func load(t testing.TB, text string) (*Network, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.conflist")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return Load("x", network.List{Path: path})
}

const good = `{"cniVersion":"1.0.0","name":"x","plugins":[{"type":"macvlan","master":"${DEV}",
	"ipam":{"type":"host-local","ranges":[[{"subnet":"${SUBNET}"}]]}},{"type":"tuning"}]}`

func TestLoadRefusesWhatIsNoList(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"{\n\n  \"name\": x}", "x.conflist:3: not a CNI configuration list: invalid character"},
		{"", "not a CNI configuration list: the file is empty"},
		{"\xef\xbb\xbf" + good, "not a CNI configuration list: it begins with a byte order mark"},
		{"[]", "not a CNI configuration list: expected an object"},
		{"5", "not a CNI configuration list: expected an object"},
		{"null", "not a CNI configuration list: expected an object"},
		{`{"cniVersion":"1.0.0","name":"x"}`, "expected at least one plugin"},
		{`{"cniVersion":"1.0.0","name":"x","plugins":[]}`, "no plugins in list"},
		{`{"cniVersion":"1.0.0","name":"x","plugins":[{}]}`, "not a CNI configuration list"},
		{`{"cniVersion":"1.0.0","plugins":[{"type":"a"}]}`, "not a CNI configuration list"},
	} {
		if _, err := load(t, tc.text); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: got %v, want %s", tc.text, err, tc.want)
		}
	}
}

func TestBuildFillsInTheHost(t *testing.T) {
	n, err := load(t, good)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, need := range n.Info().Needs[1:] {
		names = append(names, need.Name)
	}
	if got := strings.Join(names, " "); got != "macvlan host-local macvlan tuning" {
		t.Errorf("needs %s", got)
	}
	host := topo.Host{Index: 2, Dev: "eth0", Pods: topo.DefaultPods()}
	plug, err := n.Build(t.Context(), network.Site{Hosts: []topo.Host{host}, Dir: "/lab"})
	if err != nil || !plug.Delete {
		t.Fatalf("plug %+v, %v", plug, err)
	}
	raw, err := plug.Conflist(t.Context(), topo.Pod{Host: 2})
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for _, want := range []string{`"master":"eth0"`, `"subnet":"10.77.0.0/16"`, `"dataDir":"/lab/ipam"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %s", text, want)
		}
	}
}

// TestSpanningVirtualMachines: a list whose hosts need nothing of one another can
// have hosts in virtual machines; of others it is said why not.
func TestSpanningVirtualMachines(t *testing.T) {
	list := func(plugin, ipam string) string {
		return `{"cniVersion":"1.0.0","name":"x","plugins":[{"type":"` + plugin + `","ipam":` + ipam + `},{"type":"tuning"}]}`
	}
	for name, tc := range map[string]struct{ text, want string }{
		"own range":   {good, ""},
		"own part":    {list("macvlan", `{"type":"host-local","ranges":[[{"subnet":"${PODS}","rangeStart":"10.77.${HOST}.1"}]]}`), ""},
		"own address": {list("bridge", `{"type":"static","addresses":[{"address":"10.77.0.${HOST}/16"}]}`), ""},
		"none":        {list("bridge", `{}`), ""},
		"shared range": {list("macvlan", `{"type":"host-local","ranges":[[{"subnet":"${PODS}"}]]}`),
			"its host-local gives the same addresses on every host"},
		"a daemon": {list("macvlan", `{"type":"dhcp"}`), "IPAM plugin dhcp"},
		"other hardware": {list("host-device", `{"type":"host-local","ranges":[[{"subnet":"${SUBNET}"}]]}`),
			"its plugin host-device"},
		"unknown": {list("calico", `{"type":"host-local","ranges":[[{"subnet":"${SUBNET}"}]]}`), "its plugin calico"},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := load(t, tc.text)
			if err != nil {
				t.Fatal(err)
			}
			if got := n.Info().OneKernel; got != tc.want && (tc.want == "" || !strings.Contains(got, tc.want)) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if got := n.Info().Find; !strings.HasPrefix(got, "cni:/") {
				t.Errorf("found by %q", got)
			}
		})
	}
}

// manifest has one configuration in which Multus takes the name from the object.
const manifest = `# a comment
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: fast, namespace: shop}
spec:
  config: '{"cniVersion":"0.3.1","plugins":[{"type":"macvlan","master":"${DEV}",
    "ipam":{"type":"host-local","subnet":"${SUBNET}"}},{"type":"tuning"}]}'
`

// TestLoadTakesManifests: users of Multus have their lists in NetworkAttachmentDefinitions.
func TestLoadTakesManifests(t *testing.T) {
	const other = "\n---\nkind: ConfigMap\ndata: {a: NetworkAttachmentDefinition}\nspec: {config: {b: c}}\n"
	named := func(name string) string { return strings.Replace(manifest, "name: fast", "name: "+name, 1) }
	for name, tc := range map[string]struct{ text, want, err string }{
		"one":          {manifest, "fast", ""},
		"among others": {manifest + other, "fast", ""},
		"as kubectl": {`{"kind":"List","items":[{"kind":"NetworkAttachmentDefinition","metadata":{"name":"k"},` +
			`"spec":{"config":"{\"cniVersion\":\"0.3.1\",\"type\":\"ptp\"}"}}]}`, "k", ""},
		"its own name": {strings.Replace(manifest, `"cniVersion"`, `"name":"own","cniVersion"`, 1), "own", ""},
		"two": {manifest + "---\n" + named("slow"), "",
			"expected one NetworkAttachmentDefinition in the file, there are 2: fast, slow"},
		"empty": {"kind: NetworkAttachmentDefinition\nmetadata: {name: e}\n", "",
			"NetworkAttachmentDefinition e has no spec.config"},
		"no text": {"kind: NetworkAttachmentDefinition\nmetadata: {name: e}\nspec: {config: {a: b}}\n", "",
			"key spec.config: expected a text"},
		"no JSON":      {strings.Replace(manifest, `{"cni`, `{'"cni`, 1), "", "x.conflist: "},
		"none of them": {"kind: ConfigMap # NetworkAttachmentDefinition\n", "", "not a CNI configuration list"},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := load(t, tc.text)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want %s", err, tc.err)
				}
				return
			}
			if err != nil || n.first.Name != tc.want {
				t.Errorf("got %v, %v, want the name %s", n, err, tc.want)
			}
		})
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(good)
	f.Add(manifest)
	f.Add(`{"cniVersion":"1.0.0","name":"x","plugins":[{"type":"a","ipam":[]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		n, err := load(t, text)
		if err != nil {
			return
		}
		n.Info()
		list, err := n.conf(network.Site{Hosts: []topo.Host{{Index: 1}}, Dir: "/lab"}, topo.Host{Index: 1})
		if err == nil && len(list.Plugins) == 0 {
			t.Errorf("built %q", list.Bytes)
		}
	})
}
