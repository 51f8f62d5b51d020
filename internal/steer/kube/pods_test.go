package kube

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pathwise.dev/pathwise/internal/steer/sandbox"
)

// apiPod is a pod on the default network and on shop/fast, with addresses that end in last.
func apiPod(name string, last int) *corev1.Pod {
	p := &corev1.Pod{}
	p.Namespace, p.Name, p.UID = "shop", name, types.UID("uid-"+name)
	p.Annotations = map[string]string{sandbox.Annotation: fmt.Sprintf(
		`[{"name":"podnet","interface":"eth0","ips":["10.244.1.%d"],"default":true},
		{"name":"shop/fast","interface":"net1","ips":["10.1.1.%d"]}]`, last, last)}
	p.Status.Phase, p.Status.PodIPs = corev1.PodRunning, []corev1.PodIP{{IP: fmt.Sprintf("10.244.1.%d", last)}}
	return p
}

// box is the namespace of such a pod.
func box(last int) sandbox.Sandbox {
	return sandbox.Sandbox{Netns: fmt.Sprintf("cni-%d", last), Inode: uint64(last), Interfaces: []sandbox.Interface{
		{Name: "eth0", MTU: 1500, Addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 244, 1, byte(last)})}},
		{Name: "net1", MTU: 9000, Addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 1, 1, byte(last)})}}}}
}

func TestFindPods(t *testing.T) {
	now := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		change  func(*corev1.Pod)
		found   bool
		refused string
	}{
		"as it is":        {func(*corev1.Pod) {}, true, ""},
		"hostNetwork":     {func(p *corev1.Pod) { p.Spec.HostNetwork = true }, false, ""},
		"over":            {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, false, ""},
		"no address":      {func(p *corev1.Pod) { p.Status.PodIPs = nil }, false, ""},
		"left alone":      {func(p *corev1.Pod) { p.Annotations[SteerAnnotation] = "false" }, false, ""},
		"no annotation":   {func(p *corev1.Pod) { delete(p.Annotations, sandbox.Annotation) }, false, ""},
		"Kata":            {func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("kata-qemu") }, false, `"kata-qemu": its`},
		"gVisor":          {func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("gvisor") }, false, `"gvisor": its`},
		"another runtime": {func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("nvidia") }, true, ""},
		"one network": {func(p *corev1.Pod) {
			p.Annotations[sandbox.Annotation] = `[{"name":"podnet","ips":["10.244.1.4"],"default":true}]`
		}, false, ""},
		"a bad annotation": {func(p *corev1.Pod) { p.Annotations[sandbox.Annotation] = "{" }, false, "read network-status"},
		"a bad address":    {func(p *corev1.Pod) { p.Status.PodIPs[0].IP = "x" }, false, "status.podIPs"},
		"another's address": {func(p *corev1.Pod) {
			p.Annotations[sandbox.Annotation] = strings.ReplaceAll(p.Annotations[sandbox.Annotation], "10.1.1.4", "10.1.1.5")
		}, false, "says [10.1.1.5] of shop/fast"},
	} {
		p := apiPod("a", 4)
		tc.change(p)
		f := finder{}
		found, refused := f.find([]*corev1.Pod{p}, []sandbox.Sandbox{box(4), box(5)}, now)
		if len(found) == 1 != tc.found || len(refused) == 1 != (tc.refused != "") {
			t.Errorf("%s: %v, %v", name, found, refused)
			continue
		}
		if tc.refused != "" && (refused[0].Pod != "shop/a" || !strings.Contains(refused[0].Reason, tc.refused)) {
			t.Errorf("%s: %v", name, refused)
		}
	}
}

// TestFindIPv6Alone: a pod without an IPv4 address is found by that of IPv6, which is its stable one.
func TestFindIPv6Alone(t *testing.T) {
	p, b := apiPod("a", 4), box(4)
	p.Annotations[sandbox.Annotation] = strings.NewReplacer("10.244.1.4", "fd00::4", "10.1.1.4", "fd01::4").Replace(
		p.Annotations[sandbox.Annotation])
	p.Status.PodIPs[0].IP = "fd00::4"
	b.Interfaces[0].Addrs, b.Interfaces[1].Addrs = []netip.Addr{netip.MustParseAddr("fd00::4")},
		[]netip.Addr{netip.MustParseAddr("fd01::4")}
	f := finder{}
	found, refused := f.find([]*corev1.Pod{p}, []sandbox.Sandbox{box(5), b}, time.Unix(1000, 0))
	if len(found) != 1 || len(refused) != 0 || found[0].Addr() != b.Interfaces[0].Addrs[0] ||
		found[0].Attachments[1].Addr != b.Interfaces[1].Addrs[0] {
		t.Fatalf("%+v, %v", found, refused)
	}
	spec, _ := node("test", found, nil)
	if other, err := podOf(spec.Pods[0]); err != nil || !reflect.DeepEqual(other.Attachments, found[0].Attachments) {
		t.Errorf("as another node reads it: %+v, %v", other, err)
	}
}

// TestFindKeeps: a pod whose interface loses its address stays what it was while its namespace
// does, unless something else is said of it; a sandbox that is made again is found again.
func TestFindKeeps(t *testing.T) {
	f, now := finder{self: "uid-agent"}, time.Unix(1000, 0)
	pods := []*corev1.Pod{apiPod("a", 4), apiPod("agent", 9)}
	delete(pods[1].Annotations, sandbox.Annotation) // the agent's own is found even so
	bare := box(4)
	bare.Interfaces = bare.Interfaces[:1]
	moved := box(4)
	moved.Netns, moved.Inode = "cni-other", 44
	for n, tc := range []struct {
		boxes   []sandbox.Sandbox
		netns   string // "": not found
		refused bool
	}{
		{[]sandbox.Sandbox{box(9)}, "", false}, // on its way
		{[]sandbox.Sandbox{box(9), box(4)}, "cni-4", false},
		{[]sandbox.Sandbox{box(9), bare}, "cni-4", false},
		{[]sandbox.Sandbox{box(9), moved}, "cni-other", false},
		{[]sandbox.Sandbox{box(9)}, "", false}, // on its way again
		{[]sandbox.Sandbox{box(9)}, "", true},  // for too long
		{[]sandbox.Sandbox{box(9), bare}, "", true},
	} {
		found, refused := f.find(pods, tc.boxes, now.Add(time.Duration(n)*patience))
		var netns string
		for _, o := range found {
			if o.Name == "shop/a" {
				netns = o.Netns
			}
			if o.Agent != (o.Name == "shop/agent") {
				t.Errorf("step %d: %+v", n, o)
			}
		}
		if netns != tc.netns || len(refused) == 1 != tc.refused {
			t.Errorf("step %d: found in %q, refused %v", n, netns, refused)
		}
	}
	f.find(pods, []sandbox.Sandbox{box(9), box(4)}, now)
	pods[0] = apiPod("a", 4)
	said := pods[0].Annotations
	said[sandbox.Annotation] = strings.ReplaceAll(said[sandbox.Annotation], "10.1.1.4", "10.1.1.5")
	if found, refused := f.find(pods, []sandbox.Sandbox{box(9), box(4)}, now); len(found) != 1 || len(refused) != 1 {
		t.Errorf("something else is said: %v, %v", found, refused)
	}
}

// TestNeeds: a pod says what its flows need by a word that agents know; another word is told, and
// nothing else.
func TestNeeds(t *testing.T) {
	good, bad, none := apiPod("a", 4), apiPod("b", 5), apiPod("c", 6)
	good.Annotations[NeedAnnotation], bad.Annotations[NeedAnnotation] = "throughput", "speed"
	of, odd := needs([]*corev1.Pod{good, bad, none})
	if len(of) != 1 || of[string(good.UID)] != "throughput" || len(odd) != 1 || odd[0].Pod != "shop/b" ||
		!strings.Contains(odd[0].Reason, `"speed": expected one of`) {
		t.Errorf("%v, %v", of, odd)
	}
	trimmed, err := trimPod(good)
	if err != nil || trimmed.(*corev1.Pod).Annotations[NeedAnnotation] != "throughput" {
		t.Errorf("%+v, %v", trimmed, err)
	}
}
