package admin

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pathwise.dev/pathwise/internal/steer/kube/manifest"
)

// server answers lists with what it has by path, and notes what it is asked for. A real one is
// in the tests on a cluster.
type server struct {
	mu    sync.Mutex
	has   map[string]string
	asked []string
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	w.Header().Set("Content-Type", "application/json")
	text, ok := s.has[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		text = `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`
	}
	_, _ = io.WriteString(w, text) // the client says what it lacks
}

// cluster is one whose API server is s.
func cluster(t *testing.T, s *server) *Cluster {
	t.Helper()
	hs := httptest.NewServer(s)
	t.Cleanup(hs.Close)
	return clusterAt(t, hs.URL)
}

// clusterAt is one whose API server is there.
func clusterAt(t *testing.T, url string) *Cluster {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion": "v1", "kind": "Config", "current-context": "x",
"clusters": [{"name": "c", "cluster": {"server": "` + url + `"}}],
"contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Open(Place{Kubeconfig: file, Agents: "pathwise"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDump: the archive has what there is, says what could not be read, and no Secret is asked
// for.
func TestDump(t *testing.T) {
	const key = "c0ffee00c0ffee00c0ffee00c0ffee00"
	const pods = "/api/v1/namespaces/pathwise/pods"
	s := &server{has: map[string]string{
		"/version":      `{"gitVersion": "v1.36.3"}`,
		"/api/v1/nodes": `{"kind": "NodeList", "apiVersion": "v1", "items": []}`,
		"/api/v1/namespaces/pathwise/secrets/pathwise-key": `{"data": {"keys": "` + key + `"}}`,
		"/api/v1/namespaces/pathwise/secrets":              `{"items": [{"data": {"keys": "` + key + `"}}]}`,
		"/apis/pathwise.dev/v1alpha1/pathnetworks": `{"items": [{"metadata": {"name": "fast",
			"managedFields": [{"manager": "somebody"}]}}]}`,
		pods: `{"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "agent-1",
			"labels": {"app.kubernetes.io/name": "pathwise"}}, "spec": {"nodeName": "n1"}}]}`,
		pods + "/agent-1/log":                `one line` + "\n",
		pods + "/agent-1:9477/proxy/metrics": "pathwise_up 1\n",
	}}
	var out bytes.Buffer
	faults, err := cluster(t, s).Dump(t.Context(), manifest.Defaults(""), &out)
	if err != nil {
		t.Fatal(err)
	}
	files := unpacked(t, &out)
	for name, want := range map[string]string{"objects/version.json": "v1.36.3", "objects/pathnetworks.json": "fast",
		"agents/n1/log.txt": "one line", "agents/n1/metrics.txt": "pathwise_up", "objects/agent-pods.json": "agent-1",
		"check.json": "v1.36.3", "not-read.txt": "agents/n1/health.json: "} {
		if !strings.Contains(files[name], want) {
			t.Errorf("%s: %q, want %q", name, files[name], want)
		}
	}
	if len(faults) == 0 || !strings.Contains(files["not-read.txt"], faults[0]) {
		t.Errorf("faults %q, not-read.txt %q", faults, files["not-read.txt"])
	}
	for name, text := range files {
		if strings.Contains(text, key) || strings.Contains(text, "managedFields") {
			t.Errorf("%s: %s", name, text)
		}
		if strings.HasSuffix(name, ".json") && !json.Valid([]byte(text)) {
			t.Errorf("%s is no JSON: %s", name, text)
		}
	}
	for _, asked := range s.asked {
		if strings.Contains(asked, "secrets") {
			t.Errorf("it asks for %s", asked)
		}
	}
}

// unpacked are the files of an archive, by their names in it.
func unpacked(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for in := tar.NewReader(zip); ; {
		h, err := in.Next()
		if err == io.EOF {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimPrefix(h.Name, "pathwise-sysdump/")] = string(text)
	}
}
