package cni_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// namespaces makes a host and a pod that go with the test.
func namespaces(t *testing.T, names ...string) {
	t.Helper()
	if err := netns.Prepare(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		var errs []error
		for _, name := range names {
			errs = append(errs, netns.Delete(name))
		}
		if err := errors.Join(append(errs, netns.Release())...); err != nil {
			t.Error(err)
		}
	})
	for _, name := range names {
		if err := netns.Create(name); err != nil {
			t.Fatal(err)
		}
	}
}

// config is pathwise-cni's configuration with the given networks, wrapped in
// the list that a runtime reads.
func config(t *testing.T, dir string, attachments ...map[string]any) *libcni.NetworkConfigList {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"cniVersion": "1.0.0", "name": "multi", "plugins": []any{
		map[string]any{"type": "pathwise-cni", "cacheDir": filepath.Join(dir, "inner"), "attachments": attachments}}})
	if err != nil {
		t.Fatal(err)
	}
	list, err := libcni.ConfListFromBytes(raw)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// bridged is one attachment to a bridge network.
func bridged(dir, name, subnet string) map[string]any {
	return map[string]any{"conflist": map[string]any{"cniVersion": "1.0.0", "name": name, "plugins": []any{
		map[string]any{"type": "bridge", "bridge": name, "isGateway": true,
			"ipam": map[string]any{"type": "host-local", "dataDir": filepath.Join(dir, "ipam"),
				"ranges": []any{[]any{map[string]any{"subnet": subnet}}}}}}}}
}

func bin(t *testing.T) []string {
	t.Helper()
	dir, err := filepath.Abs("../../../bin")
	if err != nil {
		t.Fatal(err)
	}
	return []string{dir, filepath.Join(dir, "cni")}
}

// TestAttachesToEveryNetwork runs the built plugin through libcni, as a runtime does.
func TestAttachesToEveryNetwork(t *testing.T) {
	namespaces(t, "pw-t-cni-h", "pw-t-cni-p")
	dir := t.TempDir()
	cni := libcni.NewCNIConfigWithCacheDir(bin(t), filepath.Join(dir, "outer"), nil)
	list := config(t, dir, bridged(dir, "pwa", "10.91.1.0/24"), bridged(dir, "pwb", "10.91.2.0/24"))
	rt := &libcni.RuntimeConf{ContainerID: "t", NetNS: netns.Path("pw-t-cni-p"), IfName: "eth0"}
	host := func(fn func() error) {
		t.Helper()
		if err := netns.Do("pw-t-cni-h", fn); err != nil {
			t.Fatal(err)
		}
	}
	host(func() error {
		res, err := cni.AddNetworkList(context.Background(), list, rt)
		if err != nil {
			return err
		}
		r, err := types100.NewResultFromResult(res)
		if err != nil {
			return err
		}
		if len(r.IPs) != 2 || len(r.Interfaces) != 6 || r.Interfaces[*r.IPs[1].Interface].Name != "net1" {
			t.Errorf("result %+v", r)
		}
		return cni.CheckNetworkList(context.Background(), list, rt)
	})
	if got := devices(t, "pw-t-cni-p"); got != "lo eth0 net1" {
		t.Errorf("the pod has %s", got)
	}
	want := "7701: from 10.91.2.2 lookup 7701|unreachable default|10.91.2.0/24 dev net1 scope link src 10.91.2.2"
	if got := routing(t, "pw-t-cni-p"); got != want {
		t.Errorf("net1's own routing:\ngot  %s\nwant %s", got, want)
	}
	host(func() error { return cni.DelNetworkList(context.Background(), list, rt) })
	host(func() error { return cni.DelNetworkList(context.Background(), list, rt) }) // twice is no error
	if got := routing(t, "pw-t-cni-p"); got != "" {
		t.Errorf("after DEL the pod's routing has %s", got)
	}
	if got := devices(t, "pw-t-cni-p"); got != "lo" {
		t.Errorf("after DEL the pod has %s", got)
	}
	leases, err := filepath.Glob(filepath.Join(dir, "ipam", "*", "10.*"))
	if err != nil || len(leases) > 0 {
		t.Errorf("leases left: %v %v", leases, err)
	}
}

// TestAttachesToAllOrNone: when the second network fails, the first is detached.
func TestAttachesToAllOrNone(t *testing.T) {
	namespaces(t, "pw-t-cnx-h", "pw-t-cnx-p")
	dir := t.TempDir()
	cni := libcni.NewCNIConfigWithCacheDir(bin(t), filepath.Join(dir, "outer"), nil)
	broken := bridged(dir, "pwb", "10.91.2.0/24")
	broken["conflist"].(map[string]any)["plugins"] = []any{map[string]any{"type": "macvlan", "master": "nowhere"}}
	list := config(t, dir, bridged(dir, "pwa", "10.91.1.0/24"), broken)
	rt := &libcni.RuntimeConf{ContainerID: "t", NetNS: netns.Path("pw-t-cnx-p"), IfName: "eth0"}
	err := netns.Do("pw-t-cnx-h", func() error {
		_, err := cni.AddNetworkList(context.Background(), list, rt)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "attach net1 to pwb") {
		t.Errorf("got %v", err)
	}
	if got := devices(t, "pw-t-cnx-p"); got != "lo" {
		t.Errorf("the pod has %s", got)
	}
}

// TestRefusesTwoDefaultRoutes: the kernel would take them as one route of two
// ways, and send half of what leaves the pod by the second network.
func TestRefusesTwoDefaultRoutes(t *testing.T) {
	namespaces(t, "pw-t-cnd-h", "pw-t-cnd-p")
	dir := t.TempDir()
	client := libcni.NewCNIConfigWithCacheDir(bin(t), filepath.Join(dir, "outer"), nil)
	a, b := bridged(dir, "pwa", "10.91.1.0/24"), bridged(dir, "pwb", "10.91.2.0/24")
	for _, x := range []map[string]any{a, b} {
		x["conflist"].(map[string]any)["plugins"].([]any)[0].(map[string]any)["isDefaultGateway"] = true
	}
	rt := &libcni.RuntimeConf{ContainerID: "t", NetNS: netns.Path("pw-t-cnd-p"), IfName: "eth0"}
	err := netns.Do("pw-t-cnd-h", func() error {
		_, err := client.AddNetworkList(context.Background(), config(t, dir, a, b), rt)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "attach net1 to pwb") {
		t.Errorf("got %v", err)
	}
	if got := devices(t, "pw-t-cnd-p"); got != "lo" {
		t.Errorf("the pod has %s", got)
	}
}

// routing is what a namespace has in rules and tables of ours.
func routing(t *testing.T, ns string) string {
	t.Helper()
	var out []string
	err := netns.Do(ns, func() error {
		for _, argv := range [][]string{{"rule", "show", "pref", "7701"}, {"route", "show", "table", "7701"}} {
			raw, err := exec.Command("ip", argv...).Output()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) { // no such table is none
				return err
			}
			for line := range strings.Lines(string(raw)) {
				out = append(out, strings.Join(strings.Fields(line), " "))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, "|")
}

func TestRefusesBadConfigurations(t *testing.T) {
	namespaces(t, "pw-t-cnb-p")
	dir := t.TempDir()
	cni := libcni.NewCNIConfigWithCacheDir(bin(t), filepath.Join(dir, "outer"), nil)
	rt := &libcni.RuntimeConf{ContainerID: "t", NetNS: netns.Path("pw-t-cnb-p"), IfName: "eth0"}
	for _, tc := range []struct {
		want        string
		attachments []map[string]any
	}{
		{"attachments: expected at least one network", nil},
		{`attachments[1].ifName: "eth0" is given twice`,
			[]map[string]any{bridged(dir, "a", "10.91.1.0/24"), {"ifName": "eth0", "conflist": map[string]any{}}}},
		{"attachments[0].conflist", []map[string]any{{"conflist": map[string]any{"name": "x"}}}},
	} {
		_, err := cni.AddNetworkList(context.Background(), config(t, dir, tc.attachments...), rt)
		var told *types.Error
		if !errors.As(err, &told) || told.Code != types.ErrInvalidNetworkConfig || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got %v, want code %d and %s", err, types.ErrInvalidNetworkConfig, tc.want)
		}
	}
}

// devices names the interfaces in a namespace.
func devices(t *testing.T, ns string) string {
	t.Helper()
	var out []string
	err := netns.Do(ns, func() error {
		all, err := net.Interfaces()
		for _, d := range all {
			out = append(out, d.Name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}
