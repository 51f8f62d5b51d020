package network

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/lab/capability"
	"pathwise.dev/pathwise/internal/lab/rootless"
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
	// Family: a generic netlink family of the kernel.
	Family Kind = "netlink family"
	// Encap: a kind of encapsulation that the kernel gives to routes.
	Encap Kind = "route encapsulation"
	// Socket: an address family of sockets.
	Socket Kind = "socket family"
	// Congestion: a congestion control of TCP.
	Congestion Kind = "congestion control"
	// Hardware: a device that no kernel or package brings.
	Hardware Kind = "hardware"
	// File: a file or directory that must exist.
	File Kind = "file"
	// Root: the effective user must be root.
	Root Kind = "root"
	// MachineRoot: root of the machine, and not of a user namespace.
	MachineRoot Kind = "the machine's root"
	// Capability: a capability of Linux that root has, but not in every container.
	Capability Kind = "capability"
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

// NeedFamily needs a generic netlink family; option is the kernel's name of what brings it.
func NeedFamily(name, option string) Need { return Need{Family, name, "a kernel with " + option} }

// NeedEncap needs a kind of route encapsulation; option is the kernel's name of it.
func NeedEncap(name, option string) Need { return Need{Encap, name, "a kernel with " + option} }

// NeedSocket needs an address family of sockets; option is the kernel's name of it.
func NeedSocket(name, option string) Need { return Need{Socket, name, "a kernel with " + option} }

// NeedCongestion needs a congestion control of TCP.
func NeedCongestion(name string) Need {
	return Need{Congestion, name, "cat /proc/sys/net/ipv4/tcp_available_congestion_control shows those that are loaded"}
}

// SRIOV names the hardware that PhysicalFunctions looks for.
const SRIOV = "SR-IOV"

// NeedHardware needs hardware of that name; text says precisely which one to
// get. Of what Pathwise cannot look for there is none.
func NeedHardware(name, text string) Need { return Need{Hardware, name, text} }

// NeedRoot needs the effective user to be root.
func NeedRoot() Need { return Need{Root, "root", "run as root"} }

// NeedMachineRoot needs root of the machine, and not of a user namespace; why says for what.
func NeedMachineRoot(why string) Need {
	return Need{MachineRoot, "root", why + ": run as root, for example with sudo"}
}

// Missing is an unmet Need, with what to do.
type Missing struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
	Fix  string `json:"fix"`
}

func (m Missing) String() string {
	if m.Kind == MachineRoot {
		return fmt.Sprintf("%s (%s)", m.Kind, m.Fix)
	}
	if m.Kind == Root {
		return fmt.Sprintf("%s (%s)", m.Name, m.Fix)
	}
	return fmt.Sprintf("%s %s (%s)", m.Kind, m.Name, m.Fix)
}

// CannotRun says on one line what a network or workload lacks.
func CannotRun(what string, miss []Missing) error {
	var parts []string
	for _, m := range miss {
		parts = append(parts, m.String())
	}
	hint := ""
	if OnlyKernel(miss) {
		hint = "; another kernel may have it: see \"pathwise guest\""
	}
	return fmt.Errorf("%s cannot run here: missing %s%s", what, strings.Join(parts, "; "), hint)
}

// Machine answers whether needs are met on this machine.
type Machine struct {
	// CNIPath lists the directories of CNI plugins.
	CNIPath []string
	// sys is where sysfs is; for tests.
	sys string
	// asked holds the kernel's answers.
	asked map[Need]error
}

// NewMachine returns a Machine that looks for CNI plugins in cniPath.
func NewMachine(cniPath []string) *Machine {
	return &Machine{CNIPath: cniPath, sys: "/sys", asked: map[Need]error{}}
}

// Missing returns the needs that this machine does not meet. Where root lacks the
// capabilities for all that root and the kernel are to meet, that is said once.
func (m *Machine) Missing(needs []Need) []Missing {
	var out []Missing
	if lacks := m.lacks(); lacks != "" {
		privileged := func(n Need) bool { return n.Kind == Root || n.Kind.Kernel() }
		if slices.ContainsFunc(needs, privileged) {
			out = append(out, Missing{Capability, lacks, capability.Grant})
		}
		needs = slices.DeleteFunc(slices.Clone(needs), privileged)
	}
	for _, n := range needs {
		if fix := m.check(n); fix != "" {
			out = append(out, Missing{n.Kind, n.Name, fix})
		}
	}
	return out
}

// Uninstalled is the error of what is not installed of the needs: programs, plugins and
// congestion controls.
func (m *Machine) Uninstalled(what string, needs []Need) error {
	installed := []Kind{Program, Plugin, Congestion}
	needs = slices.DeleteFunc(slices.Clone(needs), func(n Need) bool { return !slices.Contains(installed, n.Kind) })
	if miss := m.Missing(needs); len(miss) > 0 {
		return CannotRun(what, miss)
	}
	return nil
}

// lacks names the capabilities that root lacks; "" for others, who lack more.
func (m *Machine) lacks() string {
	if os.Geteuid() != 0 {
		return ""
	}
	return capability.Lacking()
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
	case Link, Family, Encap, Socket:
		if os.Geteuid() != 0 {
			return "run as root to find out"
		}
		if err := m.ask(n); errors.Is(err, fs.ErrPermission) && rootless.Inside() {
			return fmt.Sprintf("run as root, for example with sudo: %v", err)
		} else if err != nil {
			return fmt.Sprintf("%s: %v", n.From, err)
		}
	case Congestion:
		if err := tryCongestion(n.Name); err != nil {
			return fmt.Sprintf("%s: %v", n.From, err)
		}
	case Hardware:
		if n.Name != SRIOV || len(PhysicalFunctions(m.sys)) == 0 {
			return n.From
		}
	case File:
		if _, err := os.Stat(n.Name); err != nil {
			return n.From
		}
	case MachineRoot:
		if os.Geteuid() != 0 || rootless.Inside() {
			return n.From
		}
	case Root:
		if os.Geteuid() != 0 {
			return n.From
		}
	}
	return ""
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
