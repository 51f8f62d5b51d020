package kube

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"pathwise.dev/pathwise/internal/steer/kube/netpolicy"
)

// readPolicies begins to read policies from a server: follow takes up what it has, until stop.
func readPolicies(t *testing.T, s *server) (p *policies, follow, stop func()) {
	t.Helper()
	hs := httptest.NewServer(s)
	c, err := connect(kubeconfig(t, hs.URL))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	p = newPolicies(c.cfg, func(cache.SharedInformer) error { return nil })
	if err := p.run(ctx, &wg); err != nil {
		t.Fatal(err)
	}
	return p, func() { p.follow(ctx, &wg) }, func() {
		cancel()
		hs.CloseClientConnections()
		wg.Wait()
		hs.Close()
	}
}

// known is what is known of policies once all has settled at a server.
func known(t *testing.T, s *server) netpolicy.Known {
	t.Helper()
	p, follow, stop := readPolicies(t, s)
	defer stop()
	for follow(); !p.settled(); follow() {
		time.Sleep(10 * time.Millisecond)
	}
	return p.known()
}

// TestPolicies reads policies of the kinds that a cluster has; what it may not read, it knows
// that it does not.
func TestPolicies(t *testing.T) {
	list := metav1.ListMeta{ResourceVersion: "1"}
	forbidden := func(w http.ResponseWriter) { fail(w, http.StatusForbidden, metav1.StatusReasonForbidden) }
	versions := func(group, version string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			answer(w, metav1.APIGroup{TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: group,
				Versions: []metav1.GroupVersionForDiscovery{{Version: "v1"}, {Version: version}}})
		}
	}
	resources := func(names ...string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			l := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
			for _, name := range names {
				l.APIResources = append(l.APIResources, metav1.APIResource{Name: name})
			}
			answer(w, l)
		}
	}
	multi := networkingv1.NetworkPolicy{TypeMeta: metav1.TypeMeta{Kind: "MultiNetworkPolicy",
		APIVersion: "k8s.cni.cncf.io/v1beta2"}}
	multi.Namespace, multi.Name = "shop", "m"
	multi.Annotations = map[string]string{netpolicy.PolicyFor: "fast", "other": "x"}
	multi.Spec.PodSelector.MatchLabels = map[string]string{"app": "a"}
	s := &server{defined: []string{"multi-networkpolicies.k8s.cni.cncf.io", "ciliumnetworkpolicies.cilium.io",
		"others.example"},
		policies: map[string]func(http.ResponseWriter){
			"/apis/k8s.cni.cncf.io":         versions("k8s.cni.cncf.io", "v1beta2"),
			"/apis/k8s.cni.cncf.io/v1":      resources("network-attachment-definitions"),
			"/apis/k8s.cni.cncf.io/v1beta2": resources("multi-networkpolicies"),
			"/apis/cilium.io/v1":            resources(),
			"/apis/cilium.io/v2":            resources("ciliumnetworkpolicies"),
			"/apis/k8s.cni.cncf.io/v1beta2/multi-networkpolicies": func(w http.ResponseWriter) {
				answer(w, networkingv1.NetworkPolicyList{ListMeta: list, Items: []networkingv1.NetworkPolicy{multi},
					TypeMeta: metav1.TypeMeta{Kind: "MultiNetworkPolicyList", APIVersion: "k8s.cni.cncf.io/v1beta2"}})
			},
			"/apis/cilium.io":                          versions("cilium.io", "v2"),
			"/apis/cilium.io/v2/ciliumnetworkpolicies": forbidden,
		}}
	got := known(t, s)
	if len(got.Policies) != 1 || !got.Policies[0].Further || got.Policies[0].For[0] != "shop/fast" ||
		got.Policies[0].Selects[0].Key != "app" {
		t.Errorf("policies %+v", got.Policies)
	}
	if len(got.Unread) != 1 || got.Unread[0].Kind != "CiliumNetworkPolicy" || got.Unread[0].Further {
		t.Errorf("not read: %+v", got.Unread)
	}
	s.policies["/apis/apiextensions.k8s.io/v1/customresourcedefinitions"] = forbidden
	if got = known(t, s); len(got.Unread) != 1 || !got.Unread[0].Further ||
		!strings.Contains(got.Unread[0].Kind, "CustomResourceDefinition") {
		t.Errorf("no definition can be read: %+v", got.Unread)
	}
}
