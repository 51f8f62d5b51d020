package admin

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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

// TestAnotherInstallation: where agents are in another namespace, nothing is made and nothing is taken away.
func TestAnotherInstallation(t *testing.T) {
	written := 0
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method != http.MethodGet {
			written++
		}
		if r.URL.Path != "/apis/apps/v1/daemonsets" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprint(w, `{"kind": "DaemonSetList", "apiVersion": "apps/v1", "items": [
{"metadata": {"name": "other", "namespace": "x"}}, {"metadata": {"name": "pathwise-agent", "namespace": "old"}}]}`)
	}))
	t.Cleanup(hs.Close)
	c, o, out := clusterAt(t, hs.URL), manifest.Defaults("1"), &bytes.Buffer{}
	for what, err := range map[string]error{"install": c.Install(t.Context(), o, out),
		"uninstall": c.Uninstall(t.Context(), o, time.Second, true, out)} {
		if err == nil || !strings.Contains(err.Error(), "agents are in namespace old: name that with --namespace") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if written != 0 || out.Len() != 0 {
		t.Errorf("%d written: %s", written, out)
	}
	if err := c.alone(t.Context(), "old"); err != nil {
		t.Errorf("in its own namespace: %v", err)
	}
}
