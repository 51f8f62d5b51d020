// Package mpi runs Open MPI between pods (Sun et al., Suo et al. 2018):
// all-to-all, ping-pong and a stream of messages. There is no ssh in a pod:
// mpirun runs in the first one, and an agent script enters the others.
//
// Every message passes the network stack, also between the ranks of one pod:
// shared memory is switched off, or pods that share a namespace would measure
// that. Latencies are whole operations; the OSU benchmarks print the half of a
// ping-pong. With more ranks than CPUs, waiting for a CPU is a part of it.
package mpi

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// Kind says what the ranks do.
type Kind string

// Kinds.
const (
	AllToAll Kind = "alltoall"
	PingPong Kind = "pingpong"
	Stream   Kind = "bandwidth"
)

// Exchange is the workload mpi-alltoall, mpi-pingpong or mpi-bandwidth.
type Exchange struct{ Kind Kind }

//go:embed ranks.c
var ranksSource []byte

//go:embed agent.sh
var agentScript []byte

// Limits of a trial.
const (
	// maxRanks in a pod; with 128 pairs that is more than a machine carries.
	maxRanks = 16
	maxSize  = 4 << 20
	// startTimeout bounds the time until all ranks are connected, besides what a
	// rank adds.
	startTimeout = 20 * time.Second
	startPerRank = 250 * time.Millisecond
	// endTimeout is how long after the window Open MPI may take to end, alongside
	// what a rank adds.
	endTimeout = 8 * time.Second
	endPerRank = 200 * time.Millisecond
)

// Info implements workload.Workload.
func (e Exchange) Info() workload.Info {
	info := workload.Info{
		Name:    "mpi-" + string(e.Kind),
		Summary: "MPI_Alltoall among all pods, messages of a size",
		Tool:    "Open MPI: whole operations by a program of our own, the mean over the ranks",
		Needs: []network.Need{network.NeedRoot(), network.NeedProgram("mpirun", "openmpi-bin"),
			network.NeedProgram("mpicc", "libopenmpi-dev"),
			network.NeedProgram("nsenter", "util-linux"), network.NeedProgram("unshare", "util-linux")},
		Metrics:     []string{sample.LatencyP50, sample.LatencyP99, sample.LatencyP999, sample.LatencyMean, sample.Rate},
		Knobs:       []string{"connections", "size"},
		Default:     sample.Load{Connections: 1, Size: 16 << 10}, // as Sun et al.
		Max:         sample.Load{Connections: maxRanks, Size: maxSize},
		Pairs:       true,
		OnlyIPv4:    "mpirun of Open MPI 4.1 does not connect ranks on hosts that are named by IPv6 addresses",
		MinDuration: 200 * time.Millisecond,
	}
	switch e.Kind {
	case PingPong:
		info.Summary = "MPI ping-pong between the pods of each pair, as osu_latency"
		info.Tool = "Open MPI: whole round trips by a program of our own"
		info.Default.Size = 8
	case Stream:
		info.Summary = "64 MPI messages at a time from client to server, as osu_bw"
		info.Tool = "Open MPI: payload that the receiving ranks acknowledged, by a program of our own"
		info.Default.Size = 1 << 20
		info.Metrics = []string{sample.Throughput}
	}
	return info
}

// trial is one run.
type trial struct {
	Exchange
	bed    workload.Bed
	load   sample.Load
	window workload.Window
	dir    string
	ranks  int
}

// Run implements workload.Workload.
func (e Exchange) Run(ctx context.Context, bed workload.Bed, load sample.Load, w workload.Window,
	m workload.Meter) (out workload.Outcome, err error) {
	dir, err := os.MkdirTemp(bed.Dir, "mpi-") // short: Open MPI makes sockets in it
	if err != nil {
		return out, fmt.Errorf("run %s: %w", e.Info().Name, err)
	}
	t := &trial{Exchange: e, bed: bed, load: load, window: w, dir: dir, ranks: 2 * len(bed.Pairs) * load.Connections}
	defer func() { err = errors.Join(err, t.awaitGone(), os.RemoveAll(dir)) }()
	asked, err := workload.AskCongestion(ctx, bed)
	var said []byte
	if err == nil {
		said, err = t.run(ctx, m)
	}
	if err == nil {
		out, err = t.outcome(said)
	}
	if err != nil {
		return out, fmt.Errorf("run %s: %w", e.Info().Name, err)
	}
	asked.Tell(&out, "Open MPI")
	return out, nil
}

// run compiles the program, runs it and returns what rank 0 printed.
func (t *trial) run(ctx context.Context, m workload.Meter) (said []byte, err error) {
	if err := t.write(); err != nil {
		return nil, err
	}
	first := t.bed.Pairs[0].Client
	if _, err := t.bed.Exec(ctx, first, "mpicc", "-O2", "-o", t.path("ranks"), t.path("ranks.c")); err != nil {
		return nil, fmt.Errorf("compile program: %w", err)
	}
	err = workload.Together(ctx, func(ctx context.Context, crew *workload.Crew) error {
		all := crew.Go(func(ctx context.Context) error {
			res, err := t.bed.Exec(ctx, first, t.args()...)
			said = res.Stdout
			return err
		})
		begin, err := t.awaitReady(ctx)
		if err != nil {
			return err
		}
		if _, err := workload.Measure(ctx, begin, t.window.Duration, m); err != nil {
			return err
		}
		limit := endTimeout + time.Duration(t.ranks)*endPerRank
		ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("MPI did not end within %v after the window", limit))
		defer cancel()
		return all.Wait(ctx)
	})
	return said, err
}

func (t *trial) path(name string) string { return filepath.Join(t.dir, name) }

// write puts into the directory what Open MPI is to run and where.
func (t *trial) write() error {
	hosts, pods, err := places(t.bed.Pairs, t.load.Connections)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(t.path("ranks.c"), ranksSource, 0o644),
		os.WriteFile(t.path("agent"), agentScript, 0o755),
		os.WriteFile(t.path("hosts"), []byte(hosts), 0o644),
		os.WriteFile(t.path("pods"), []byte(pods), 0o644))
}

// places lists the pods' addresses, clients first, with the ranks of each for
// mpirun, and their namespaces for the agent. Pods that share an address share
// a namespace, and are one place with the ranks of all.
func places(pairs []workload.Pair, each int) (hosts, pods string, err error) {
	slots, spaces := map[string]int{}, map[string]string{}
	var order []string
	for side := range 2 {
		for _, pair := range pairs {
			pod := pair.Client
			if side == 1 {
				pod = pair.Server
			}
			addr := pod.Address(family(pairs))
			if !addr.IsValid() {
				return "", "", fmt.Errorf("pod %s has no address", pod.Name)
			}
			name := addr.String()
			if other, seen := spaces[name]; !seen {
				order = append(order, name)
			} else if other != pod.Netns {
				return "", "", fmt.Errorf("pod %s shares its address %s with a pod elsewhere: MPI needs pods that reach each other by their addresses", pod.Name, name)
			}
			slots[name] += each
			spaces[name] = pod.Netns
		}
	}
	for _, name := range order {
		hosts += fmt.Sprintf("%s slots=%d\n", name, slots[name])
		pods += fmt.Sprintf("%s %s\n", name, netns.Path(spaces[name]))
	}
	return hosts, pods, nil
}

// family is the IP family by which pods are to reach each other; 0 where they do not tell.
func family(pairs []workload.Pair) int {
	if a := pairs[0].Server.Service.Addr(); a.IsValid() {
		return topo.FamilyOf(a)
	}
	return 0
}

// disable keeps Open MPI from the other IP family of pods that have both: it would use what
// it finds first.
func disable(pairs []workload.Pair) []string {
	speaks := family(pairs)
	other := map[int]int{topo.IPv4: topo.IPv6, topo.IPv6: topo.IPv4}[speaks]
	if other == 0 || !pairs[0].Server.Address(other).IsValid() {
		return nil
	}
	return []string{"--mca", "btl_tcp_disable_family", strconv.Itoa(other), "--mca",
		fmt.Sprintf("oob_tcp_disable_ipv%d_family", other), "true"}
}

// args is the command, in a process namespace of its own: when it is killed,
// all that it has started goes with it.
func (t *trial) args() []string {
	args := []string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
		"sh", "-c", `readlink /proc/self/ns/pid >"$0"; exec "$@"`, t.path("space"),
		"env", "TMPDIR=" + t.dir, "mpirun", "--allow-run-as-root", "--hostfile", t.path("hosts"), "-np",
		strconv.Itoa(t.ranks),
		// More ranks than CPUs: one that waits gives way.
		"--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
		"--mca", "pml", "ob1", "--mca", "btl", "tcp,self",
		"--mca", "plm_rsh_agent", t.path("agent"), "--mca", "plm_rsh_no_tree_spawn", "1", "--mca", "orte_tmpdir_base", t.dir}
	if devs := t.devices(); devs != "" {
		args = append(args, "--mca", "btl_tcp_if_include", devs, "--mca", "oob_tcp_if_include", devs)
	}
	args = append(args, disable(t.bed.Pairs)...)
	return append(args, t.path("ranks"), string(t.Kind), strconv.Itoa(t.load.Size),
		strconv.FormatInt(t.window.Warmup.Nanoseconds(), 10), strconv.FormatInt(t.window.Duration.Nanoseconds(), 10),
		t.path("ready"))
}

// awaitGone returns when nothing is left of the process namespace. The kernel
// ends what is in it after the program that made it has gone.
func (t *trial) awaitGone() error {
	space, err := os.ReadFile(t.path("space"))
	if err != nil {
		return nil // it has not begun
	}
	// on a busy machine the kernel takes seconds
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return network.Poll(ctx, 2*time.Millisecond, func() error {
		links, err := filepath.Glob("/proc/[0-9]*/ns/pid")
		if err != nil {
			return err
		}
		for _, link := range links {
			// One that has ended meanwhile cannot be read.
			pid := strings.Split(link, "/")[2]
			if got, err := os.Readlink(link); err == nil && got == strings.TrimSpace(string(space)) && !zombie(pid) {
				return fmt.Errorf("end Open MPI: process %s is still there", pid)
			}
		}
		return nil
	})
}

// zombie reports whether the process has ended and only its parent has not
// noticed. The state follows the name in /proc/PID/stat (proc(5)).
func zombie(pid string) bool {
	raw, err := os.ReadFile("/proc/" + pid + "/stat")
	return err != nil || strings.Contains(string(raw), ") Z ")
}

// devices names the pods' interfaces on the network, "" where pods have none of
// their own. Others, such as Docker's second one, lead elsewhere.
func (t *trial) devices() string {
	var out []string
	seen := map[string]bool{}
	for _, pair := range t.bed.Pairs {
		for _, at := range append(pair.Client.Attachments, pair.Server.Attachments...) {
			if at.Dev != "" && !seen[at.Dev] {
				seen[at.Dev] = true
				out = append(out, at.Dev)
			}
		}
	}
	return strings.Join(out, ",")
}

// awaitReady returns when the window begins, which rank 0 decides once all
// ranks are connected.
func (t *trial) awaitReady(ctx context.Context) (time.Time, error) {
	limit := startTimeout + time.Duration(t.ranks)*startPerRank
	ctx, cancel := context.WithTimeoutCause(ctx, limit,
		fmt.Errorf("%d ranks were not connected within %v", t.ranks, limit))
	defer cancel()
	var begin time.Time
	err := network.Poll(ctx, 2*time.Millisecond, func() error {
		raw, err := os.ReadFile(t.path("ready"))
		if err != nil {
			return err
		}
		ns, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
		if err != nil {
			return fmt.Errorf("read beginning: %w", err)
		}
		now, err := program.Monotonic()
		begin = time.Now().Add(time.Duration(ns) - now)
		return err
	})
	if err != nil {
		return begin, context.Cause(ctx)
	}
	return begin, nil
}
