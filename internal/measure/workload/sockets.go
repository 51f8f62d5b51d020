package workload

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/topo"
)

// Proto is a transport protocol, as the kernel's socket tables are called.
type Proto string

// Protocols.
const (
	TCP Proto = "tcp"
	UDP Proto = "udp"
)

// Sockets is a look at a pod's socket tables: whether a server listens and how
// many peers it has is known without sending it a packet.
type Sockets struct {
	proto Proto
	files []*os.File
	// read reads the tables where the pod is on another kernel; nil otherwise.
	read func() ([][]byte, error)
}

// OpenSockets opens the pod's tables for the protocol. The caller closes them.
func OpenSockets(g Ground, pod topo.Pod, proto Proto) (*Sockets, error) {
	s := &Sockets{proto: proto}
	// The files stay those of the namespace in which they were opened, so they
	// can be read later from any thread.
	err := g.Do(pod, func() error {
		for _, name := range []string{string(proto), string(proto) + "6"} {
			f, err := os.Open("/proc/thread-self/net/" + name)
			if errors.Is(err, os.ErrNotExist) {
				continue // a kernel without IPv6
			} else if err != nil {
				return err
			}
			s.files = append(s.files, f)
		}
		return nil
	})
	if errors.Is(err, program.ErrElsewhere) {
		s.read = func() ([][]byte, error) { return tables(g, pod, proto) }
		return s, nil
	}
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("open socket tables of pod %s: %w", pod.Name, err)
	}
	return s, nil
}

// Close closes the tables.
func (s *Sockets) Close() {
	for _, f := range s.files {
		f.Close()
	}
}

// Count returns how many sockets on the local port wait for peers, and how
// many have one.
func (s *Sockets) Count(port uint16) (listening, connected int, err error) {
	texts, err := s.texts()
	if err != nil {
		return 0, 0, fmt.Errorf("read socket table: %w", err)
	}
	for _, raw := range texts {
		socks, err := parseSockets(raw)
		if err != nil {
			return 0, 0, fmt.Errorf("read socket table: %w", err)
		}
		for _, k := range socks {
			switch {
			case k.port != port:
			case k.state == stateEstablished:
				connected++
			case k.state == stateListen && s.proto == TCP, k.state == stateClose && s.proto == UDP:
				listening++
			}
		}
	}
	return listening, connected, nil
}

// texts reads the tables.
func (s *Sockets) texts() ([][]byte, error) {
	if s.read != nil {
		return s.read()
	}
	var out [][]byte
	for _, f := range s.files {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		raw, err := io.ReadAll(f)
		if err != nil {
			return nil, err
		}
		out = append(out, raw)
	}
	return out, nil
}

// tables has a program in the pod read the tables, each of which begins with a
// line of titles.
func tables(g Ground, pod topo.Pod, proto Proto) ([][]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	const title = "local_address"
	res, err := g.Exec(ctx, pod, "cat", "/proc/net/"+string(proto), "/proc/net/"+string(proto)+"6")
	if n := bytes.Count(res.Stdout, []byte(title)); n == 0 { // a kernel without IPv6 has one
		return nil, errors.Join(err, errors.New("no socket table"))
	}
	var out [][]byte
	for line := range bytes.Lines(res.Stdout) {
		if bytes.Contains(line, []byte(title)) {
			out = append(out, nil)
		}
		if len(out) > 0 {
			out[len(out)-1] = append(out[len(out)-1], line...)
		}
	}
	return out, nil
}

// States of include/net/tcp_states.h; UDP sockets borrow two of them.
const (
	stateEstablished = 1
	stateClose       = 7
	stateListen      = 10
)

type socket struct {
	port  uint16
	state uint8
}

// parseSockets reads the text of /proc/net/{tcp,udp}{,6} (proc_net_tcp.txt).
func parseSockets(raw []byte) ([]socket, error) {
	var out []socket
	scan := bufio.NewScanner(bytes.NewReader(raw))
	for n := 1; scan.Scan(); n++ {
		// sl: local remote state ...; addresses are HEX:PORT, the port 4 hex digits
		f := strings.Fields(scan.Text())
		if n == 1 || len(f) == 0 {
			continue
		}
		if len(f) < 4 {
			return nil, fmt.Errorf("line %d: too short", n)
		}
		_, hex, _ := strings.Cut(f[1], ":")
		port, err := strconv.ParseUint(hex, 16, 16)
		if err != nil {
			return nil, fmt.Errorf("line %d: local port: %w", n, err)
		}
		state, err := strconv.ParseUint(f[3], 16, 8)
		if err != nil {
			return nil, fmt.Errorf("line %d: state: %w", n, err)
		}
		out = append(out, socket{uint16(port), uint8(state)})
	}
	return out, scan.Err()
}

// AwaitListening returns when a server listens on the pod's service port. The
// caller bounds the wait by ctx.
func AwaitListening(ctx context.Context, g Ground, pod topo.Pod, proto Proto) error {
	return await(ctx, g, pod, proto, func(listening, _ int) error {
		if listening == 0 {
			return fmt.Errorf("nothing listens on %s port %d", proto, pod.Listen)
		}
		return nil
	})
}

// AwaitConnected returns when the pod's server has that many peers on its
// service port. The caller bounds the wait by ctx.
func AwaitConnected(ctx context.Context, g Ground, pod topo.Pod, proto Proto, peers int) error {
	return await(ctx, g, pod, proto, func(_, connected int) error {
		if connected < peers {
			return fmt.Errorf("%d of %d clients connected to %v (%s port %d)", connected, peers, pod.Service, proto, pod.Listen)
		}
		return nil
	})
}

// await polls the pod's sockets on its service port until they are as they should be.
func await(ctx context.Context, g Ground, pod topo.Pod, proto Proto, check func(listening, connected int) error) error {
	s, err := OpenSockets(g, pod, proto)
	if err != nil {
		return err
	}
	defer s.Close()
	err = network.Poll(ctx, time.Millisecond, func() error {
		listening, connected, err := s.Count(pod.Listen)
		if err != nil {
			return err
		}
		return check(listening, connected)
	})
	if err != nil {
		return fmt.Errorf("wait for server in pod %s: %w: %w", pod.Name, context.Cause(ctx), err)
	}
	return nil
}

// AwaitServers returns when the servers of all pairs listen, or after 20 seconds with an
// error that names one that does not. In a guest of a machine under load 15, servers were
// seen to take 5 to 10 seconds.
func AwaitServers(ctx context.Context, bed Bed, proto Proto) error {
	const limit = 20 * time.Second
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("gave up after %v", limit))
	defer cancel()
	for _, pair := range bed.Pairs {
		if err := AwaitListening(ctx, bed, pair.Server, proto); err != nil {
			return err
		}
	}
	return nil
}
