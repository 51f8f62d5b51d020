package admin

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/kube/manifest"
)

// TestNamespacesOfOthersAreLeft: what shares a namespace with the agents, or is in one that they were never in, stays.
func TestNamespacesOfOthersAreLeft(t *testing.T) {
	const ours = `"labels": {"app.kubernetes.io/name": "pathwise"}`
	for _, tt := range []struct {
		name, labels, pods string
		deleted            bool
		said               string
	}{
		{"its own", ours, `{"metadata": {"name": "pathwise-agent-x", ` + ours + `}}`, true, "namespace/shop deleted"},
		{"shared", ours, `{"metadata": {"name": "till"}}`, false,
			"namespace/shop left: it holds pods/till, which is not of Pathwise"},
		{"another's", `"labels": {}`, `{"metadata": {"name": "till"}}`, false,
			"namespace/shop left: \"kube install\" has not made it"},
		{"another's, empty", `"labels": {}`, "", false, "namespace/shop left"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var deleted []string
			hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				const there = "/api/v1/namespaces/shop"
				switch {
				case r.Method == http.MethodDelete && (r.URL.Path == there || strings.HasSuffix(r.URL.Path, manifest.KeySecret)):
					deleted = append(deleted, r.URL.Path)
					fmt.Fprint(w, "{}")
				case r.Method == http.MethodPatch:
					fmt.Fprint(w, "{}")
				case r.URL.Path == there && !slices.Contains(deleted, there):
					fmt.Fprintf(w, `{"metadata": {"name": "shop", %s}}`, tt.labels)
				case r.URL.Path == there+"/pods":
					fmt.Fprintf(w, `{"items": [%s]}`, tt.pods)
				case r.URL.Path == there+"/configmaps":
					fmt.Fprint(w, `{"items": [{"metadata": {"name": "kube-root-ca.crt"}}]}`)
				case r.Method == http.MethodGet && strings.Count(r.URL.Path, "/") > 4 && !strings.Contains(r.URL.Path, "pathwise"):
					fmt.Fprint(w, `{"items": []}`)
				case r.URL.Path == "/apis/apps/v1/daemonsets":
					fmt.Fprint(w, `{"kind": "DaemonSetList", "apiVersion": "apps/v1", "items": []}`)
				default:
					w.WriteHeader(http.StatusNotFound)
				}
			}))
			t.Cleanup(hs.Close)
			o, out := manifest.Defaults("1"), &bytes.Buffer{}
			o.Namespace = "shop"
			if err := clusterAt(t, hs.URL).Uninstall(t.Context(), o, time.Second, false, out); err != nil {
				t.Fatal(err)
			}
			got := slices.Contains(deleted, "/api/v1/namespaces/shop")
			if got != tt.deleted || !strings.Contains(out.String(), tt.said) {
				t.Errorf("deleted %v: %s", deleted, out)
			}
		})
	}
}
