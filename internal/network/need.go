package network

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/netns"
)

// Kind of a Need.
type Kind string

// Kinds of needs.
const (
	// Program: an executable on PATH.
	Program Kind = "program"
	// Plugin: a CNI plugin in the CNI path.
	Plugin Kind = "plugin"
	// Link: a kernel device type.
	Link Kind = "link"
	// File: a file or directory that must exist.
	File Kind = "file"
	// Root: the effective user must be root.
	Root Kind = "root"
)

// Need is one thing that a network or workload requires of the machine.
type Need struct {
	Kind Kind
	Name string
	// From says what brings it: a Debian package, a make target, a kernel option.
	From string
}

// NeedProgram needs an executable; from is the Debian package that brings it.
func NeedProgram(name, from string) Need {
	return Need{Program, name, "apt-get install " + from}
}

// NeedPlugin needs a CNI plugin that "make build" brings.
func NeedPlugin(name string) Need { return Need{Plugin, name, "make plugins"} }

// NeedLink needs a kernel device type; option is the kernel's name of it.
func NeedLink(kind, option string) Need { return Need{Link, kind, "a kernel with " + option} }

// NeedRoot needs the effective user to be root.
func NeedRoot() Need { return Need{Root, "root", "run as root"} }

// Missing is an unmet Need, with what to do.
type Missing struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
	Fix  string `json:"fix"`
}

func (m Missing) String() string {
	if m.Kind == Root {
		return fmt.Sprintf("%s (%s)", m.Name, m.Fix)
	}
	return fmt.Sprintf("%s %s (%s)", m.Kind, m.Name, m.Fix)
}

// Machine answers whether needs are met on this machine.
type Machine struct {
	// CNIPath lists the directories of CNI plugins.
	CNIPath []string
	links   map[string]error
}

// NewMachine returns a Machine that looks for CNI plugins in cniPath.
func NewMachine(cniPath []string) *Machine {
	return &Machine{CNIPath: cniPath, links: map[string]error{}}
}

// Missing returns the needs that this machine does not meet.
func (m *Machine) Missing(needs []Need) []Missing {
	var out []Missing
	for _, n := range needs {
		if fix := m.check(n); fix != "" {
			out = append(out, Missing{n.Kind, n.Name, fix})
		}
	}
	return out
}

// check returns what to do about an unmet need, "" for a met one.
func (m *Machine) check(n Need) string {
	switch n.Kind {
	case Program:
		if _, err := FindProgram(n.Name); err != nil {
			return n.From
		}
	case Plugin:
		if FindPlugin(n.Name, m.CNIPath) == "" {
			return n.From + ", or set CNI_PATH"
		}
	case Link:
		if os.Geteuid() != 0 {
			return "run as root to find out"
		}
		if err := m.link(n.Name); err != nil {
			return fmt.Sprintf("%s: %v", n.From, err)
		}
	case File:
		if _, err := os.Stat(n.Name); err != nil {
			return n.From
		}
	case Root:
		if os.Geteuid() != 0 {
			return n.From
		}
	}
	return ""
}

// link tries to create a device of the type in a namespace that goes with the
// try: the kernel's own answer, where a list of modules would be a guess.
func (m *Machine) link(kind string) error {
	if err, ok := m.links[kind]; ok {
		return err
	}
	err := netns.Throwaway(func() error { return tryLink(kind) })
	m.links[kind] = err
	return err
}

func tryLink(kind string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "pw-try"
	var link netlink.Link
	switch kind {
	case "veth":
		link = &netlink.Veth{LinkAttrs: attrs, PeerName: "pw-try2"}
	case "vxlan":
		link = &netlink.Vxlan{LinkAttrs: attrs, VxlanId: 1, Port: 4789}
	case "macvlan", "ipvlan", "vlan":
		return tryChild(kind, attrs)
	case "tun":
		_, err := os.Stat("/dev/net/tun")
		return err
	default:
		link = &netlink.GenericLink{LinkAttrs: attrs, LinkType: kind}
	}
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("ip link add type %s: %w", kind, err)
	}
	return nil
}

// tryChild creates a device that stands on another one.
func tryChild(kind string, attrs netlink.LinkAttrs) error {
	parent := netlink.NewLinkAttrs()
	parent.Name = "pw-parent"
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: parent, PeerName: "pw-peer"}); err != nil {
		return fmt.Errorf("ip link add type veth: %w", err)
	}
	p, err := netlink.LinkByName(parent.Name)
	if err != nil {
		return fmt.Errorf("find %s: %w", parent.Name, err)
	}
	attrs.ParentIndex = p.Attrs().Index
	var link netlink.Link
	switch kind {
	case "macvlan":
		link = &netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}
	case "ipvlan":
		link = &netlink.IPVlan{LinkAttrs: attrs, Mode: netlink.IPVLAN_MODE_L2}
	default:
		link = &netlink.Vlan{LinkAttrs: attrs, VlanId: 7}
	}
	if err := netlink.LinkAdd(link); err != nil {
		return fmt.Errorf("ip link add type %s: %w", kind, err)
	}
	return nil
}

// FindPlugin returns the path of a CNI plugin, "" if it is in none of dirs.
func FindPlugin(name string, dirs []string) string {
	if strings.ContainsRune(name, filepath.Separator) {
		return ""
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}

// FindProgram returns the path of a program on PATH or in the system
// directories, which a PATH without sbin leaves out.
func FindProgram(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	system := []string{"/usr/local/sbin", "/usr/sbin", "/sbin"}
	if i := slices.IndexFunc(system, func(dir string) bool { return FindPlugin(name, []string{dir}) != "" }); i >= 0 {
		return filepath.Join(system[i], name), nil
	}
	return "", fmt.Errorf("find program %s: %w", name, err)
}
