package admin

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/klog/v2"

	"pathwise.dev/pathwise/internal/steer/agent"
)

// Hello is what the program at the other end says first, once it has reached the agent.
const Hello = "pathwise agent\n"

// Ask returns clients of the agents of the nodes, by node; nil means all.
func (c *Cluster) Ask(ctx context.Context, nodes []string, dir string) (map[string]*agent.Client, error) {
	all, err := c.Agents(ctx)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("namespace %s has no agents: put them there with \"pathwise kube install\"", c.agents)
	}
	out := map[string]*agent.Client{}
	for _, a := range all {
		if nodes == nil || slices.Contains(nodes, a.Node) {
			out[a.Node] = agent.Over(func(ctx context.Context) (net.Conn, error) { return c.tunnel(ctx, a.Pod, dir) })
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no agent is on %s", strings.Join(nodes, ", "))
	}
	return out, nil
}

// ends is a connection to an agent: one end of a pipe, whose other end the API server has.
type ends struct {
	net.Conn
	stop context.CancelFunc
	rest io.Reader // what came with the hello, and all that follows
}

func (e *ends) Read(p []byte) (int, error) { return e.rest.Read(p) }

func (e *ends) Close() error {
	e.stop()
	return e.Conn.Close()
}

// dialing is how long an agent may take to be reached.
const dialing = 20 * time.Second

// tunnel connects to the agent in a pod, by a program that it runs there.
func (c *Cluster) tunnel(ctx context.Context, pod, dir string) (net.Conn, error) {
	return c.tunnelTo(ctx, place{c.agents, pod, "agent"}, []string{"/pathwise", "agent-connect", "--dir", dir}, Hello)
}

// tunnelTo connects to a program in a pod, which says a line first.
func (c *Cluster) tunnelTo(ctx context.Context, at place, command []string, first string) (net.Conn, error) {
	exec, err := c.executor(at, command)
	if err != nil {
		return nil, err
	}
	// Connections are kept for further questions: they outlive the one that opened them.
	streaming, stop := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), logr.Discard())) // it logs its end
	near, far := net.Pipe()
	said := &stderr{}
	over := make(chan error, 1)
	go func() {
		over <- exec.StreamWithContext(streaming, remotecommand.StreamOptions{Stdin: far, Stdout: far, Stderr: said})
		far.Close()
	}()
	in := bufio.NewReader(near)
	hello := make(chan error, 1)
	go func() {
		line, err := in.ReadString('\n')
		if err == nil && line != first {
			err = fmt.Errorf("it says %.80q: expected an agent of this version", line)
		}
		hello <- err
	}()
	wait, cancel := context.WithTimeout(ctx, dialing)
	defer cancel()
	select {
	case err = <-hello:
		if err == nil {
			return &ends{near, stop, in}, nil
		}
		select { // the end of the stream says why
		case err = <-over:
		case <-time.After(time.Second):
		}
	case err = <-over:
	case <-wait.Done():
		err = context.Cause(wait)
	}
	stop()
	near.Close()
	if text := strings.TrimSpace(said.String()); text != "" {
		err = errors.New(strings.TrimPrefix(text, "pathwise: "))
	} else if err == nil {
		err = errors.New("it said nothing")
	}
	return nil, fmt.Errorf("run a command in pod %s: %w", at.pod, err)
}

// place is a container.
type place struct{ namespace, pod, container string }

// executor prepares to run a command in a pod, by WebSocket, which API servers have by default
// since 1.30.
func (c *Cluster) executor(at place, command []string) (remotecommand.Executor, error) {
	url := c.execURL(at, command)
	ws, err := remotecommand.NewWebSocketExecutor(c.cfg, http.MethodGet, url)
	if err != nil {
		return nil, fmt.Errorf("prepare a command in pod %s: %w", at.pod, err)
	}
	return ws, nil
}

// stderr keeps the first of what a command says of its faults.
type stderr struct {
	mu   sync.Mutex // of text, which the stream writes
	text bytes.Buffer
}

func (t *stderr) Write(p []byte) (int, error) {
	const most = 4096
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text.Write(p[:min(len(p), most-t.text.Len())])
	return len(p), nil
}

func (t *stderr) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
