package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/internal/topo"
)

// realProgram is traffic between pods a and b over so many connections, in which pod a sends.
type realProgram struct {
	name string
	// pulls: pod b opens the connections, and pod a is the server that fills them.
	pulls bool
	// asks: it waits for each answer, where the others move what they can.
	asks bool
	// connects: each request is a connection of its own, which begins on the default network.
	connects bool
	begin    func(ctx context.Context, g *ground, j job) (*transfer, error)
}

// job is what a program is to do: so many connections, for so long.
type job struct {
	connections int
	span        time.Duration
	// over is a network whose own addresses the server listens at; "" for the pod's stable one.
	over string
}

// realPrograms are what people run, and Pathwise's own streams, which are the only ones that
// tell when bytes come.
func realPrograms() []realProgram {
	return []realProgram{{name: "iperf3", begin: beginIperf3}, {name: "nginx", pulls: true, begin: beginNginx},
		{name: ownStream, begin: beginStream}, {name: "wrk", pulls: true, asks: true, begin: beginWrk},
		{name: "wrk-close", pulls: true, asks: true, connects: true, begin: beginWrkClose},
		{name: "sockperf", asks: true, begin: beginSockperf}}
}

const ownStream = "stream"

// programNames are those that fit.
func programNames(fits func(realProgram) bool) (out []string) {
	for _, p := range realPrograms() {
		if fits(p) {
			out = append(out, p.name)
		}
	}
	return out
}

func isBulk(p realProgram) bool   { return !p.asks }
func isOthers(p realProgram) bool { return p.name != ownStream }
func isAny(realProgram) bool      { return true }

// programNamed is the program of a name that the file's reader has taken.
func programNamed(name string) realProgram {
	all := realPrograms()
	return all[max(slices.IndexFunc(all, func(p realProgram) bool { return p.name == name }), 0)]
}

// transfer is such a program under way.
type transfer struct {
	port uint16
	// in is a process that it has in pod a.
	in *process
	// end waits until it has ended, and tells what it carried per second, by its own word.
	// The report is a stream's; other programs have none.
	end func() (bits float64, report *stream.Report, err error)
	// answers waits until it has ended, and tells how long it waited for answers; nil for programs that do not ask.
	answers func() (waits, error)
	// stop ends what still runs.
	stop func()
}

// kill ends a program that does not heed its standard input.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// listens waits until a program listens at a port of a pod.
func (g *ground) listens(ctx context.Context, pod topo.Pod, p *process, port uint16) error {
	return until(ctx, 10*time.Second, 20*time.Millisecond, p.cmd.Args[0]+" listens", func() (bool, error) {
		if err := p.died(); err != nil {
			return false, err
		}
		out, err := g.lab.Run(ctx, pod.Netns, "ss", "-Htln", "sport", "=", ":"+strconv.Itoa(int(port)))
		return len(out) > 0, err
	})
}

// connected waits until a server's connections with pod a are made.
func (g *ground) connected(ctx context.Context, server uint16, connections int) error {
	port := ":" + strconv.Itoa(int(server))
	// Many handshakes meet a queue that the leg before has filled: TCP repeats a SYN
	// after 1, 3 and 7 s.
	return until(ctx, 15*time.Second, 20*time.Millisecond, "connections are made", func() (bool, error) {
		out, err := g.lab.Run(ctx, g.pod("a").Netns, "ss", "-Htn", "state", "established", "(", "sport", "=", port, "or",
			"dport", "=", port, ")")
		return strings.Count(string(out), "\n") >= connections, err
	})
}

// startPair starts a program's server in one pod and, once that listens, its client in the other.
func (g *ground) startPair(ctx context.Context, server, client topo.Pod, serve, ask []string) (
	*transfer, *process, error,
) {
	t := &transfer{port: g.port}
	for _, argv := range [][]string{serve, ask} {
		path, err := network.FindProgram(argv[0])
		if err != nil {
			return nil, nil, err
		}
		argv[0] = path
	}
	s, err := g.start(server, serve)
	if err != nil {
		return nil, nil, err
	}
	t.stop = s.kill
	if err := g.listens(ctx, server, s, t.port); err != nil {
		t.stop()
		return nil, nil, err
	}
	c, err := g.start(client, ask)
	if err != nil {
		t.stop()
		return nil, nil, err
	}
	t.stop = func() { c.kill(); s.kill() }
	if t.in = c; server.Name == "a" {
		t.in = s
	}
	return t, c, nil
}

// ends are the pods of a program: the one that opens connections, and the other one.
func (g *ground) ends(p realProgram) (opener, other topo.Pod) {
	opener, other = g.pod("a"), g.pod("b")
	if p.pulls {
		opener, other = other, opener
	}
	return opener, other
}

// address is where the server listens in a pod.
func (j job) address(pod topo.Pod) netip.Addr {
	if at, ok := pod.On(j.over); ok {
		return at.Addr
	}
	return pod.Addr()
}

// nextPort is another one each time: none waits for a connection's TIME_WAIT.
func (g *generators) nextPort() string {
	g.port = 6000 + (g.port-6000+1)%20000
	return strconv.Itoa(int(g.port))
}

// wholeSeconds is how long a program runs that counts whole ones.
func wholeSeconds(d time.Duration) string { return strconv.Itoa(max(int(math.Ceil(d.Seconds())), 1)) }

func beginIperf3(ctx context.Context, g *ground, j job) (*transfer, error) {
	b, port := g.pod("b"), g.nextPort()
	at := j.address(b).String()
	t, client, err := g.startPair(ctx, b, g.pod("a"), []string{"iperf3", "-s", "-1", "-B", at, "-p", port},
		[]string{"iperf3", "-c", at, "-p", port, "-P", strconv.Itoa(j.connections), "-t", wholeSeconds(j.span), "-J"})
	if err != nil {
		return nil, err
	}
	t.end = func() (float64, *stream.Report, error) {
		out, err := client.finish()
		if err != nil {
			return 0, nil, err
		}
		bits, err := iperf3Received(out)
		return bits, nil, err
	}
	return t, nil
}

// iperf3Received is what iperf3's receiver got per second.
func iperf3Received(out []byte) (float64, error) {
	var r struct {
		Error string `json:"error"`
		End   struct {
			Received struct {
				Bits float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return 0, fmt.Errorf("read iperf3's report: %w", err)
	}
	if r.Error != "" {
		return 0, fmt.Errorf("iperf3: %w: %s", errFailed, r.Error)
	}
	return r.End.Received.Bits, nil
}

var errFailed = errors.New("it failed")

// nginxFile is what nginx serves of the drill.
const nginxFile = "large"

// serveNginx starts nginx in pod a, which serves a file of so many zeros, and a client of it in
// pod b by the arguments that ask gives for the file's URL.
func (g *ground) serveNginx(ctx context.Context, j job, size int64, ask func(url string) []string) (
	*transfer, *process, error,
) {
	a, port := g.pod("a"), g.nextPort()
	dir, err := os.MkdirTemp(g.lab.Dir(), "nginx-")
	if err != nil {
		return nil, nil, fmt.Errorf("make directory of nginx: %w", err)
	}
	leave := func() { _ = os.RemoveAll(dir) } // what is left goes with the lab
	at := j.address(a).String() + ":" + port
	// One sendfile(2) of 2 MiB, as nginx does by itself, holds a processor for up to 19 ms where the kernel is not
	// preempted (PREEMPT_NONE) and packets go as far as the other pod in it: what waits there is no network's.
	conf := fmt.Sprintf("daemon off; master_process off; user root; pid nginx.pid; error_log stderr;\n"+
		"events {} http { access_log off; sendfile on; sendfile_max_chunk 64k; keepalive_requests 2000000000; "+
		"server { listen %s; root %s; } }\n", at, dir)
	err = errors.Join(os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o644),
		sparse(filepath.Join(dir, nginxFile), size))
	if err != nil {
		leave()
		return nil, nil, fmt.Errorf("prepare nginx: %w", err)
	}
	t, client, err := g.startPair(ctx, a, g.pod("b"), []string{"nginx", "-p", dir, "-e", "stderr", "-c",
		filepath.Join(dir, "nginx.conf")}, ask("http://"+at+"/"+nginxFile))
	if err != nil {
		leave()
		return nil, nil, err
	}
	stop := t.stop
	t.stop = func() { stop(); leave() }
	return t, client, nil
}

// beginNginx has curl fetch a file from nginx over several connections at once, for so long.
func beginNginx(ctx context.Context, g *ground, j job) (*transfer, error) {
	ask := []string{"curl", "-sS", "-Z", "--parallel-immediate", "--parallel-max", strconv.Itoa(j.connections),
		"--max-time", strconv.FormatFloat(j.span.Seconds(), 'f', 3, 64), "-w", `%{size_download} %{time_total}\n`}
	const most = 10e9 // bytes per second
	t, client, err := g.serveNginx(ctx, j, int64(most*j.span.Seconds()), func(url string) []string {
		for range j.connections {
			ask = append(ask, "-o", "/dev/null", url)
		}
		return ask
	})
	if err != nil {
		return nil, err
	}
	t.end = func() (float64, *stream.Report, error) {
		out, err := client.finish()
		if code := (*exec.ExitError)(nil); errors.As(err, &code) && code.ExitCode() == curlTimedOut {
			out, err = client.out.bytes(), nil // its time is over
		}
		if err != nil {
			return 0, nil, err
		}
		bits, err := curlReceived(out)
		return bits, nil, err
	}
	return t, nil
}

// curlTimedOut is curl's exit code when the time is over that it was given (curl(1)).
const curlTimedOut = 28

// curlReceived is what curl's transfers got together per second.
func curlReceived(out []byte) (float64, error) {
	bytes, longest := 0.0, 0.0
	for line := range strings.Lines(string(out)) {
		var n, took float64
		if _, err := fmt.Sscan(line, &n, &took); err != nil {
			return 0, fmt.Errorf("read curl's report %q: %w", strings.TrimSpace(line), err)
		}
		bytes, longest = bytes+n, max(longest, took)
	}
	if longest <= 0 {
		return 0, fmt.Errorf("curl: %w: no transfer is told", errFailed)
	}
	return 8 * bytes / longest, nil
}

// sparse makes a file of so many zeros, which takes no room.
func sparse(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("make file: %w", err)
	}
	return errors.Join(f.Truncate(size), f.Close())
}

func beginStream(ctx context.Context, g *ground, j job) (*transfer, error) {
	f, err := g.begin(ctx, traffic{kind: stream.TCP, from: g.pod("a"), to: g.pod("b"), at: j.address(g.pod("b")),
		args: []string{"--duration", "0", "--connections", strconv.Itoa(j.connections)}})
	if err != nil {
		return nil, err
	}
	ended := false
	return &transfer{port: g.port, end: func() (float64, *stream.Report, error) {
		client, server, err := f.end()
		ended = true
		server.Counts.Connections.Lost += client.Counts.Connections.Lost
		return 8 * stream.Throughput(server, client.Started.Monotonic, client.Ended), &server, err
	}, stop: func() {
		if !ended {
			_ = f.abandon()
		}
	}}, nil
}

// beginWrk has wrk ask nginx for a small file again and again on lasting connections.
func beginWrk(ctx context.Context, g *ground, j job) (*transfer, error) { return g.wrk(ctx, j) }

// beginWrkClose is the same on a connection for each request.
func beginWrkClose(ctx context.Context, g *ground, j job) (*transfer, error) {
	return g.wrk(ctx, j, "-H", "Connection: close")
}

func (g *ground) wrk(ctx context.Context, j job, how ...string) (*transfer, error) {
	const small = 1000
	t, client, err := g.serveNginx(ctx, j, small, func(url string) []string {
		argv := []string{"wrk", "--latency", "-t", "1", "-c", strconv.Itoa(j.connections), "-d", wholeSeconds(j.span) + "s"}
		return append(append(argv, how...), url)
	})
	return asked(t, client, wrkWaits), err
}

// beginSockperf has sockperf send one message after the other, each when the one before is answered.
func beginSockperf(ctx context.Context, g *ground, j job) (*transfer, error) {
	b, port := g.pod("b"), g.nextPort()
	at := j.address(b).String()
	t, client, err := g.startPair(ctx, b, g.pod("a"), []string{"sockperf", "server", "--tcp", "-i", at, "-p", port},
		[]string{"sockperf", "ping-pong", "--full-rtt", "--tcp", "-i", at, "-p", port, "-t", wholeSeconds(j.span)})
	return asked(t, client, sockperfWaits), err
}
