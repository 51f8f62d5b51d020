package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
	"pathwise.dev/pathwise/internal/steer/sandbox"
)

// server answers as an API server does, of three kinds of objects and the node n1. What only
// a real one can show is in the tests on a cluster.
type server struct {
	mu     sync.Mutex
	node   *v1alpha1.PathNode
	writes int
	refuse int // the status of what is written, 0 for none
	paths  []string
	// pathPolicies are those that there are, and wrote the statuses of those that were written.
	pathPolicies []v1alpha1.PathPolicy
	wrote        []string
	// forbidden: nothing may be read any more; cut ends all watches.
	forbidden bool
	cut       chan struct{}
	// defined are custom kinds, and policies what is answered about kinds of policies.
	defined  []string
	policies map[string]func(http.ResponseWriter)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paths = append(s.paths, r.Method+" "+r.URL.Path+" "+r.URL.Query().Get("fieldSelector"))
	const group = "/apis/pathwise.dev/v1alpha1/"
	list := metav1.ListMeta{ResourceVersion: "1"}
	switch path := r.URL.Path; {
	case s.forbidden:
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden)
	case r.URL.Query().Get("sendInitialEvents") == "true":
		fail(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	case r.URL.Query().Get("watch") != "":
		cut := s.cut
		s.mu.Unlock()
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-cut:
		}
		s.mu.Lock()
	case path == "/api/v1/pods":
		answer(w, corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: list})
	case s.policies[path] != nil:
		s.policies[path](w)
	case path == "/apis/apiextensions.k8s.io/v1/customresourcedefinitions":
		all := metav1.PartialObjectMetadataList{ListMeta: list,
			TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}}
		for _, name := range s.defined {
			o := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata",
				APIVersion: "meta.k8s.io/v1"}}
			o.Name = name
			all.Items = append(all.Items, o)
		}
		answer(w, all)
	case path == "/apis/networking.k8s.io/v1/networkpolicies":
		answer(w, networkingv1.NetworkPolicyList{ListMeta: list,
			TypeMeta: metav1.TypeMeta{Kind: "NetworkPolicyList", APIVersion: "networking.k8s.io/v1"}})
	case path == "/api/v1/nodes/n1":
		n := corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}}
		n.Name, n.UID = "n1", "uid-node"
		answer(w, n)
	case path == group+"pathnetworks":
		answer(w, v1alpha1.PathNetworkList{ListMeta: list, Items: []v1alpha1.PathNetwork{*fast()},
			TypeMeta: metav1.TypeMeta{Kind: "PathNetworkList", APIVersion: "pathwise.dev/v1alpha1"}})
	case path == group+"pathpolicies":
		answer(w, v1alpha1.PathPolicyList{ListMeta: list, Items: s.pathPolicies,
			TypeMeta: metav1.TypeMeta{Kind: "PathPolicyList", APIVersion: "pathwise.dev/v1alpha1"}})
	case strings.HasPrefix(path, group+"namespaces/") && strings.HasSuffix(path, "/status"):
		s.writes++
		if s.refuse != 0 {
			fail(w, s.refuse, metav1.StatusReasonForbidden)
			return
		}
		raw, _ := io.ReadAll(r.Body)
		s.wrote = append(s.wrote, r.Method+" "+path)
		answer(w, json.RawMessage(raw))
	case path == group+"pathnodes" && r.Method == http.MethodGet:
		answer(w, v1alpha1.PathNodeList{ListMeta: list, Items: []v1alpha1.PathNode{*seen("n2", apiPod("z", 5))},
			TypeMeta: metav1.TypeMeta{Kind: "PathNodeList", APIVersion: "pathwise.dev/v1alpha1"}})
	case strings.HasPrefix(path, group+"pathnodes"):
		s.own(w, r)
	default:
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	}
}

// own is asked of the PathNode of n1.
func (s *server) own(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		if s.node == nil {
			fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
			return
		}
		answer(w, s.node)
		return
	}
	s.writes++
	if s.refuse != 0 {
		fail(w, s.refuse, metav1.StatusReasonForbidden)
		return
	}
	raw, _ := io.ReadAll(r.Body)
	n := &v1alpha1.PathNode{}
	if err := json.Unmarshal(raw, n); err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	if s.node != nil && n.ResourceVersion != s.node.ResourceVersion {
		fail(w, http.StatusConflict, metav1.StatusReasonConflict)
		return
	}
	n.ResourceVersion = time.Now().String()
	s.node = n
	answer(w, n)
}

func answer(w http.ResponseWriter, obj any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(obj) // the client says what it lacks
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status: metav1.StatusFailure, Code: int32(code), Reason: reason})
}

// serving is a server that runs until the test ends, and who asks it.
func serving(t *testing.T) (*server, clients) {
	t.Helper()
	s := &server{}
	hs := httptest.NewServer(s)
	t.Cleanup(hs.Close)
	c, err := connect(kubeconfig(t, hs.URL))
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

// kubeconfig is a file by which the server is found.
func kubeconfig(t *testing.T, url string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"apiVersion": "v1", "kind": "Config", "current-context": "x",
"clusters": [{"name": "c", "cluster": {"server": "` + url + `"}}],
"contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestSource reads a cluster from a server, and writes the node's own object there.
func TestSource(t *testing.T) {
	s := &server{}
	hs := httptest.NewServer(s)
	defer hs.Close()
	var log bytes.Buffer
	src, err := Open(Config{Kubeconfig: kubeconfig(t, hs.URL), Node: "n1", Pod: "uid-agent", Version: "test",
		Log: slog.New(slog.NewTextHandler(&log, nil)), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := src.Cluster(); err == nil {
		t.Error("a cluster before anything was read")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { src.Run(ctx); close(done) }()
	if err := src.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	c, err := src.Cluster()
	if err != nil || len(c.Hosts) != 2 || len(c.Pods) != 1 || c.Pods[0].Name != "shop/z" || len(c.Equal) != 1 {
		t.Errorf("%+v, %v", c, err)
	}
	select {
	case <-src.News():
	default:
		t.Error("nobody says that a cluster was read")
	}
	for written := false; !written; time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		written = s.node != nil
		s.mu.Unlock()
	}
	cancel()
	<-done
	hs.CloseClientConnections()
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.node.OwnerReferences; s.node.Name != "n1" || s.node.Spec.Version != "test" || len(o) != 1 ||
		o[0].UID != "uid-node" {
		t.Errorf("written: %+v", s.node)
	}
	if all := strings.Join(s.paths, "\n"); !strings.Contains(all, "GET /api/v1/pods spec.nodeName=n1") ||
		strings.Contains(all, "GET /api/v1/pods \n") {
		t.Errorf("other nodes' pods are read:\n%s", all)
	}
}

// TestWriter: what others go by is written at once, what is for people now and then, and what
// fails later each time.
func TestWriter(t *testing.T) {
	s, c := serving(t)
	now := time.Unix(1000, 0)
	w := writer{clients: c, node: "n1", now: func() time.Time { return now }}
	first, other := seen("n1", apiPod("a", 4)), seen("n1", apiPod("b", 5))
	status := v1alpha1.PathNodeStatus{Pods: 7}
	for n, step := range []struct {
		after  time.Duration
		spec   v1alpha1.PathNodeSpec
		status v1alpha1.PathNodeStatus
		refuse int
		writes int
		again  time.Duration
	}{
		{0, first.Spec, first.Status, 0, 1, statusEvery},
		{time.Second, first.Spec, first.Status, 0, 1, statusEvery},
		{time.Second, first.Spec, status, 0, 1, statusEvery - 2*time.Second},
		{statusEvery, first.Spec, status, 0, 2, statusEvery},
		{0, other.Spec, status, 0, 3, statusEvery},
		{0, first.Spec, status, http.StatusForbidden, 4, firstRetry},
		{firstRetry / 2, first.Spec, status, http.StatusForbidden, 4, firstRetry / 2},
		{firstRetry / 2, first.Spec, status, http.StatusForbidden, 5, 2 * firstRetry},
		{time.Hour, first.Spec, status, 0, 6, statusEvery},
	} {
		now = now.Add(step.after)
		s.refuse = step.refuse
		again, err := w.write(t.Context(), step.spec, step.status)
		if again != step.again || s.writes != step.writes || err != nil && step.refuse == 0 {
			t.Errorf("step %d: again in %v, %d writes, %v", n, again, s.writes, err)
		}
	}
	// Another has written it: it is read again, and then written over.
	s.node.ResourceVersion = "another"
	if _, err := w.write(t.Context(), other.Spec, status); err == nil {
		t.Error("a conflict is no error")
	}
	now = now.Add(time.Hour)
	if _, err := w.write(t.Context(), other.Spec, status); err != nil || s.node.Spec.Pods[0].Name != "shop/b" {
		t.Errorf("%+v, %v", s.node, err)
	}
}

func TestTrim(t *testing.T) {
	p := apiPod("a", 4)
	p.Annotations["other"], p.Labels = "x", map[string]string{"app": "a"}
	p.Spec.Containers = []corev1.Container{{Name: "c"}}
	got, err := trimPod(p)
	q := got.(*corev1.Pod)
	if err != nil || q.UID != p.UID || len(q.Annotations) != 1 || q.Annotations[sandbox.Annotation] == "" ||
		q.Spec.Containers != nil || q.Labels["app"] != "a" || len(q.Status.PodIPs) != 1 {
		t.Errorf("%+v, %v", q, err)
	}
}

// TestRestsForWhatItComposes: the rest between looks is of what composing takes in the long run. One look that was held
// up, as it lost the processor, delays what another node's agent writes by no more than the least.
func TestRestsForWhatItComposes(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name  string
		looks []time.Duration
		want  time.Duration
	}{
		{"the first", nil, least},
		{"a small cluster", []time.Duration{ms / 10, ms / 5}, least},
		{"a small cluster, held up once", []time.Duration{ms / 10, 40 * ms}, least},
		{"and the look after that", []time.Duration{40 * ms, ms / 10}, least},
		{"a large cluster", []time.Duration{4 * ms, 5 * ms}, 2 * time.Second},
		{"a very large one", []time.Duration{90 * ms, 80 * ms}, slowest},
	} {
		var c composing
		for _, d := range tt.looks {
			c.add(d)
		}
		if got := c.rest(); got != tt.want {
			t.Errorf("%s: it rests for %v, expected %v", tt.name, got, tt.want)
		}
	}
}
