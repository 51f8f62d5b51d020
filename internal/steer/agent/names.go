package agent

import (
	"fmt"
	"strings"

	"pathwise.dev/pathwise/internal/topo"
)

// CheckHost wants a host's name to be one: it becomes part of the names of sockets,
// locks and pins. Kubernetes' are DNS names (RFC 1123), which are.
func CheckHost(name string) error {
	if !isWord(name, "-_.", 253) {
		return fmt.Errorf("host name %q: expected letters, digits, inner dots, hyphens and underscores", name)
	}
	return nil
}

// isWord reports whether text is of ASCII letters, digits and, inside, of inner. It is
// no regular expression, as a cluster has tens of thousands of names.
func isWord(text, inner string, most int) bool {
	for i := range len(text) {
		c := text[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case i > 0 && i < len(text)-1 && strings.IndexByte(inner, c) >= 0:
		default:
			return false
		}
	}
	return text != "" && len(text) <= most
}

// check wants all names of the cluster that become paths to be such as cannot lead
// elsewhere, and what identifies hosts and pods to do so.
func (c Cluster) check() error {
	names, indexes, uids := map[string]bool{}, map[int]bool{}, map[string]bool{}
	for i, h := range c.Hosts {
		if err := CheckHost(h.Name); err != nil {
			return fmt.Errorf("hosts[%d]: %w", i, err)
		}
		if names[h.Name] || indexes[h.Index] {
			return fmt.Errorf("hosts[%d]: host %s or its index %d is there twice", i, h.Name, h.Index)
		}
		names[h.Name], indexes[h.Index] = true, true
	}
	for i, p := range c.Pods {
		if err := CheckPod(p); err != nil {
			return fmt.Errorf("pods[%d] (%q): %w", i, p.Name, err)
		}
		if p.UID != "" && uids[p.UID] {
			return fmt.Errorf("pods[%d] (%q): UID %s is there twice", i, p.Name, p.UID)
		}
		uids[p.UID] = true
	}
	return nil
}

// CheckPod wants the names of a pod that become paths to be such as cannot lead elsewhere.
func CheckPod(p topo.Pod) error {
	// Pods without one are not steered. A file on a BPF file system has no dot in its
	// name (bpf_lookup).
	if p.UID != "" && !isWord(p.UID, "-_", 128) {
		return fmt.Errorf("UID %q: expected letters, digits, inner hyphens and underscores", p.UID)
	}
	if p.Netns != "" && !isFile(p.Netns, 255) {
		return fmt.Errorf("netns %q: expected the name of a file in /run/netns", p.Netns)
	}
	for _, at := range p.Attachments {
		if !isDevice(at.Dev) {
			return fmt.Errorf("dev %q: expected the name of an interface", at.Dev)
		}
		// An address by the zone of one machine is the same address for the data plane, and
		// would be another one where those are looked for that several pods have.
		if at.Addr.Zone() != "" {
			return fmt.Errorf("addr %q: expected an address without a zone", at.Addr)
		}
		if strings.ContainsFunc(at.Network, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("network %q: expected a name without control characters", at.Network)
		}
	}
	return nil
}

// isFile reports whether name names a file in a directory, and none elsewhere.
func isFile(name string, most int) bool {
	return name != "" && len(name) <= most && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}

// isDevice is the kernel's dev_valid_name: interfaces have directories in sysfs and
// under /proc/sys/net.
func isDevice(name string) bool {
	return isFile(name, 15) && !strings.ContainsAny(name, ": \t\n\v\f\r")
}
