package admin

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"pathwise.dev/pathwise/internal/steer/sandbox"
)

func TestFindings(t *testing.T) {
	good := func() survey {
		n := corev1.Node{}
		n.Name = "n1"
		n.Status.NodeInfo = corev1.NodeSystemInfo{OperatingSystem: "linux", Architecture: "arm64",
			KernelVersion: "6.8.0-1-cloud", ContainerRuntimeVersion: "containerd://2.0.1"}
		return survey{version: "v1.32.0", nodes: []corev1.Node{n}, multus: true, admission: true, proxy: "nftables",
			namespace: "pathwise", installed: []string{"pathwise"}, networks: []definition{{"shop/fast", ""}}}
	}
	info := func(change func(*corev1.NodeSystemInfo)) func(*survey) {
		return func(s *survey) { change(&s.nodes[0].Status.NodeInfo) }
	}
	docker := func(i *corev1.NodeSystemInfo) { i.ContainerRuntimeVersion = "docker://24" }
	const plugins = `{"plugins": [{"type": "bridge", "ipam": {"type": "whereabouts"}}]}`
	virtual := map[string]string{"type": "virtual-kubelet"}
	config := func(text string) func(*survey) { return func(s *survey) { s.networks[0].config = text } }
	for want, change := range map[string]func(*survey){
		"":                                      func(*survey) {},
		"lacks Kubernetes v1.31.9":              func(s *survey) { s.version = "v1.31.9" },
		"lacks no NetworkAttachmentDefinition":  func(s *survey) { s.multus, s.networks = false, nil },
		"lacks Multus is there, but":            func(s *survey) { s.networks = nil },
		"lacks no ValidatingAdmissionPolicy":    func(s *survey) { s.admission = false },
		"ok kube-proxy in iptables mode":        func(s *survey) { s.proxy = "iptables" },
		"note how Services are served":          func(s *survey) { s.proxy = "" },
		"lacks agents are in namespace old":     func(s *survey) { s.installed = []string{"old", "pathwise"} },
		"lacks you may not make clusterrole/x":  func(s *survey) { s.forbidden = []string{"clusterrole/x"} },
		"NetworkPolicy, CiliumNetworkPolicy":    func(s *survey) { s.policies = []string{"CiliumNetworkPolicy"} },
		"lacks Linux 6.7.12":                    info(func(i *corev1.NodeSystemInfo) { i.KernelVersion = "6.7.12" }),
		"lacks s390x":                           info(func(i *corev1.NodeSystemInfo) { i.Architecture = "s390x" }),
		"lacks docker://24":                     info(docker),
		"note windows: its":                     info(func(i *corev1.NodeSystemInfo) { i.OperatingSystem = "windows" }),
		"note a virtual node":                   func(s *survey) { s.nodes[0].Labels = virtual },
		"note macvlan without addresses":        config(`{"type": "macvlan"}`),
		"note its configuration cannot be read": config(`{`),
		"ok bridge, addresses by whereabouts":   config(plugins),
		"note ipvlan with host-local, which": func(s *survey) {
			s.nodes = append(s.nodes, s.nodes[0])
			s.networks[0].config = `{"type": "ipvlan", "ipam": {"type": "host-local"}}`
		},
		"note it would be left alone": func(s *survey) {
			s.pods = []corev1.Pod{{}}
			s.pods[0].Annotations = map[string]string{sandbox.Annotation: "{"}
		},
		`note it would be left alone: runtime class "kata-qemu"`: func(s *survey) {
			s.pods = []corev1.Pod{{}}
			s.pods[0].Annotations = map[string]string{sandbox.Annotation: "[]"}
			s.pods[0].Spec.RuntimeClassName = new("kata-qemu")
		},
		"note PathNetwork slow names it, and there is no such": func(s *survey) {
			s.allowed = twoPods().networks
			s.allowed = append(s.allowed, s.allowed[0])
			s.allowed[1].Name, s.allowed[1].Spec.Attachment = "slow", "shop/slow"
		},
		"note it is not Ready: KubeletNotReady": func(s *survey) {
			s.nodes[0].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse,
				Reason: "KubeletNotReady"}}
		},
	} {
		s := good()
		change(&s)
		var all []string
		lacks := false
		for _, f := range s.findings() {
			all = append(all, string(f.Grade)+" "+f.What)
			lacks = lacks || f.Grade == Lacks
		}
		if text := strings.Join(all, "\n"); !strings.Contains(text, want) || lacks != strings.HasPrefix(want, "lacks") {
			t.Errorf("%q: got\n%s", want, text)
		}
	}
}
