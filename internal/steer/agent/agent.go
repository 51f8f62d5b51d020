package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/steer/decide"
	"pathwise.dev/pathwise/internal/steer/detect"
	"pathwise.dev/pathwise/internal/steer/kick"
	"pathwise.dev/pathwise/internal/steer/probe"
	"pathwise.dev/pathwise/internal/steer/route"
	"pathwise.dev/pathwise/internal/steer/telemetry"
	"pathwise.dev/pathwise/stamp"
)

// Config is what an agent works with.
type Config struct {
	// Host is the name of the agent's host in the cluster.
	Host string
	// Source tells the cluster; it is asked again every second.
	Source func() (Cluster, error)
	// Keys authenticate probes and notices; all agents of a cluster share them. They
	// are asked for at every look at the cluster, and may be others each time.
	Keys func() (stamp.Keys, error)
	// PinDir is a directory on a bpf file system, this host's own.
	PinDir string
	// Cgroup is the root of the cgroup v2 hierarchy that holds the pods; "" does
	// without what connections tell.
	Cgroup string
	Policy decide.Policy
	// Need of all pairs; "" learns it.
	Need decide.Need
	// Prior is what a bench promises: bit/s by network.
	Prior map[string]float64
	// CPU is the cost by network, in CPU-seconds per GB, as a bench measured it.
	CPU map[string]float64
	// DryRun decides and logs, but moves nothing.
	DryRun bool
	// RTOMin is the least retransmission timeout of TCP towards pods that can be
	// reached by other paths; 0 leaves the kernel's 200 ms.
	RTOMin time.Duration
	// Events takes every event as a line of JSON; Evidence the records that
	// decisions were made on, for replay. Both may be nil.
	Events, Evidence io.Writer
	Log              *slog.Logger
	Now              func() time.Time

	hold probe.Hold // how long withdrawn keys are accepted; DefaultHold by default
	// leave is how long a pair without traffic stays entered, leaveAfter by default, and
	// peers how many a pod may have at a time, steer.DefaultPeers by default.
	leave    time.Duration
	peers    int
	barFirst time.Duration // as in detect.Params
}

// Pace of the loop.
const (
	// fastTick is how often counters are looked at while a pair has much traffic, and
	// slowTick where it has little. What goes right after a look has been silent for
	// so long at the next one, instead of for silence, and 25 ms are not over then.
	fastTick, slowTick = 3 * time.Millisecond, 10 * time.Millisecond
	// suspectTick is the same while a path is suspected.
	suspectTick = time.Millisecond
	// idleTick is the same while none has.
	idleTick = 50 * time.Millisecond
	// epoch is the period of evidence.
	epoch = 100 * time.Millisecond
	// refresh is the period of heartbeats and of looking at the cluster.
	refresh = 500 * time.Millisecond
	// quiet is how long a pair without packets still counts as having traffic.
	quiet = 2 * time.Second
)

// Agent is the loop on one host.
type Agent struct {
	*journal
	start time.Time
	begun readiness

	members *members
	wires   *wires
	pacer   *pacer
	ring    *ring
	leisure *leisure
	stacks  *stacks
	waker   *waker
	teller  *teller
	mover   *mover
	judge   *judge

	describer describer
	survey    *survey
	untracked *untracked
	recorder  *recorder

	// The lock of members guards all below.
	offered stamp.Keys // as last read
	waiting string     // for what of its own pod the agent waits; "": for nothing
	// observing says that the pairs are others than those that telemetry is limited to.
	observing bool
	// news is the latest description, and unread why it could not be read.
	news   *description
	unread error
	// dismissed are the pods that are still to be let go of.
	dismissed []dismissed
	// stranded is when pods could not be taken in.
	stranded map[string]time.Time
	// pins are those of pods that are taken up again, by their and the peer's UID.
	pins map[string]map[string]string
	// sustained is when the leases of what is not adopted yet were last renewed.
	sustained time.Time
	// polled are at the lines that are looked at all the time. suspecting are the pairs
	// that ask about a path of theirs, and suspects the paths that are suspected
	// between hosts.
	polled     []polled
	suspecting []*pair
	suspects   map[*hostPath]*remoteHost
	// hostParams and pairParams are the figures by which failures are found.
	hostParams, pairParams detect.Params
	ledger                 *telemetry.Ledger
	inquiries              inquiries
	// busy is how many pairs had traffic at the last evidence.
	busy    int
	turns   turns
	running func(func(context.Context) error)
	clock   clock
	// turned is when the latest turn began, refreshed when one last looked at the
	// cluster, and weighed when one last gathered evidence.
	turned, refreshed, weighed time.Time
	stats                      *counters
}

// counters are the agent's own, for metrics.
type counters struct {
	switches, failovers, homes, mutes, suspicions, noticesTaken uint64
	// stalls are ticks that came more than 10 ms late.
	stalls uint64
	// unremembered are the stuck connections that were too many to remember.
	unremembered uint64
}

// New prepares an agent. Run does the work.
func New(cfg Config) (*Agent, error) {
	cfg = cfg.clocked()
	if cfg.Policy == nil {
		cfg.Policy = decide.CostAware{}
	}
	keys, err := cfg.Keys()
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	if len(keys.Current) < 16 {
		return nil, fmt.Errorf("key of %d octets: expected at least 16", len(keys.Current))
	}
	if cfg.leave == 0 {
		cfg.leave = leaveAfter
	}
	if cfg.hold == (probe.Hold{}) {
		cfg.hold = probe.DefaultHold()
	}
	a := newAgent(cfg)
	a.offered = keys
	if _, err = a.ring.Give(keys, a.start); err != nil {
		return nil, err
	}
	if cfg.Evidence != nil {
		if err := decide.WriteHeader(cfg.Evidence, decide.Header{Name: cfg.Host, Unit: "bit/s"}); err != nil {
			return nil, fmt.Errorf("record evidence: %w", err)
		}
	}
	return a, nil
}

// newAgent puts the agent's parts together.
func newAgent(cfg Config) *Agent {
	j, m := newJournal(cfg), newMembers()
	r := &ring{probe.NewKeyring(cfg.hold), cfg.hold}
	a := &Agent{journal: j, start: cfg.Now(), begun: newReadiness(), members: m, ring: r, wires: newWires(j, r),
		pacer: &pacer{journal: j}, leisure: &leisure{}, describer: describer{journal: j}, survey: newSurvey(j),
		untracked: newUntracked(j), recorder: newRecorder(j), suspects: map[*hostPath]*remoteHost{},
		hostParams: detect.Hosts(), pairParams: detect.Pairs(), stranded: map[string]time.Time{},
		pins: map[string]map[string]string{}, inquiries: inquiries{bell: newBell()}, ledger: &telemetry.Ledger{},
		stats: &counters{}}
	a.clock = newClock(a.start, program.Kernel)
	a.inquiries.params = &a.pairParams
	a.pairParams.BarFirst = cmp.Or(cfg.barFirst, a.pairParams.BarFirst)
	a.stacks = &stacks{journal: j, leisure: a.leisure, fitter: route.NewFitter(a.became)}
	a.waker = &waker{journal: j, pacer: a.pacer, kicks: kick.NewWaker()}
	a.teller = &teller{journal: j, members: m, wires: a.wires}
	a.mover = &mover{journal: j, stacks: a.stacks, waker: a.waker, teller: a.teller, untracked: a.untracked,
		ledger: a.ledger, clock: a.clock, stats: a.stats}
	a.judge = &judge{cfg: &j.cfg, members: m, recorder: a.recorder, start: a.start}
	return a
}

// Run works until ctx ends. The data plane stays as it is then, until its lease
// ends, so that a new agent can take over without a packet lost.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	// What runs alongside the loop: a fault there ends the agent, as probes that are
	// not received look like paths that fail.
	a.running = func(f func(context.Context) error) {
		wg.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	err := a.setUp(ctx)
	a.begun.say()
	if err == nil {
		if a.survey.passive != nil {
			a.running(a.listen)
			a.running(func(ctx context.Context) error { return a.survey.run(ctx, a.netnsOf) })
			a.running(func(ctx context.Context) error {
				return a.waker.kicks.Run(ctx, func(c kick.Call, err error) {
					a.warn("wake connections of %s with %s: %v", c.Local, c.Remote, err)
				})
			})
			a.running(a.inquireAll)
		}
		for _, f := range []func(context.Context) error{a.countAll, a.sweepFlows, a.describeAll, a.takeIn, a.makeRoom,
			a.keepAll, a.stacks.fitter.Run, a.writeAll, a.recorder.run} {
			a.running(f)
		}
		a.running(func(ctx context.Context) error { return a.untracked.run(ctx, a.leftBehind) })
		a.note(Event{Kind: EventStarted, Reason: fmt.Sprintf("agent of %s: %d pods on several networks, policy %s",
			a.cfg.Host, len(a.members.pods), a.cfg.Policy.Name())})
		err = a.loop(ctx)
	}
	// What runs alongside uses what is closed.
	cancel(nil)
	wg.Wait()
	if errors.Is(err, errEnded) {
		err = nil
	}
	err = errors.Join(err, a.close())
	a.write()
	return err
}

func (a *Agent) setUp(ctx context.Context) error {
	if a.cfg.Cgroup != "" {
		c, err := telemetry.Attach(a.cfg.Cgroup, filepath.Join(a.cfg.PinDir, "telemetry"))
		if err != nil {
			return fmt.Errorf("attach telemetry: %w", err)
		}
		a.survey.passive = c
	}
	return a.await(ctx)
}

// loop is the agent's only clock.
func (a *Agent) loop(ctx context.Context) (err error) {
	alarm, err := newAlarm()
	if err != nil {
		return err
	}
	a.members.Lock()
	a.pacer.alarm = alarm
	a.members.Unlock()
	defer func() { err = errors.Join(err, alarm.close()) }()
	defer context.AfterFunc(ctx, alarm.cancel)()
	for ctx.Err() == nil {
		err := a.turn()
		if err == nil {
			err = alarm.wait()
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// turn does what is due and sets the alarm for the next one. Replies to probes are
// read here, all that came since the last turn: they are dated, and to be woken by
// each would cost more than all else.
func (a *Agent) turn() error {
	a.members.Lock()
	defer a.members.Unlock()
	now := a.cfg.Now() // who waits for the lock is late
	if !a.turned.IsZero() && now.Sub(a.turned) > idleTick+10*time.Millisecond {
		a.stats.stalls++
	}
	a.turned = now
	a.pacer.begin()
	weighs := now.Sub(a.weighed) >= epoch && a.survey.informed(now)
	if err := a.wires.drain(weighs); err != nil {
		return err
	}
	a.receive()
	next := a.watch(now)
	if now.Sub(a.refreshed) >= refresh || a.news != a.members.description {
		a.refreshed = now
		a.renewLeases()
		a.rekey(now)
		a.remark()
		a.wires.tellRefusals(a.members.remote, now)
		if err := errors.Join(a.unread, a.sync(a.news)); err != nil {
			a.warn("%v", err)
		}
	}
	if weighs {
		a.admitWanted(a.cfg.Now())
		if err := a.partIdle(a.cfg.Now()); err != nil {
			a.warn("%v", err)
		}
		if a.observing {
			a.observing = false
			a.observe()
		}
		a.weighed = now
		a.probeAll(now)
		a.weigh(now)
	}
	if !a.survey.awaited.IsZero() {
		next = min(next, suspectTick)
	}
	return a.pacer.end(next)
}

func (a *Agent) close() error {
	a.settleRoutes()
	a.letGoAll()
	a.members.Lock()
	defer a.members.Unlock()
	var errs []error
	for _, w := range a.wires.links {
		errs = append(errs, w.close())
	}
	for _, p := range a.members.pods {
		errs = append(errs, p.close())
	}
	if a.survey.passive != nil {
		errs = append(errs, a.survey.passive.Close())
	}
	return errors.Join(errs...)
}
