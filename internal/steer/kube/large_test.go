package kube

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pathwise.dev/pathwise/internal/steer/kube/v1alpha1"
)

// The cluster of TestLargeCluster, and how many of its PathNodes change in a second.
const largeNodes, largePods, largeChanges = 1000, 20, 10

// largeNode is the PathNode of one node; each turn another of its pods is a new one.
func largeNode(n, turn int) *v1alpha1.PathNode {
	o := &v1alpha1.PathNode{TypeMeta: metav1.TypeMeta{Kind: "PathNode", APIVersion: "pathwise.dev/v1alpha1"}}
	o.Name, o.ResourceVersion = fmt.Sprintf("node-%04d.example.org", n), strconv.Itoa(1+turn)
	o.Spec.Version = "v0.0.0-20261126101112-0123456789ab"
	for p := range largePods {
		gen := 0
		if p == turn%largePods {
			gen = turn
		}
		pod := v1alpha1.Pod{UID: fmt.Sprintf("%08x-1234-4321-8765-%012x", gen, n*largePods+p), Agent: p == 0,
			Name: fmt.Sprintf("namespace-%d/application-%d-7d9c5b6f4d-x%04d", p%7, p, n), Sandbox: int64(4026532000 + p)}
		for i, net := range []string{"default", "default/fast", "default/bulk"} {
			pod.Attachments = append(pod.Attachments, v1alpha1.Attachment{Network: net,
				Device: []string{"eth0", "net1", "net2"}[i], MTU: 1500, MAC: fmt.Sprintf("0a:58:%02x:00:%02x:%02x", i, n&255, p),
				Addresses: []string{fmt.Sprintf("10.%d.%d.%d", 10*i+n>>8, n&255, p+1)}})
		}
		o.Spec.Pods = append(o.Spec.Pods, pod)
	}
	o.Status.Pods = largePods - 1
	return o
}

// largeServer answers as an API server of a large cluster does; it counts what it has sent.
func largeServer(sent *atomic.Int64) http.Handler {
	const group = "/apis/pathwise.dev/v1alpha1/"
	list := metav1.ListMeta{ResourceVersion: "1"}
	paths := func(kind string, items any) map[string]any {
		return map[string]any{"kind": kind, "apiVersion": "pathwise.dev/v1alpha1", "metadata": list, "items": items}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := json.NewEncoder(&countWriter{w, sent})
		w.Header().Set("Content-Type", "application/json")
		switch path := r.URL.Path; {
		case r.URL.Query().Get("sendInitialEvents") == "true":
			fail(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
		case r.URL.Query().Get("watch") != "":
			w.(http.Flusher).Flush()
			for turn := 1; path == group+"pathnodes"; turn++ {
				n := turn * 7919 % largeNodes
				_ = out.Encode(map[string]any{"type": "MODIFIED", "object": largeNode(n, turn)})
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
					return
				case <-time.After(time.Second / largeChanges):
				}
			}
			<-r.Context().Done()
		case path == "/api/v1/pods":
			_ = out.Encode(corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: list})
		case path == "/apis/apiextensions.k8s.io/v1/customresourcedefinitions":
			_ = out.Encode(metav1.PartialObjectMetadataList{ListMeta: list,
				TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}})
		case path == "/apis/networking.k8s.io/v1/networkpolicies":
			_ = out.Encode(networkingv1.NetworkPolicyList{ListMeta: list,
				TypeMeta: metav1.TypeMeta{Kind: "NetworkPolicyList", APIVersion: "networking.k8s.io/v1"}})
		case path == group+"pathnetworks":
			fast, bulk := *fast(), *fast()
			fast.Spec.Attachment, bulk.Spec.Attachment, bulk.Name = "default/fast", "default/bulk", "bulk"
			_ = out.Encode(paths("PathNetworkList", []v1alpha1.PathNetwork{fast, bulk}))
		case path == group+"pathpolicies":
			_ = out.Encode(paths("PathPolicyList", []v1alpha1.PathPolicy{*pathPolicy("p", 0,
				v1alpha1.PathPolicySpec{Need: "robust"})}))
		case path == group+"pathnodes":
			var all []*v1alpha1.PathNode
			for n := range largeNodes {
				all = append(all, largeNode(n, 0))
			}
			_ = out.Encode(paths("PathNodeList", all))
		default:
			fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		}
	})
}

// countWriter counts what is written.
type countWriter struct {
	http.ResponseWriter
	sent *atomic.Int64
}

func (c *countWriter) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.sent.Add(int64(n))
	return n, err
}

// TestLargeCluster: what an agent's source costs in a cluster of 1,000 nodes with 20 pods each, of
// which 10 change in a second: bytes read at start, memory and its peak, and CPU. The source is in a
// process of its own.
func TestLargeCluster(t *testing.T) {
	if at := os.Getenv("PATHWISE_LARGE"); at != "" {
		largeSource(t, at)
		return
	}
	var sent atomic.Int64
	hs := httptest.NewServer(largeServer(&sent))
	defer hs.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLargeCluster$", "-test.v")
	cmd.Env = append(os.Environ(), "PATHWISE_LARGE="+kubeconfig(t, hs.URL))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var c cost
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "ready"); ok {
			t.Logf("%.1f MB were read at start%s", float64(sent.Load())/1e6, text)
			if sent.Load() > 10e6 {
				t.Errorf("%d bytes were read at start", sent.Load())
			}
		} else if text, ok := strings.CutPrefix(lines.Text(), "cost "); ok {
			if err := json.Unmarshal([]byte(text), &c); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", c)
	// 3 % is wanted, and seen on a machine that is not busy; the same work takes more CPU on one that is.
	const busy = 5
	// In the twenty seconds one looks at least once in three, the slowest pace, which a busy machine comes to.
	const fewest = 5
	if c.RSS == 0 || c.RSS > 80 || c.Peak > 112 || c.CPU > busy || c.Pods != largeNodes*largePods || c.News < fewest {
		t.Errorf("%+v: want at most 80 MiB, 112 at the peak, 3 %% of a core", c)
	}
}

// cost is what a source has used: MiB, percent of a core, and what it has said.
type cost struct{ RSS, Peak, CPU, Pods, News float64 }

// largeSource is the source, and prints what it costs.
func largeSource(t *testing.T, kubeconfig string) {
	src, err := Open(Config{Kubeconfig: kubeconfig, Node: "node-self", Pod: "uid-agent", Version: "test", Quiet: true,
		Log: slog.New(slog.DiscardHandler), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { src.Run(ctx); close(done) }()
	if err := src.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	fmt.Println("ready")
	time.Sleep(5 * time.Second)
	var c cost
	const during = 20 * time.Second
	before, end := used(t), time.After(during)
	for ended := false; !ended; {
		select {
		case <-src.News():
			c.News++
		case <-end:
			ended = true
		}
	}
	c.CPU = (used(t) - before).Seconds() / during.Seconds() * 100
	cluster, err := src.Cluster()
	if err != nil {
		t.Fatal(err)
	}
	c.Pods = float64(len(cluster.Pods))
	c.RSS, c.Peak = memory(t, "VmRSS"), memory(t, "VmHWM")
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("cost " + string(text))
	cancel()
	<-done
}

// memory is one of the kernel's figures of this process, in MiB.
func memory(t *testing.T, key string) float64 {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if text, ok := strings.CutPrefix(line, key+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "kB")), 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib / 1024
		}
	}
	t.Fatalf("no %s", key)
	return 0
}

// used is the CPU time of this process.
func used(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
