package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/decide"
)

// agentFlags are those of "agent".
type agentFlags struct {
	lab, host, cluster, dir, keyFile     string
	policy, need, table, record, metrics string
	share                                string
	logFormat                            string
	kubeconfig, ownPod, cgroup           string
	hostNetns, prior                     string
	encapsulate                          []string
	kube, dryRun, remove, stay           bool
	rtoMin                               time.Duration
	seed                                 uint64
}

func agentCommand(e env) *cobra.Command {
	var f agentFlags
	cmd := &cobra.Command{
		Use: "agent", Short: "Run an agent, which keeps a host's pods on their best networks",
		Long: `Watch the pods of a host that are on several networks, probe the paths to the
other hosts, and move live traffic to the best one. In a lab, without --host, it
runs one agent for each host. It ends at Ctrl-C; traffic then falls back to the
default network within three seconds, unless a new agent takes over. What it
has put into the pods stays until "lab down", or --remove: programs and routes.

Keys (--key-file; in a lab its agent.key) turn over without a pause: give every host
a file with the new one, in any order, within an hour. What is no longer in the file
is accepted for two minutes or more, until all agents have a key that is.

Its events go to DIR/agent-HOST.events.jsonl; see also "pathwise paths" and
"pathwise events". Policies: cost-aware moves for gain only where the gain over
ten seconds exceeds the measured loss by a switch, and always on failure; table
looks the load up in a recommendation; static:NETWORK goes there and stays, also
where it fails.`,
		Example: `  pathwise lab up --network routed-bgp,vxlan && pathwise agent
  pathwise agent --host h1 --dry-run
  pathwise agent --policy static:vxlan --need latency
  pathwise agent --encapsulate routed-bgp        # where translation cannot cross a network
  pathwise agent --host n1 --cluster cluster.json --dir /run/pathwise-n1 --key-file key
  pathwise agent --host n1 --cluster cluster.json --dir /run/pathwise-n1 --remove`,
		Args: exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runAgent(cmd.Context(), e, f) },
	}
	fl := cmd.Flags()
	labFlag(e, cmd, &f.lab)
	fl.StringVar(&f.host, "host", "", "host whose pods to steer (in a lab: each host)")
	fl.StringVar(&f.cluster, "cluster", "", "file with hosts and pods as JSON, instead of a lab")
	fl.StringVar(&f.dir, "dir", "", "with --cluster: directory for socket, lock and events")
	fl.StringVar(&f.keyFile, "key-file", "",
		"with --cluster: file with the keys that the cluster's agents share, one a line, the current one first; read again when it changes")
	fl.StringVar(&f.policy, "policy", "cost-aware", "cost-aware, table, hysteresis or static:NETWORK")
	fl.StringVar(&f.need, "need", "auto", "what pairs need: throughput, latency, robust, or auto to learn it")
	fl.StringVar(&f.share, "share", "off",
		"on or off: whether bulk of many connections may share several networks (policy cost-aware)")
	fl.StringVar(&f.table, "table", "", "result directory of a bench, as prior and for the policy table")
	fl.StringSliceVar(&f.encapsulate, "encapsulate", nil,
		"networks on which steered packets go in UDP, as they track connections or change the DSCP (with --cluster: a key of its file)")
	kubeFlags(cmd, &f)
	fl.BoolVar(&f.dryRun, "dry-run", false, "decide and log, but move nothing")
	fl.BoolVar(&f.remove, "remove", false,
		"take out of the pods what agents that have ended have put there (4 s: flows go home first)")
	fl.BoolVar(&f.stay, "stay", false, "with --remove and --host: stay until told to end, as what a DaemonSet runs does")
	fl.DurationVar(&f.rtoMin, "rto-min", agent.DefaultRTOMin,
		"least TCP retransmission timeout towards steered peers (0: the kernel's 200ms)")
	fl.StringVar(&f.metrics, "metrics", "", "ADDRESS:PORT for Prometheus (with --host)")
	fl.StringVar(&f.record, "record", "", "write evidence to FILE (with --host; else FILE-HOST) for \"pathwise replay\"")
	fl.StringVar(&f.logFormat, "log", "text", "log format: text or json")
	fl.Uint64Var(&f.seed, "seed", 0, "seed of random delays (0: random, and logged)")
	_ = cmd.RegisterFlagCompletionFunc("policy",
		cobra.FixedCompletions([]string{"cost-aware", "table", "hysteresis", "static:"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("share", cobra.FixedCompletions(onOff(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("need", cobra.FixedCompletions([]string{"auto", "throughput", "latency", "robust"},
		cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (f agentFlags) check() error {
	if f.cluster != "" && (f.host == "" || f.dir == "" || f.keyFile == "" && !f.remove) {
		return usageError{errors.New("agent: --cluster needs --host, --dir and --key-file")}
	}
	if err := f.checkKube(); err != nil {
		return err
	}
	if f.cluster != "" && f.lab != "" {
		return usageError{errors.New("agent: expected --lab or --cluster, not both")}
	}
	if f.cluster != "" && len(f.encapsulate) > 0 {
		return usageError{errors.New("agent: --encapsulate is for labs: the cluster's file has \"encapsulated\"")}
	}
	if f.stay && (!f.remove || f.host == "") {
		return usageError{errors.New("agent: --stay needs --remove and --host")}
	}
	if f.host == "" && f.metrics != "" {
		return usageError{errors.New("agent: --metrics needs --host: each agent has an address of its own")}
	}
	if f.host != "" {
		if err := agent.CheckHost(f.host); err != nil {
			return usageError{fmt.Errorf("agent: --host: %w", err)}
		}
	}
	if !slices.Contains(decide.Needs(), decide.Need(f.need)) {
		return usageError{fmt.Errorf("agent: --need %q: expected one of %v", f.need, decide.Needs())}
	}
	if err := checkShare(f.share); err != nil {
		return err
	}
	if f.logFormat != "text" && f.logFormat != "json" {
		return usageError{fmt.Errorf("agent: --log %q: expected text or json", f.logFormat)}
	}
	if f.rtoMin != 0 && (f.rtoMin < time.Millisecond || f.rtoMin > 10*time.Second) {
		return usageError{fmt.Errorf("agent: --rto-min %v: expected 0, or 1ms to 10s", f.rtoMin)}
	}
	return nil
}

func runAgent(ctx context.Context, e env, f agentFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	if err := leastPrivilege(e, f.hostNetns); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	if err := tellMissing(e); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	promised, err := readPrior(f)
	if err != nil {
		return err
	}
	if f.seed == 0 {
		if f.seed, err = randomSeed(); err != nil {
			return err
		}
	}
	policy, err := decide.ParsePolicy(f.policy, promised.Table, f.seed)
	if err != nil {
		return usageError{fmt.Errorf("agent: %w", err)}
	}
	if err := needMachineRoot("agent needs", "to attach eBPF programs"); err != nil {
		return err
	}
	cfg := agent.Config{Policy: sharing(policy, f.share), Need: decide.Need(f.need), DryRun: f.dryRun, RTOMin: f.rtoMin,
		Prior: promised.Rates, CPU: promised.CPU, Now: e.now}
	switch {
	case f.kube:
		return kubeAgent(ctx, e, f, cfg)
	case f.cluster != "":
		return clusterAgent(ctx, e, f, cfg)
	}
	st, err := chooseLab(e, f.lab)
	if err != nil {
		return err
	}
	if !st.Spec.Agents {
		return fmt.Errorf("lab %s has no pods for agents: give its file several networks, or \"agents: true\"", st.Spec.Name)
	}
	for _, n := range f.encapsulate {
		if !slices.Contains(st.Spec.Networks, n) {
			return usageError{fmt.Errorf("agent: --encapsulate %q: expected networks of lab %s: %s", n, st.Spec.Name,
				strings.Join(st.Spec.Networks, ", "))}
		}
	}
	if f.host == "" {
		return labAgents(ctx, e, f, st)
	}
	return labAgent(ctx, e, f, st, cfg)
}

// clusterAgent runs the agent of one host by a file.
func clusterAgent(ctx context.Context, e env, f agentFlags, cfg agent.Config) error {
	cfg.Source = whenChanged(f.cluster, func() (c agent.Cluster, err error) {
		file, err := os.Open(f.cluster)
		if err != nil {
			return c, fmt.Errorf("read cluster: %w", err)
		}
		defer file.Close()
		return agent.ParseCluster(f.cluster, file)
	})
	// A mistake is told before anything is made.
	if _, err := cfg.Source(); err != nil {
		return err
	}
	return hostAgent(ctx, e, f, cfg)
}

// oneAgent runs an agent with its socket and files in dir.
func oneAgent(ctx context.Context, e env, f agentFlags, dir string, cfg agent.Config) error {
	base := filepath.Join(dir, "agent-"+f.host)
	unlock, err := lockFile(base + ".lock")
	if err != nil {
		return fmt.Errorf("agent of %s: %w", f.host, err)
	}
	defer unlock()
	if f.remove {
		if err := agent.Remove(ctx, cfg); err != nil {
			return fmt.Errorf("take out of the pods of %s: %w", f.host, err)
		}
		if f.stay {
			<-ctx.Done()
		}
		return nil
	}
	events, err := openOwn(base+".events.jsonl", os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open events: %w", err)
	}
	defer events.Close()
	cfg.Events = events
	if f.record != "" {
		rec, err := os.OpenFile(f.record, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("record evidence: %w", err)
		}
		defer rec.Close()
		cfg.Evidence = rec
	}
	if cfg.Cgroup, err = f.cgroupRoot(); err != nil {
		fmt.Fprintf(e.stderr, "pathwise: no telemetry of connections: %v\n", err)
	}
	cfg.Log = slog.New(logHandler(f.logFormat, e.stderr)).With("host", f.host)
	// The loop is all that has to be done in time. With more processors the runtime
	// wakes another thread with every packet, to look for work that there is not.
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	if err := hurry(); err != nil {
		cfg.Log.Warn("cannot raise own priority: failures are seen later while the CPUs are busy", "error", err)
	}
	cfg.Log.Info("start", "policy", f.policy, "seed", f.seed)
	a, err := agent.New(cfg)
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	return runServed(ctx, f, dir, a)
}

// runServed runs an agent, and answers on its control socket and for metrics meanwhile.
func runServed(ctx context.Context, f agentFlags, dir string, a *agent.Agent) error {
	l, err := agent.Listen(dir, f.host)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() { cancel(a.Serve(ctx, l)) })
	if f.metrics != "" {
		if err := serveMetrics(ctx, &wg, f.metrics, a); err != nil {
			return err
		}
	}
	err = a.Run(ctx)
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.Canceled) {
		err = errors.Join(err, context.Cause(ctx))
	}
	return err
}

// hurry gives the agent's threads, and those that they will start, precedence
// over ordinary ones: it needs little CPU time, but within milliseconds.
func hurry() error {
	const nice = -15
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("list threads: %w", err)
	}
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, tid, nice); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("set priority: %w", err)
		}
	}
	return nil
}

func serveMetrics(ctx context.Context, wg *sync.WaitGroup, addr string, a *agent.Agent) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	srv := &http.Server{Handler: a.Metrics(), ReadTimeout: 5 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 5 * time.Minute}
	wg.Go(func() { _ = srv.Serve(l) }) // ends by Close below
	wg.Go(func() { <-ctx.Done(); srv.Close() })
	return nil
}

func logHandler(format string, w io.Writer) slog.Handler {
	if format == "json" {
		return slog.NewJSONHandler(w, nil)
	}
	return slog.NewTextHandler(w, nil)
}
