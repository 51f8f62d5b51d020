package network

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMissingAsksTheKernel(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("asking the kernel needs root")
	}
	m := NewMachine(nil)
	met := []Need{NeedRoot(), NeedLink("veth", "CONFIG_VETH"), NeedLink("bridge", "CONFIG_BRIDGE"),
		NeedFamily("nlctrl", "CONFIG_NET")}
	if got := m.Missing(met); len(got) != 0 {
		t.Errorf("missing %v: every kernel that runs labs has these", got)
	}
	for _, n := range []Need{NeedLink("pw-none", "CONFIG_PW"), NeedFamily("pw_none", "CONFIG_PW"),
		NeedEncap("pw-none", "CONFIG_PW"), NeedSocket("pw-none", "CONFIG_PW")} {
		got := m.Missing([]Need{n})
		if len(got) != 1 || got[0].Kind != n.Kind || got[0].Name != n.Name ||
			!strings.HasPrefix(got[0].Fix, "a kernel with CONFIG_PW: ") {
			t.Errorf("%v: got %v", n, got)
		}
	}
}

// TestLinksAreAskedForWell: a refusal must be for want of the type, not because
// the question was put badly.
func TestLinksAreAskedForWell(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("asking the kernel needs root")
	}
	m := NewMachine(nil)
	for _, kind := range []string{"veth", "vxlan", "geneve", "gre", "gretap", "ipip", "wireguard", "ipvlan", "macvlan",
		"vlan", "dummy", "vrf"} {
		// EOPNOTSUPP is how the kernel says "unknown device type" (net/core/rtnetlink.c).
		if err := m.ask(NeedLink(kind, "")); err != nil && !strings.HasSuffix(err.Error(), "operation not supported") {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if err := m.ask(NeedEncap("seg6", "")); err != nil && !strings.HasSuffix(err.Error(), "operation not supported") {
		t.Errorf("seg6: %v", err)
	}
}

func TestHardwareIsLookedFor(t *testing.T) {
	root := t.TempDir()
	for dev, total := range map[string]string{"ens1f0": "64\n", "ens1f1": "0\n", "eth0": ""} {
		dir := filepath.Join(root, "class/net", dev, "device")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if total == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, "sriov_totalvfs"), []byte(total), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := PhysicalFunctions(root); !slices.Equal(got, []string{"ens1f0"}) {
		t.Errorf("got %v", got)
	}
	card := NeedHardware(SRIOV, "a card that splits")
	m := NewMachine(nil)
	m.sys = root
	if got := m.Missing([]Need{card}); len(got) != 0 {
		t.Errorf("missing %v, which is there", got)
	}
	m.sys = filepath.Join(root, "none")
	if got := m.Missing([]Need{card, NeedHardware("quantum link", "a quantum link")}); len(got) != 2 ||
		got[0].Fix != "a card that splits" {
		t.Errorf("got %v", got)
	}
}

func TestCongestionControlsAreAskedFor(t *testing.T) {
	m := NewMachine(nil)
	if got := m.Missing([]Need{NeedCongestion("cubic")}); len(got) != 0 {
		t.Errorf("missing %v: it is what Linux begins with", got)
	}
	if got := m.Missing([]Need{NeedCongestion("no-such-pace")}); len(got) != 1 || got[0].Kind != Congestion {
		t.Errorf("missing %v", got)
	}
}
