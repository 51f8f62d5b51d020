package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/topo"
)

// asProgram makes this test's executable the program itself, so that a pod can run it.
const asProgram = "PATHWISE_TEST_QUIC"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	main()
}

// longest is for how long a machine that is busy is waited for.
const longest = 30 * time.Second

// TestSteered: where UDP alone is dropped between two hosts, on its way to the server, back, or both ways, what a QUIC
// connection carries goes on over another network. Without agents requests and uploads end there, and downloads come
// in gaps that double.
func TestSteered(t *testing.T) {
	for name, rule := range map[string]string{
		"there": "ip daddr %s meta l4proto udp drop",
		"back":  "ip saddr %s meta l4proto udp drop",
		"both":  "ip saddr %s meta l4proto udp drop; add rule inet pw-t f ip daddr %[1]s meta l4proto udp drop",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			server := b.pods[1]
			b.start(server, "serve", server.Addr().String()+":4433")
			time.Sleep(300 * time.Millisecond) // it listens
			clients := map[string]*client{}
			for kind := range kinds {
				clients[kind] = b.start(b.pods[0], kind, server.Addr().String()+":4433")
			}
			b.await("all to have come up", func() bool { return b.grew(clients, nil, 3) })
			time.Sleep(2 * time.Second) // so that it is known how they are answered
			before := b.counts(clients)
			b.drop(server.Host, fmt.Sprintf(rule, server.Addr()))
			defer func() { // also where some do not
				for kind, c := range clients {
					came, gap := c.told()
					t.Logf("%s: %d bytes since, longest gap %d ms", kind, came-before[kind], gap)
				}
			}()
			b.await("all to go on", func() bool { return b.grew(clients, before, 1) })
		})
	}
}

// enough is how many bytes come to a client in some tenths of a second.
var enough = map[string]int{"download": 100_000, "upload": 30, "requests": 10 * request}

// bed is a lab of three networks with an agent on each of its two hosts.
type bed struct {
	t     *testing.T
	hosts map[int]string // their namespaces
	pods  []topo.Pod
}

func newBed(t *testing.T) *bed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces and eBPF")
	}
	bin, err := filepath.Abs("../../bin/pathwise")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	t.Setenv("PATHWISE_STATE", root)
	pathwise := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(bin, args...).CombinedOutput(); err != nil {
			t.Fatalf("pathwise %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	pathwise("lab", "up", "--network", "routed-bgp,vxlan,macvlan", "--name", "t-quic")
	t.Cleanup(func() { pathwise("lab", "down", "t-quic") })
	state, err := lab.Store{Root: root}.Load("t-quic")
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{t: t, hosts: map[int]string{}, pods: state.Pods}
	for i, h := range state.Hosts {
		b.hosts[i+1] = h.Netns
	}
	agents := exec.Command(bin, "agent", "--lab", "t-quic", "--need", "throughput")
	b.run(agents, agents.Start)
	b.await("agents", func() bool { return exec.Command(bin, "paths", "--lab", "t-quic").Run() == nil })
	return b
}

// run begins a program that ends with the test, and before its lab.
func (b *bed) run(cmd *exec.Cmd, start func() error) {
	b.t.Helper()
	var said bytes.Buffer
	cmd.Stderr, cmd.SysProcAttr = &said, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended: Wait says how
		if err := cmd.Wait(); err != nil {
			b.t.Errorf("%s: %v: %s", cmd, err, said.String())
		} else if b.t.Failed() && said.Len() > 0 {
			b.t.Logf("%s: %s", cmd, said.String())
		}
	})
}

// start begins this program in a pod.
func (b *bed) start(pod topo.Pod, args ...string) *client {
	b.t.Helper()
	me, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	c := &client{}
	cmd := exec.Command(me, args...)
	cmd.Env, cmd.Stdout = append(os.Environ(), asProgram+"=1"), c
	b.run(cmd, func() error { return netns.Start(pod.Netns, cmd) })
	return c
}

// drop has a host drop what it forwards by a rule, until the lab goes.
func (b *bed) drop(host int, rule string) {
	b.t.Helper()
	cmd := exec.Command("nft", "add table inet pw-t; add chain inet pw-t f { type filter hook forward priority 0; };"+
		" add rule inet pw-t f "+rule)
	var said bytes.Buffer
	cmd.Stderr = &said
	err := netns.Start(b.hosts[host], cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		b.t.Fatalf("drop by %s: %v: %s", rule, err, said.String())
	}
}

func (b *bed) await(what string, holds func() bool) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), longest)
	defer cancel()
	for !holds() {
		select {
		case <-ctx.Done():
			b.t.Fatalf("%s: not within %v", what, longest)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// counts is how much has come to each client.
func (b *bed) counts(clients map[string]*client) map[string]int {
	out := map[string]int{}
	for kind, c := range clients {
		out[kind], _ = c.told()
	}
	return out
}

// grew reports whether much has come to each client since before: enough, so many times.
func (b *bed) grew(clients map[string]*client, before map[string]int, times int) bool {
	for kind, n := range b.counts(clients) {
		if n-before[kind] < times*enough[kind] {
			return false
		}
	}
	return true
}

// client is what one has printed.
type client struct {
	mu          sync.Mutex
	came, gapMs int
}

// Write takes a line, as a client writes each by itself.
func (c *client) Write(line []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := fmt.Sscanf(string(line), "%d %d", &c.came, &c.gapMs)
	return len(line), err
}

// told is how many bytes have come, and how many milliseconds the longest time without any took.
func (c *client) told() (came, gapMs int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.came, c.gapMs
}
