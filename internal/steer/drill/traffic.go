package drill

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/topo"
)

// process is a generator in a pod. It ends when its standard input is closed,
// so it never outlives this process.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	out    output
	stderr output
	done   chan struct{}
	err    error
}

// output collects what a process prints, and tells when it says it listens.
type output struct {
	mu     sync.Mutex // of buf
	buf    bytes.Buffer
	once   sync.Once
	listen chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Write(p)
	if o.listen != nil && bytes.Contains(o.buf.Bytes(), []byte("listening ")) {
		o.once.Do(func() { close(o.listen) })
	}
	return len(p), nil
}

func (o *output) bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.buf.Bytes())
}

// generators are the programs that a ground's pods run.
type generators struct {
	self, mark string // this program, and how what a lab runs is marked
	port       uint16 // the latest server's
}

// generate starts "pathwise generate ARGS" in a pod; before is put in front,
// such as taskset and its arguments.
func (g *generators) generate(pod topo.Pod, before []string, args ...string) (*process, error) {
	argv := append(append([]string{}, before...), g.self, "generate")
	return g.start(pod, append(argv, args...))
}

// start starts a program in a pod.
func (g *generators) start(pod topo.Pod, argv []string) (*process, error) {
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{}),
		out: output{listen: make(chan struct{})}}
	p.cmd.Env = append(os.Environ(), g.mark)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.stderr
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", strings.Join(argv, " "), err)
	}
	p.stdin = stdin
	if err := netns.Start(pod.Netns, p.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", strings.Join(argv, " "), err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// report tells a generator of streams to end and reads what it saw.
func (p *process) report() (stream.Report, error) {
	out, err := p.finish()
	if err != nil {
		return stream.Report{}, err
	}
	return stream.Parse(out)
}

// finish tells the generator to end and returns what it printed.
func (p *process) finish() ([]byte, error) {
	p.stdin.Close()
	select {
	case <-p.done:
	case <-time.After(20 * time.Second):
		_ = p.cmd.Process.Kill() // it may just have ended
		<-p.done
		return nil, fmt.Errorf("generator %s: %w", strings.Join(p.cmd.Args[2:], " "), errHangs)
	}
	if p.err != nil {
		return nil, fmt.Errorf("generator %s: %w: %s", strings.Join(p.cmd.Args[2:], " "), p.err,
			bytes.TrimSpace(p.stderr.bytes()))
	}
	return p.out.bytes(), nil
}

// died is why a program that should serve does not any more, as far as it said.
func (p *process) died() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended: %v: %s", filepath.Base(p.cmd.Path), p.err, bytes.TrimSpace(p.stderr.bytes()))
	default:
		return nil
	}
}

var errHangs = errors.New("it did not end when told to")

// flow is traffic between two pods.
type flow struct {
	kind           stream.Kind
	server, client *process
	// target is where the server listens; the port is 0 where there is none.
	target netip.AddrPort
	// dir is for what a server of the user's keeps; "" where there is none.
	dir string
}

// traffic says what a flow is.
type traffic struct {
	kind     stream.Kind
	from, to topo.Pod
	// at is the server's address; the zero value is the pod's stable one.
	at netip.Addr
	// pin puts both ends on one CPU: "1"; "" leaves it to the kernel. serverPin is
	// another one for the server.
	pin, serverPin string
	mptcp          bool
	args           []string
}

// begin starts the server, then the client.
func (g *generators) begin(ctx context.Context, t traffic) (*flow, error) {
	f, err := g.serve(ctx, t)
	if err != nil {
		return nil, err
	}
	target := f.target.String()
	if t.kind == stream.ICMP {
		target = f.target.Addr().String()
	}
	args := append([]string{"stream", string(t.kind), "--target", target}, t.mode()...)
	if f.client, err = g.generate(t.from, onCPU(t.pin), append(args, t.args...)...); err != nil {
		return nil, errors.Join(err, f.abandon())
	}
	return f, nil
}

// serve starts the server, where the kind has one, and waits until it listens.
func (g *generators) serve(ctx context.Context, t traffic) (*flow, error) {
	if !t.at.IsValid() {
		t.at = t.to.Addr()
	}
	f := &flow{kind: t.kind, target: netip.AddrPortFrom(t.at, 0)}
	if t.kind == stream.ICMP {
		return f, nil
	}
	// Another port each time: none waits for a connection's TIME_WAIT.
	g.port = 6000 + (g.port-6000+1)%20000
	f.target = netip.AddrPortFrom(t.at, g.port)
	// Any address: MPTCP's second subflow comes to another one.
	listen := f.target
	if t.mptcp {
		listen = netip.AddrPortFrom(netip.IPv4Unspecified(), g.port)
	}
	var err error
	args := append([]string{"stream", "serve", string(t.kind), "--listen", listen.String()}, t.mode()...)
	if f.server, err = g.generate(t.to, onCPU(cmp.Or(t.serverPin, t.pin)), args...); err != nil {
		return nil, err
	}
	select {
	case <-f.server.out.listen:
		return f, nil
	case <-f.server.done:
		_, err := f.server.report()
		return nil, errors.Join(errNoServer, err)
	case <-time.After(10 * time.Second):
		return nil, errors.Join(errNoServer, f.abandon())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), f.abandon())
	}
}

// mode is what both ends are told.
func (t traffic) mode() []string {
	if t.mptcp {
		return []string{"--mptcp"}
	}
	return nil
}

// onCPU is what keeps a command on a CPU; "" leaves it to the kernel.
func onCPU(cpu string) []string {
	if cpu == "" {
		return nil
	}
	return []string{"taskset", "-c", cpu}
}

// beginAll begins several flows. Those that did begin are returned with an error.
func (g *generators) beginAll(ctx context.Context, all []traffic) (flows []*flow, err error) {
	for _, t := range all {
		f, err := g.begin(ctx, t)
		if err != nil {
			return flows, err
		}
		flows = append(flows, f)
	}
	return flows, nil
}

var errNoServer = errors.New("the server does not listen")

// end ends both ends and returns what they saw; ICMP has no server.
func (f *flow) end() (client, server stream.Report, err error) {
	client, err = f.client.report()
	if f.server != nil {
		var e error
		server, e = f.server.report()
		err = errors.Join(err, e)
	}
	return client, server, err
}

// wait waits for the client to end by itself.
func (f *flow) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.client.done:
		return nil
	}
}

// abandon ends the flow without asking what it saw.
func (f *flow) abandon() error {
	for _, p := range []*process{f.client, f.server} {
		if p != nil {
			p.stdin.Close()
			_ = p.cmd.Process.Kill() // it may just have ended
			<-p.done
		}
	}
	if f.dir == "" {
		return nil
	}
	return os.RemoveAll(f.dir)
}

// keep writes a report alongside the samples, compressed.
func (s *session) keep(out *Sample, what string, r stream.Report) error {
	name := strings.Map(func(r rune) rune {
		if r == ' ' || r == '/' {
			return '-'
		}
		return r
	}, fmt.Sprintf("%s-%d-%s-%s.json.gz", out.Drill, out.Repetition, out.Variant, what))
	f, err := s.file("streams", name)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(f)
	err = errors.Join(json.NewEncoder(z).Encode(r), z.Close(), f.Close())
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	out.Reports = append(out.Reports, "streams/"+name)
	return nil
}

// judge adds what must never happen: connections lost, content corrupted.
func judge(out *Sample, reports ...stream.Report) {
	for _, r := range reports {
		out.Values["connections_lost"] += float64(r.Counts.Connections.Lost)
		out.Values["corrupt"] += float64(r.Counts.Corrupt)
		for reason := range r.Errors.Reasons {
			out.Text["error "+string(r.Kind)+" "+string(r.Role)] = reason
		}
	}
}

// lastCPU is where traffic is pinned: the first CPU serves more interrupts.
func lastCPU() string { return strconv.Itoa(runtime.NumCPU() - 1) }

// nextCPU is another CPU alongside it, where there is one.
func nextCPU() string { return strconv.Itoa(max(runtime.NumCPU()-2, 0)) }
