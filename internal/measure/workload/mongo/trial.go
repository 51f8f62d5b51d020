package mongo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/measure/workload"
	"pathwise.dev/pathwise/internal/sample"
	"pathwise.dev/pathwise/internal/topo"
)

// Time that generators get.
const (
	minDuration = 200 * time.Millisecond
	// serverTimeout is for a server to listen, prepareTimeout for the documents
	// to be there.
	serverTimeout  = 20 * time.Second
	prepareTimeout = 20 * time.Second
	// lead is what clients may take to start and connect, besides what a pair
	// and a connection add.
	lead           = 100 * time.Millisecond
	leadPerPair    = 40 * time.Millisecond
	leadPerHundred = 500 * time.Millisecond
)

// Run implements workload.Workload.
func (m Mongo) Run(ctx context.Context, bed workload.Bed, load sample.Load, w workload.Window,
	meter workload.Meter) (workload.Outcome, error) {
	t := &trial{Mongo: m, bed: bed, load: load, window: w, found: make([]Prepared, len(bed.Pairs))}
	err := t.run(ctx, meter)
	if t.dir != "" {
		err = errors.Join(err, os.RemoveAll(t.dir))
	}
	if err != nil {
		return workload.Outcome{}, fmt.Errorf("run %s: %w", m.Info().Name, err)
	}
	return t.outcome(), nil
}

// trial is one run.
type trial struct {
	Mongo
	bed    workload.Bed
	load   sample.Load
	window workload.Window
	// dir is for what a program of the user's keeps.
	dir    string
	counts []Count
	found  []Prepared
	// asked is what a program of the user's has; our own server is told.
	asked workload.Asked
}

func (t *trial) run(ctx context.Context, m workload.Meter) error {
	return workload.Together(ctx, func(ctx context.Context, crew *workload.Crew) error {
		if err := t.ask(ctx); err != nil {
			return err
		}
		if err := t.serve(ctx, crew); err != nil {
			return err
		}
		took, err := t.prepare(ctx, crew)
		if err != nil {
			return err
		}
		clients := workload.Generators{Patience: patience, Client: t.clientArgs}
		if err := clients.Gather(ctx, t.bed, crew); err != nil {
			return err
		}
		start := lead
		if !clients.Gathered() { // those that were have connected, too
			start += time.Duration(len(t.bed.Pairs))*leadPerPair +
				time.Duration(t.load.Connections*len(t.bed.Pairs))*leadPerHundred/100
			// Clients are the same executable as what prepared the documents: where that
			// took long, as on a guest's kernel, so will they.
			start = max(start, 2*took)
		}
		begin := time.Now().Add(start + t.window.Warmup)
		if err := clients.Begin(begin); err != nil {
			return err
		}
		if _, err := workload.Measure(ctx, begin, t.window.Duration, m); err != nil {
			return err
		}
		if err := clients.Wait(ctx); err != nil {
			return err
		}
		return t.read(clients.Clients)
	})
}

// ask asks for the congestion control of servers that cannot be told.
func (t *trial) ask(ctx context.Context) (err error) {
	if t.Server != "" && !isURI(t.Server) {
		t.asked, err = workload.AskCongestion(ctx, t.bed)
	}
	return err
}

// serve starts a server in each server pod, unless there is one elsewhere.
func (t *trial) serve(ctx context.Context, crew *workload.Crew) (err error) {
	if isURI(t.Server) {
		return nil
	}
	if t.Server != "" {
		if t.dir, err = os.MkdirTemp(t.bed.Dir, "mongo"); err != nil {
			return fmt.Errorf("make directory of servers: %w", err)
		}
	}
	for _, pair := range t.bed.Pairs {
		argv, err := t.serverArgs(pair.Server)
		if err != nil {
			return err
		}
		crew.Serve("server in pod "+pair.Server.Name, func(ctx context.Context) error {
			_, err := t.bed.Exec(ctx, pair.Server, argv...)
			return err
		})
	}
	ctx, cancel := context.WithTimeoutCause(ctx, serverTimeout, fmt.Errorf("gave up after %v", serverTimeout))
	defer cancel()
	for _, pair := range t.bed.Pairs {
		if err := workload.AwaitListening(ctx, t.bed, pair.Server, workload.TCP); err != nil {
			return err
		}
	}
	return nil
}

// serverArgs is the command line of a pod's server.
func (t *trial) serverArgs(pod topo.Pod) ([]string, error) {
	if t.Server == "" {
		return []string{t.Self, "generate", "mongo-serve", "--addr", ":" + strconv.Itoa(int(pod.Listen)), "--congestion",
			workload.CongestionOf(t.load)}, nil
	}
	dir := filepath.Join(t.dir, pod.Name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory of server: %w", err)
	}
	argv := Command(t.Server, pod.Listen, dir)
	if len(strings.Fields(t.Server)) == 1 && pod.Service.Addr().Is6() {
		argv = append(argv, "--ipv6") // or --bind_ip_all is of IPv4 alone
	}
	return argv, nil
}

// Command is the command line of a server of the user's, with ${PORT} and ${DIR}
// filled in. A program that is named alone is called as MongoDB's.
func Command(server string, port uint16, dir string) []string {
	words := strings.Fields(server)
	if len(words) == 1 {
		words = append(words, "--bind_ip_all", "--port", "${PORT}", "--dbpath", "${DIR}")
	}
	for i, w := range words {
		words[i] = strings.NewReplacer("${PORT}", strconv.Itoa(int(port)), "${DIR}", dir).Replace(w)
	}
	return words
}

// prepare fills the collections, from the clients' pods, and says how long that took.
func (t *trial) prepare(ctx context.Context, crew *workload.Crew) (time.Duration, error) {
	begun := time.Now()
	var tasks []*workload.Task
	for i, pair := range t.bed.Pairs {
		args := append([]string{t.Self, "generate", "mongo-prepare"}, t.placeArgs(pair)...)
		if t.Server == "" {
			args = append(args, "--capped")
		}
		tasks = append(tasks, crew.Go(func(ctx context.Context) error {
			res, err := t.bed.Exec(ctx, pair.Client, args...)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err == nil {
				err = json.Unmarshal(res.Stdout, &t.found[i])
			}
			if err != nil {
				return fmt.Errorf("prepare server from pod %s: %w", pair.Client.Name, err)
			}
			return nil
		}))
	}
	err := workload.WaitAll(ctx, tasks, time.Now().Add(prepareTimeout),
		fmt.Errorf("the server's documents were not there after %v", prepareTimeout))
	return time.Since(begun), err
}

func (t *trial) placeArgs(pair workload.Pair) []string {
	uri := t.Server
	if !isURI(uri) {
		uri = "mongodb://" + pair.Server.Service.String() + "/?directConnection=true"
	}
	// Pairs may share a server.
	return []string{"--uri", uri, "--operation", t.Operation, "--collection", strings.ReplaceAll(t.Operation, "-", "_") +
		"_" + pair.Client.Name}
}

func (t *trial) clientArgs(pair int, begin string) []string {
	args := append([]string{t.Self, "generate", "mongo"}, t.placeArgs(t.bed.Pairs[pair])...)
	args = append(args, "--connections", strconv.Itoa(t.load.Connections), "--begin", begin, "--duration",
		t.window.Duration.String(), "--congestion", workload.CongestionOf(t.load))
	if isURI(t.Server) {
		args = append(args, "--drop")
	}
	return args
}

// read reads what the clients printed.
func (t *trial) read(clients []program.Result) error {
	for i, res := range clients {
		c, err := parse(res.Stdout)
		if err != nil {
			return fmt.Errorf("client in pod %s: %w", t.bed.Pairs[i].Client.Name, err)
		}
		t.counts = append(t.counts, c)
	}
	return nil
}

// parse reads what the client printed.
func parse(out []byte) (Count, error) {
	c := newCount()
	d := json.NewDecoder(bytes.NewReader(out))
	if err := d.Decode(&c); err != nil {
		return c, fmt.Errorf("read result: %w", err)
	}
	for kind, n := range c.Failed {
		if n < 0 {
			return c, fmt.Errorf("read result: %d operations failed as %q", n, kind)
		}
	}
	if c.Operations < 1 || c.Latency == nil || c.Latency.Count() != c.Operations || !(c.ClientUser >= 0) ||
		c.ServerUser != nil && !(*c.ServerUser >= 0) {
		return c, fmt.Errorf("read result: figures that cannot be: %d operations, %g s of CPU time", c.Operations, c.ClientUser)
	}
	return c, nil
}

// outcome merges the pairs' counts.
func (t *trial) outcome() workload.Outcome {
	out := workload.Outcome{Metrics: map[string]float64{}, Latency: sample.NewHistogram(), Details: map[string]string{
		"client": redactedArgs(t.clientArgs(0, "BEGIN")[1:]), "server": t.server()}}
	out.Notes = []string{"MongoDB server: " + t.server()}
	out.Details["congestion"] = workload.CongestionOf(t.load)
	switch {
	case isURI(t.Server):
		out.Details["congestion"] += " of the clients"
	case t.asked != nil:
		t.asked.Tell(&out, "the server")
	}
	kinds := map[string]int64{}
	var user float64
	for i, c := range t.counts {
		out.Operations += float64(c.Operations)
		out.Latency.Merge(c.Latency)
		out.AddErrors(t.bed.Pairs[i].Client.Name, c.failed(), c.Operations, c.Failure)
		user += c.ClientUser
		if c.ServerUser != nil && !isURI(t.Server) {
			user += *c.ServerUser
		}
		for kind, n := range c.Failed {
			kinds[kind] += n
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		out.Details["errors: "+kind] = strconv.FormatInt(kinds[kind], 10)
	}
	out.Metrics[sample.Rate] = out.Operations / t.window.Duration.Seconds()
	out.SetLatency()
	t.bound(&out, user)
	return out
}

// halfUser is the share of the CPU time that was there above which the report
// says how much a network could matter at all.
const halfUser = 0.5

// bound says how far both ends of the generator themselves bound the figure.
// In a closed loop client, network and server take turns, so with one
// connection their times add up to the window's, and with many to that of
// every CPU.
func (t *trial) bound(out *workload.Outcome, user float64) {
	loops := min(t.load.Connections*len(t.bed.Pairs), runtime.NumCPU())
	out.GeneratorUser = user / (t.window.Duration.Seconds() * float64(loops))
	out.Details["generator"] =
		fmt.Sprintf("client and server were in user mode, where no networking is done, for %.0f %% of the time of %d", 100*out.GeneratorUser, loops)
	if out.GeneratorUser >= halfUser {
		out.Warnings = append(out.Warnings, sample.Warning{Gate: "generator-bound", Text: fmt.Sprintf(
			"MongoDB's driver and the server spent more than half of the CPU time in user mode: no network, however fast, could give %.3g times as much", 1/halfUser)})
	}
}

// server says which one answered.
func (t *trial) server() string {
	var all []string
	for _, f := range t.found {
		if !slices.Contains(all, f.Server) {
			all = append(all, f.Server)
		}
	}
	text := strings.Join(all, ", ")
	if isURI(t.Server) {
		text += " outside of the lab"
	}
	return text
}

func redactedArgs(args []string) string {
	out := slices.Clone(args)
	for i, a := range out {
		if isURI(a) {
			out[i] = redacted(a)
		}
	}
	return fmt.Sprint(out)
}
