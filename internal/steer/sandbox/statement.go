package sandbox

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Annotation is where Multus says what a pod is attached to (Network Plumbing Working Group,
// Kubernetes Network Custom Resource Definition De-facto Standard, version 1, section 5).
const Annotation = "k8s.v1.cni.cncf.io/network-status"

// Bounds of an annotation: the API server takes 256 KiB for all of an object's.
const (
	mostStatus      = 256 << 10
	mostAttachments = 64
	mostAddrs       = 16
)

// Statement is what the annotation says of one attachment.
type Statement struct {
	Network string // namespace/name of the attachment's definition
	Dev     string // "": not said
	Addrs   []netip.Addr
	MAC     net.HardwareAddr // nil: not said
	Default bool
}

// status is one entry of the annotation. It has more keys, which say nothing that is to be
// believed or needed: results of CNI 1.0.0 carry no MTU, and "<nil>" as a gateway.
type status struct {
	Name      string   `json:"name"`
	Interface string   `json:"interface"`
	IPs       []string `json:"ips"`
	MAC       string   `json:"mac"`
	Default   bool     `json:"default"`
}

// ParseStatus reads the annotation. It says one thing of each interface, and of each network.
func ParseStatus(text string) ([]Statement, error) {
	if len(text) > mostStatus {
		return nil, fmt.Errorf("network-status is longer than %d bytes", mostStatus)
	}
	var all []status
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("read network-status: %w", err)
	}
	if len(all) > mostAttachments {
		return nil, fmt.Errorf("network-status has %d entries: expected at most %d", len(all), mostAttachments)
	}
	out := make([]Statement, 0, len(all))
	for i, s := range all {
		st, err := s.parse()
		if err != nil {
			return nil, fmt.Errorf("network-status, entry %d: %w", i+1, err)
		}
		if slices.ContainsFunc(out, st.repeats) {
			return nil, fmt.Errorf("network-status, entry %d: %s, on %s, is there twice", i+1, st.Network, st.Dev)
		}
		out = append(out, st)
	}
	return out, nil
}

// Several reports whether a pod of which that is said has an address on another network than the default one.
func Several(all []Statement) bool {
	return slices.ContainsFunc(all, func(st Statement) bool { return !st.Default && len(st.Addrs) > 0 })
}

// repeats: two entries of one network would be two paths of one name, and two of one
// interface cannot both be true.
func (st Statement) repeats(other Statement) bool {
	return st.Network == other.Network || st.Dev != "" && st.Dev == other.Dev || st.Default && other.Default
}

func (s status) parse() (Statement, error) {
	st := Statement{Network: s.Name, Dev: s.Interface, Default: s.Default}
	if !validName(s.Name) {
		return st, fmt.Errorf("name: %.80q: expected NAMESPACE/NAME", s.Name)
	}
	if s.Default {
		st.Network = Default
	} else if s.Name == Default {
		return st, fmt.Errorf("name: %q, but it is not the default network", s.Name)
	}
	if s.Interface != "" && !validDev(s.Interface) {
		return st, fmt.Errorf("interface: %.80q: expected the name of one", s.Interface)
	}
	if len(s.IPs) > mostAddrs {
		return st, fmt.Errorf("ips: %d addresses: expected at most %d", len(s.IPs), mostAddrs)
	}
	for _, ip := range s.IPs {
		a, err := netip.ParseAddr(ip)
		if err != nil || a.Zone() != "" || a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() {
			return st, fmt.Errorf("ips: %.80q: expected an address of a pod", ip)
		}
		st.Addrs = append(st.Addrs, a.Unmap())
	}
	if s.MAC != "" {
		mac, err := net.ParseMAC(s.MAC)
		if err != nil {
			return st, fmt.Errorf("mac: %.80q: expected a hardware address", s.MAC)
		}
		st.MAC = mac
	}
	return st, nil
}

// validName: a definition is named by its namespace and its name, or by its name alone where a
// file on the node holds it, as the default network's does.
func validName(name string) bool {
	const most = 63 + 1 + 253 // a label, a slash, a subdomain
	return len(name) <= most && regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?[A-Za-z0-9][-._A-Za-z0-9]*$`).
		MatchString(name)
}

// validDev is what Linux takes for an interface's name (dev_valid_name).
func validDev(dev string) bool {
	const most = 15
	return len(dev) <= most && dev != "." && dev != ".." && !strings.ContainsAny(dev, "/:") &&
		!strings.ContainsFunc(dev, func(r rune) bool { return r <= ' ' || r > '~' })
}
