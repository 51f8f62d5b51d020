package agent

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/topo"
)

// Cluster is what an agent is told of hosts and pods.
type Cluster struct {
	Hosts []topo.Host `json:"hosts"`
	Pods  []topo.Pod  `json:"pods"`
	// Equal lists the networks whose policy is known to equal that of the
	// default network. Flows are never moved to another one.
	Equal []string `json:"equal"`
	// Encapsulated lists the networks that translation cannot cross, as they track
	// connections or change the DSCP: flows that are steered there go in UDP.
	Encapsulated []string `json:"encapsulated,omitempty"`
	// OpenElsewhere says that flows may begin on a network of Equal while the default network is
	// known to fail: its own policy then does not see them at all.
	OpenElsewhere bool `json:"open_elsewhere,omitempty"`
}

// mostCluster bounds a cluster's description, in bytes: one of 100,000 pods with four
// networks each is half as long.
const mostCluster = 128 << 20

// ParseCluster reads a cluster's description; name is that of the file, which errors
// give with the line.
func ParseCluster(name string, r io.Reader) (Cluster, error) {
	raw, err := io.ReadAll(io.LimitReader(r, mostCluster+1))
	if err != nil {
		return Cluster{}, fmt.Errorf("read cluster: %w", err)
	}
	if len(raw) > mostCluster {
		return Cluster{}, fmt.Errorf("%s:1: longer than %d bytes", name, mostCluster)
	}
	var c Cluster
	if err := json.Unmarshal(raw, &c); err != nil {
		return Cluster{}, config.JSONError(name, raw, err)
	}
	return c, nil
}

// host returns the host called name.
func (c Cluster) host(name string) (topo.Host, bool) {
	i := slices.IndexFunc(c.Hosts, func(h topo.Host) bool { return h.Name == name })
	if i < 0 {
		return topo.Host{}, false
	}
	return c.Hosts[i], true
}

// agentPod returns the pod that the agent of host index keeps for itself.
func (c Cluster) agentPod(index int) (topo.Pod, bool) {
	i := slices.IndexFunc(c.Pods, func(p topo.Pod) bool { return p.Agent && p.Host == index })
	if i < 0 {
		return topo.Pod{}, false
	}
	return c.Pods[i], true
}

// steerable lists the host's pods that have more than one network.
func (c Cluster) steerable(index int) []topo.Pod {
	var out []topo.Pod
	for i := range c.Pods {
		if p := &c.Pods[i]; p.Host == index && !p.Agent && p.UID != "" && len(p.Attachments) > 1 {
			out = append(out, *p)
		}
	}
	return out
}

// names lists the cluster's networks in the order that gives them their
// numbers in notices; every agent derives the same.
func (c Cluster) names() []string {
	seen, last := map[string]bool{}, []topo.Attachment(nil)
	for i := range c.Pods {
		for n, a := range c.Pods[i].Attachments {
			if n >= len(last) || last[n].Network != a.Network { // nearly all pods are on the same ones
				seen[a.Network] = true
			}
		}
		last = c.Pods[i].Attachments
	}
	return slices.Sorted(maps.Keys(seen))
}

// dialect tells whether two agents number the networks alike, and encapsulate on
// the same ones: else they would not understand each other's notices and packets.
func dialect(names, encapsulated []string) uint32 {
	h := fnv.New32a()
	for _, n := range names {
		fmt.Fprintf(h, "%s\x00", n) // never fails
		if slices.Contains(encapsulated, n) {
			h.Write([]byte{1}) // in no name
		}
	}
	return h.Sum32()
}

// encapsulates reports whether steered flows go in UDP on the network.
func (c Cluster) encapsulates(network string) bool { return slices.Contains(c.Encapsulated, network) }

// podID is a pod's identity in notices.
type podID [16]byte

func idOf(p topo.Pod) podID { return idBy(p.UID) }

func idBy(uid string) podID {
	sum := sha256.Sum256([]byte(uid))
	return podID(sum[:16])
}

// eligible drops the paths whose policy is not known to equal the default's, and
// says of the others whether packets are encapsulated there, which those of IPv6 cannot be.
func (c Cluster) eligible(rs routes) routes {
	if len(rs) == 0 {
		return nil
	}
	out := rs[:1:1]
	for _, r := range rs[1:] {
		if slices.Contains(c.Equal, r.Network) {
			r.Encap = c.encapsulates(r.Network)
			if r.Encap && r.Local.Addr.Is6() {
				continue
			}
			out = append(out, r)
		}
	}
	return out
}

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
func (c Cluster) check() error { return (&register{}).vet(c) }

// checkHosts checks what is told of hosts.
func (c Cluster) checkHosts() error {
	names, indexes := make(map[string]bool, len(c.Hosts)), make(map[int]bool, len(c.Hosts))
	for i, h := range c.Hosts {
		if err := CheckHost(h.Name); err != nil {
			return fmt.Errorf("hosts[%d]: %w", i, err)
		}
		if names[h.Name] || indexes[h.Index] {
			return fmt.Errorf("hosts[%d]: host %s or its index %d is there twice", i, h.Name, h.Index)
		}
		names[h.Name], indexes[h.Index] = true, true
	}
	return nil
}

// checkUIDs wants each to be of one pod.
func (c Cluster) checkUIDs() error {
	known := map[string]bool{}
	for i := range c.Pods {
		p := &c.Pods[i]
		if known[p.UID] {
			return fmt.Errorf("pods[%d] (%q): UID %s is there twice", i, p.Name, p.UID)
		}
		known[p.UID] = p.UID != ""
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
	if p.Need != "" && !slices.Contains(decide.Needs(), decide.Need(p.Need)) {
		return fmt.Errorf("need %q: expected one of %v", p.Need, decide.Needs())
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
		if at.Addr6.IsValid() && (!at.Addr6.Is6() || at.Addr6.Is4In6() || at.Addr6.Zone() != "") {
			return fmt.Errorf("addr6 %q: expected an IPv6 address without a zone", at.Addr6)
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
