package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/containernetworking/cni/libcni"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"pathwise.dev/pathwise/internal/lab/cni"
	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// podDev is the pod's interface on its network number i: as with Multus, eth0
// on the default one, then net1, net2 ...
func podDev(i int) string {
	if i == 0 {
		return "eth0"
	}
	return fmt.Sprintf("net%d", i)
}

// publishedPort is the first host port at which pods are published.
const publishedPort = 20000

// attacher makes the pods of hosts on this kernel and attaches them to the networks.
type attacher struct {
	*plan
	op   *operator
	nets []built
	opts Options
	mu   sync.Mutex // guards opts.Random, while hosts attach side by side
}

// makePod makes pod number n (from 0) on the host and attaches it.
func (a *attacher) makePod(ctx context.Context, h topo.Host, p PodSpec, n int) (topo.Pod, error) {
	pod := topo.Pod{Name: p.Name, Host: h.Index, Listen: topo.ServicePort, Agent: p.agent}
	var err error
	if pod.UID, err = a.newUID(); err != nil {
		return pod, fmt.Errorf("make pod %s: %w", p.Name, err)
	}
	shared := false
	plug := a.nets[0].plug
	switch plug.Mode {
	case network.ShareHost:
		pod.Netns, shared = h.Netns, true
		pod.Attachments = []topo.Attachment{{Network: a.nets[0].name, Dev: h.Dev, Addr: h.Addr.Addr(), Addr6: h.Addr6.Addr(),
			MTU: a.Spec.wireMTU()}}
	case network.SharePod:
		pod.Netns = a.Spec.netns("p-" + h.Name)
		shared = netns.Exists(pod.Netns)
	default:
		pod.Netns = a.Spec.netns(p.Name)
	}
	if plug.Mode == network.ShareHost || plug.Mode == network.SharePod {
		pod.Listen += uint16(n)
	}
	published := uint16(0)
	if plug.Publish {
		published = uint16(publishedPort + n)
	}
	if err := errors.Join(ctx.Err(), a.enclose(ctx, pod, published, shared)); err != nil {
		return pod, fmt.Errorf("make pod %s: %w", p.Name, err)
	}
	if plug.Mode != network.ShareHost && plug.Mode != network.Closed {
		if err := a.attachTo(ctx, h, &pod, a.netsOf(p), published, shared); err != nil {
			return pod, err
		}
	}
	if err := a.serve(&pod); err != nil {
		return pod, fmt.Errorf("attach pod %s: %w", pod.Name, err)
	}
	if published > 0 {
		at := h.Addr
		if a.Spec.ipv6() {
			at = h.Addr6
		}
		pod.Service = netip.AddrPortFrom(at.Addr(), published)
	}
	return pod, nil
}

// enclose makes the pod's namespace, unless it is shared and there already; or
// has the network's engine do so.
func (a *attacher) enclose(ctx context.Context, pod topo.Pod, published uint16, shared bool) error {
	switch {
	case a.nets[0].plug.Run != nil:
		return a.runPod(ctx, pod, published, shared)
	case !shared:
		if err := a.op.makeNetns(pod.Netns); err != nil {
			return err
		}
		return a.openIPv6(pod.Netns, false)
	default:
		return nil
	}
}

// newUID returns a random UUID (RFC 9562 section 5.4).
func (a *attacher) newUID() (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var b [16]byte
	if _, err := io.ReadFull(a.opts.Random, b[:]); err != nil {
		return "", fmt.Errorf("make UID: %w", err)
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), nil
}

// attachTo attaches the pod to the networks in order.
func (a *attacher) attachTo(ctx context.Context, h topo.Host, pod *topo.Pod, nets []built, published uint16,
	shared bool) error {
	for i, b := range nets {
		if err := a.attach(ctx, h, pod, b, podDev(i), published, shared); err != nil {
			return fmt.Errorf("attach pod %s to %s: %w", pod.Name, b.name, err)
		}
	}
	if len(nets) == 1 {
		return nil
	}
	nl, err := netns.Netlink(pod.Netns)
	if err != nil {
		return err
	}
	defer nl.Close()
	for i, b := range nets[1:] {
		if err := cni.Separate(nl, podDev(i+1), i+1); err != nil {
			return fmt.Errorf("attach pod %s to %s: %w", pod.Name, b.name, err)
		}
	}
	// Two networks may share a layer 2 (two kinds of macvlan do): each interface
	// answers for, and asks with, its own address alone.
	return sysctl(pod.Netns,
		map[string]string{"net/ipv4/conf/all/arp_ignore": "1", "net/ipv4/conf/all/arp_announce": "2"})
}

// attach runs CNI ADD for the pod, or finds the address that it has from the
// pod whose namespace it shares, or from the engine that runs it.
func (a *attacher) attach(ctx context.Context, h topo.Host, pod *topo.Pod, b built, dev string, published uint16,
	shared bool) error {
	if shared || b.plug.Run != nil {
		return readAttachment(pod, b.name, dev)
	}
	raw, err := b.conflist(ctx, *pod)
	if err != nil {
		return err
	}
	list, err := libcni.ConfListFromBytes(raw)
	if err != nil {
		return fmt.Errorf("read CNI configuration list: %w", err)
	}
	where := h.Netns
	if b.plug.OnMachine {
		where = ""
	}
	if b.plug.Delete {
		d := deletion{pod.Name, where, pod.Netns, dev, raw, a.opts.CNIPath, a.opts.Timeout}
		if err := a.op.rec.willDelete(d); err != nil {
			return err
		}
	}
	rt := runtimeConf(a.Spec.Name, pod.Name, pod.Netns, dev)
	if published > 0 {
		rt.CapabilityArgs = map[string]any{"portMappings": portMappings(pod.Listen, published)}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.opts.Timeout, fmt.Errorf("CNI ADD took longer than %v", a.opts.Timeout))
	defer cancel()
	res, err := cniClient(a.op.rec.dir, where, a.opts.CNIPath).AddNetworkList(ctx, list, rt)
	if err != nil {
		return fmt.Errorf("CNI ADD: %w", err)
	}
	said, err := types100.NewResultFromResult(res)
	if err != nil {
		return fmt.Errorf("read CNI result: %w", err)
	}
	if err := readAttachment(pod, b.name, dev); err != nil {
		return err
	}
	if err := honest(said, pod.Netns); err != nil {
		return err
	}
	if b.plug.Unbound {
		if err := openUnbound(pod.Netns, dev); err != nil {
			return err
		}
	}
	if b.plug.Attached == nil {
		return nil
	}
	return b.plug.Attached(ctx, *pod, pod.Attachments[len(pod.Attachments)-1])
}

// readAttachment takes the pod's addresses and MTU from the interface itself: what
// a plugin says and what it did may differ. Of several of a family the first is
// taken. The IPv6 address is the stable one where there is none of IPv4.
func readAttachment(pod *topo.Pod, network, name string) error {
	return netns.Do(pod.Netns, func() error {
		dev, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("find the pod's interface %s, which its plugins were to make: %w", name, err)
		}
		addrs, err := dev.Addrs()
		if err != nil {
			return fmt.Errorf("list the pod's addresses: %w", err)
		}
		var v4, v6 netip.Addr
		for _, a := range addrs {
			p, err := netip.ParsePrefix(a.String())
			switch {
			case err != nil:
			case p.Addr().Is4() && !v4.IsValid():
				v4 = p.Addr()
			case p.Addr().Is6() && !v6.IsValid() && p.Addr().IsGlobalUnicast():
				v6 = p.Addr()
			}
		}
		at := topo.Attachment{Network: network, Dev: name, Addr: v4, Addr6: v6, MAC: dev.HardwareAddr.String(), MTU: dev.MTU}
		if !v4.IsValid() {
			at.Addr = v6
		}
		if !at.Addr.IsValid() {
			return fmt.Errorf("the pod's interface %s got no address", name)
		}
		pod.Attachments = append(pod.Attachments, at)
		return nil
	})
}

// honest wants the pod to have the addresses that its plugins say it has.
func honest(said *types100.Result, ns string) error {
	return netns.Do(ns, func() error {
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			return fmt.Errorf("list the pod's addresses: %w", err)
		}
		var has []string
		for _, a := range addrs {
			if p, ok := a.(*net.IPNet); ok && p.IP.IsGlobalUnicast() {
				has = append(has, p.IP.String())
			}
		}
		for _, ip := range said.IPs {
			if !slices.Contains(has, ip.Address.IP.String()) {
				return fmt.Errorf("CNI ADD: the plugins say that the pod has address %v, but it has %s", ip.Address.IP,
					strings.Join(has, ", "))
			}
		}
		return nil
	})
}

func runtimeConf(lab, pod, ns, dev string) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{ContainerID: "pw-" + lab + "-" + pod, NetNS: netns.Path(ns), IfName: dev}
}

func portMappings(listen, host uint16) []map[string]any {
	var out []map[string]any
	for _, proto := range []string{"tcp", "udp"} {
		out = append(out, map[string]any{"hostPort": host, "containerPort": listen, "protocol": proto})
	}
	return out
}

// netsOf returns the networks that the pod is on, the default one first.
func (a *attacher) netsOf(p PodSpec) []built {
	if len(p.Networks) == 0 {
		return a.nets
	}
	var out []built
	for _, name := range p.Networks {
		i := slices.IndexFunc(a.nets, func(b built) bool { return b.name == name })
		out = append(out, a.nets[i]) // Check has found it in the spec
	}
	return out
}
