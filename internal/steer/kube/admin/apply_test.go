package admin

import (
	"testing"

	"pathwise.dev/pathwise/internal/steer/kube/manifest"
)

// TestPaths: each object of a cluster's is where the API server has its kind.
func TestPaths(t *testing.T) {
	o := manifest.Defaults("1")
	o.Monitoring = true
	all, err := objectsOf(manifest.Write(o))
	if err != nil {
		t.Fatal(err)
	}
	more, err := objectsOf(manifest.Leave(manifest.Defaults("1")))
	if err != nil {
		t.Fatal(err)
	}
	const admission = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpol"
	want := map[string]string{
		"namespace/pathwise": "/api/v1/namespaces/pathwise",
		"customresourcedefinition/pathpolicies.pathwise.dev": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/pathpolicies.pathwise.dev",
		"customresourcedefinition/pathnetworks.pathwise.dev": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/pathnetworks.pathwise.dev",
		"customresourcedefinition/pathnodes.pathwise.dev":    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/pathnodes.pathwise.dev",
		"serviceaccount/pathwise-agent":                      "/api/v1/namespaces/pathwise/serviceaccounts/pathwise-agent",
		"clusterrole/pathwise-agent":                         "/apis/rbac.authorization.k8s.io/v1/clusterroles/pathwise-agent",
		"clusterrolebinding/pathwise-agent":                  "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/pathwise-agent",
		"validatingadmissionpolicy/pathwise-pathnode":        admission + "icies/pathwise-pathnode",
		"validatingadmissionpolicybinding/pathwise-pathnode": admission + "icybindings/pathwise-pathnode",
		"podmonitor/pathwise-agent":                          "/apis/monitoring.coreos.com/v1/namespaces/pathwise/podmonitors/pathwise-agent",
		"prometheusrule/pathwise-agent":                      "/apis/monitoring.coreos.com/v1/namespaces/pathwise/prometheusrules/pathwise-agent",
		"configmap/pathwise-dashboard":                       "/api/v1/namespaces/pathwise/configmaps/pathwise-dashboard",
		"daemonset/pathwise-agent":                           "/apis/apps/v1/namespaces/pathwise/daemonsets/pathwise-agent",
		"daemonset/pathwise-leave":                           "/apis/apps/v1/namespaces/pathwise/daemonsets/pathwise-leave",
	}
	for _, o := range append(all, more...) {
		if got := o.path(); got != want[o.String()] {
			t.Errorf("%s is at %s, want %s", o, got, want[o.String()])
		}
		delete(want, o.String())
	}
	if len(want) > 0 {
		t.Errorf("not there: %v", want)
	}
}
