package lab

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/topo"
)

// Spec says what lab to build.
type Spec struct {
	// Name is part of every namespace's name: pw-NAME-h1.
	Name string `json:"name"`
	// Hosts is the number of hosts, 1 to MaxHosts.
	Hosts int `json:"hosts"`
	// MTU of the underlay in bytes.
	MTU int `json:"mtu"`
	// Underlay and PodRange are the address ranges of hosts and pods.
	Underlay netip.Prefix `json:"underlay"`
	PodRange netip.Prefix `json:"pod_range"`
	// Networks names the pods' networks; the first is the default one, which
	// gives the stable address. Up fills it in.
	Networks []string `json:"networks,omitempty"`
	// Agents asks for one more pod on each host, attached to every network, for
	// the steering agent's own probes.
	Agents bool `json:"agents,omitempty"`
	// VMs lists the hosts that are virtual machines, and on which physical machine
	// each of them runs.
	VMs []topo.VM `json:"vms,omitempty"`
	// Outside is what joins hosts to the wire on each physical machine; with VMs a
	// bridge where it says nothing.
	Outside topo.Outside `json:"outside,omitempty"`
	// Family is the IP family by which pods are reached, 4 or 6; 0 leaves it to the
	// networks. With 6, hosts and pods have addresses of both.
	Family int `json:"family,omitempty"`
	// Pods in the order in which they are attached.
	Pods []PodSpec `json:"pods"`
}

// PodSpec is one pod to be made.
type PodSpec struct {
	Name string `json:"name"`
	// Host index, from 1.
	Host int `json:"host"`
	// Networks of this pod, the lab's first one first; none means all of the lab's.
	Networks []string `json:"networks,omitempty"`
	agent    bool
}

// Limits of a lab.
const (
	MaxHosts = 64
	// MaxPodsPerHost is what a /23 holds without its gateway. Hosts have a /24 where
	// that is enough: see Spec.podBits.
	MaxPodsPerHost = 509
)

// Fill returns the spec with defaults where it says nothing.
func (s Spec) Fill() Spec {
	if s.Hosts == 0 {
		s.Hosts = 2
	}
	if s.MTU == 0 {
		s.MTU = topo.DefaultMTU
	}
	if !s.Underlay.IsValid() {
		s.Underlay = topo.DefaultUnderlay()
	}
	if !s.PodRange.IsValid() {
		s.PodRange = topo.DefaultPods()
	}
	if s.Outside == "" && len(s.VMs) > 0 {
		s.Outside = topo.OutsideBridge
	}
	return s
}

// FieldError is a bad value in a Spec, by the key of the lab file.
type FieldError struct {
	Key string
	Err error
}

func (e *FieldError) Error() string { return e.Key + ": " + e.Err.Error() }
func (e *FieldError) Unwrap() error { return e.Err }

func badField(key, format string, args ...any) error {
	return &FieldError{key, fmt.Errorf(format, args...)}
}

// Check returns a *FieldError for the first value out of range.
func (s Spec) Check() error {
	if err := CheckName(s.Name); err != nil {
		return &FieldError{"name", err}
	}
	if s.Hosts < 1 || s.Hosts > MaxHosts {
		return badField("hosts", "%d is out of range: expected 1 to %d", s.Hosts, MaxHosts)
	}
	if s.MTU < topo.MinMTU || s.MTU > topo.MaxMTU {
		return badField("mtu", "%d is out of range: expected %d to %d bytes", s.MTU, topo.MinMTU, topo.MaxMTU)
	}
	if err := checkNames("networks", s.Networks); err != nil {
		return err
	}
	if err := s.checkRanges(); err != nil {
		return err
	}
	if err := s.checkVMs(); err != nil {
		return err
	}
	if err := s.checkFamily(); err != nil {
		return err
	}
	return s.checkPods()
}

// checkNames wants each name of a list to stand once.
func checkNames(key string, names []string) error {
	for i, n := range names {
		if slices.Contains(names[:i], n) {
			return badField(fmt.Sprintf("%s[%d]", key, i), "network %s is given twice", n)
		}
	}
	return nil
}

func (s Spec) checkRanges() error {
	if s.Underlay.Overlaps(s.PodRange) {
		return badField("pod_range", "%v overlaps the underlay %v: expected ranges that do not", s.PodRange, s.Underlay)
	}
	if !s.Underlay.Addr().Is4() || s.Underlay.Bits() > 16 || s.Underlay.Bits() < 8 {
		return badField("underlay", "%v: expected an IPv4 range of /8 to /16", s.Underlay)
	}
	if _, err := topo.HostPods(s.PodRange, s.podBits(), s.Hosts); err != nil {
		return &FieldError{"pod_range", err}
	}
	for i := 1; i < len(s.Networks); i++ {
		r, err := topo.PodRange(s.PodRange, i)
		if err != nil {
			return &FieldError{"pod_range", err}
		}
		if r.Overlaps(s.Underlay) {
			return badField("pod_range", "%v, the range behind it for network %s, overlaps the underlay %v", r, s.Networks[i],
				s.Underlay)
		}
	}
	return nil
}

func (s Spec) checkPods() error {
	seen := map[string]bool{}
	perHost := map[int]int{}
	for i, p := range s.pods() {
		key := fmt.Sprintf("pods[%d]", i)
		if p.agent {
			key = "agents"
		}
		if err := CheckName(p.Name); err != nil {
			return &FieldError{key + ".name", err}
		}
		if seen[p.Name] {
			return badField(key+".name", "%q is given twice: expected a name of its own for each pod", p.Name)
		}
		seen[p.Name] = true
		if p.Host < 1 || p.Host > s.Hosts {
			return badField(key+".host", "%d is out of range: expected 1 to %d", p.Host, s.Hosts)
		}
		if perHost[p.Host]++; perHost[p.Host] > MaxPodsPerHost {
			return badField(key+".host", "host %d has more than %d pods: its address range is exhausted", p.Host, MaxPodsPerHost)
		}
		if err := s.checkPodNetworks(key+".networks", p); err != nil {
			return err
		}
	}
	return nil
}

// checkPodNetworks wants a pod's networks to be of the lab's, the first the same.
func (s Spec) checkPodNetworks(key string, p PodSpec) error {
	for i, n := range p.Networks {
		if !slices.Contains(s.Networks, n) {
			return badField(fmt.Sprintf("%s[%d]", key, i), "%s is none of the lab's networks: expected some of %s", n,
				strings.Join(s.Networks, ", "))
		}
	}
	if len(p.Networks) > 0 && p.Networks[0] != s.Networks[0] {
		return badField(key+"[0]", "%s: expected the lab's default network %s first", p.Networks[0], s.Networks[0])
	}
	return checkNames(key, p.Networks)
}

// pods returns the pods that the spec asks for, the agents' last.
func (s Spec) pods() []PodSpec {
	out := slices.Clone(s.Pods)
	for h := 1; s.Agents && h <= s.Hosts; h++ {
		out = append(out, PodSpec{Name: fmt.Sprintf("agent-h%d", h), Host: h, agent: true})
	}
	return out
}

// podBits is how long the prefix of each host's pod range is: by the host that has the
// most pods, so that all ranges have one size.
func (s Spec) podBits() int {
	perHost := map[int]int{}
	most := 0
	for _, p := range s.pods() {
		perHost[p.Host]++
		most = max(most, perHost[p.Host])
	}
	return topo.PodBits(most)
}

// on returns the hosts with their parts of the pod range of network number i.
func (s Spec) on(i int, hosts []topo.Host) ([]topo.Host, netip.Prefix, error) {
	r, err := topo.PodRange(s.PodRange, i)
	if err != nil {
		return nil, r, err
	}
	out := slices.Clone(hosts)
	for n := range out {
		if out[n].Pods, err = topo.HostPods(r, s.podBits(), out[n].Index); err != nil {
			return nil, r, err
		}
	}
	return out, r, nil
}

// hosts returns the hosts that the spec asks for.
func (s Spec) hosts() ([]topo.Host, error) {
	out := make([]topo.Host, s.Hosts)
	for i := range out {
		index := i + 1
		addr, err := topo.UnderlayAddr(s.Underlay, index)
		if err != nil {
			return nil, err
		}
		pods, err := topo.HostPods(s.PodRange, s.podBits(), index)
		if err != nil {
			return nil, err
		}
		name := fmt.Sprintf("h%d", index)
		out[i] = topo.Host{Index: index, Name: name, Netns: s.netns(name), Dev: topo.HostDev, Addr: addr, Pods: pods}
		if s.ipv6() {
			out[i].Addr6 = topo.Addr6(addr)
		}
		if s.Outside != "" {
			out[i].Machine = index
		}
	}
	for _, v := range s.VMs {
		out[v.Host-1].Machine = v.On
	}
	return out, nil
}

// netns is the name of the lab's namespace for a host, a pod or the underlay.
func (s Spec) netns(part string) string { return "pw-" + s.Name + "-" + part }
