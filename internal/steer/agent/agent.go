package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
)

// Agent is the loop on one host.
type Agent struct {
	*journal
	*server
	*overrides
	members    *members
	describer  describer
	pacer      *pacer
	survey     *survey
	readings   *readings
	wires      *wires
	turnover   *turnover
	prober     *prober
	leisure    *leisure
	hosts      *hostWatcher
	pairs      *pairWatcher
	judge      *judge
	stacks     *stacks
	waker      *waker
	teller     *teller
	mover      *mover
	escape     *escape
	opener     *opener
	entries    *entries
	agreement  *agreement
	respondent *respondent
	inquirer   *inquirer
	replies    *replyWatcher
	listener   *listener
	counter    *counter
	adopter    *adopter
	keeper     *keeper
	planes     *planes
	sweeper    *sweeper
	untracked  *untracked
	recorder   *recorder
	running    func(func(context.Context) error) // runs what goes on alongside the loop

	// The lock of members guards these. news is the latest description, and unread why it
	// could not be read.
	news   *description
	unread error
	// busy is how many pairs had traffic at the last evidence.
	busy int
	// turned is when the latest turn began, refreshed when one last looked at the
	// cluster, and weighed when one last gathered evidence.
	turned, refreshed, weighed time.Time
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
	a.turnover.offered = keys
	if _, err = a.turnover.ring.Give(keys, a.start); err != nil {
		return nil, err
	}
	if cfg.Evidence != nil {
		if err := decide.WriteHeader(cfg.Evidence, decide.Header{Name: cfg.Host, Unit: "bit/s"}); err != nil {
			return nil, fmt.Errorf("record evidence: %w", err)
		}
	}
	return a, nil
}

// newAgent puts the agent's parts together, each from those that it uses.
func newAgent(cfg Config) *Agent {
	j, m, stats, ledger, leisure := newJournal(cfg), newMembers(), &counters{}, &telemetry.Ledger{}, &leisure{}
	hosts, pairs := detect.Hosts(), detect.Pairs()
	pairs.BarFirst = cmp.Or(cfg.barFirst, pairs.BarFirst)
	clock := newClock(cfg.Now(), program.Kernel)
	a := &Agent{journal: j, members: m, describer: describer{journal: j}, leisure: leisure, pacer: &pacer{journal: j},
		survey: newSurvey(j), untracked: newUntracked(j), recorder: newRecorder(j)}
	ring := &ring{probe.NewKeyring(cfg.hold), cfg.hold}
	a.wires = newWires(j, ring)
	a.turnover = &turnover{journal: j, members: m, ring: ring, wires: a.wires}
	a.prober = &prober{journal: j, members: m, wires: a.wires, turnover: a.turnover, params: &hosts}
	a.readings = &readings{members: m, survey: a.survey, ledger: ledger}
	a.hosts = &hostWatcher{m, a.wires, a.pacer, stats, &pairs, map[*hostPath]bool{}}
	agenda := &agenda{pacer: a.pacer}
	a.pairs = &pairWatcher{journal: j, members: m, hosts: a.hosts, pacer: a.pacer, leisure: leisure, clock: clock,
		stats: stats, params: &pairs, agenda: agenda}
	a.judge = &judge{cfg: &j.cfg, members: m, recorder: a.recorder, start: clock.now, classes: decide.DefaultClasses()}
	a.waker = &waker{journal: j, pacer: a.pacer, clock: clock, kicks: kick.NewWaker()}
	a.teller = &teller{j, m, a.wires}
	a.stacks = &stacks{journal: j, leisure: leisure}
	a.mover = &mover{journal: j, stacks: a.stacks, waker: a.waker, teller: a.teller, untracked: a.untracked,
		ledger: ledger, clock: clock, stats: stats}
	a.opener = &opener{j, m, a.waker}
	a.escape = &escape{j, m, a.judge, a.mover, a.opener, a.teller, stats}
	a.entries = &entries{j, m, ring, a.mover, a.stacks, a.teller, a.untracked, ledger, &pairs}
	a.stacks.fitter = route.NewFitter(a.entries.became)
	oneWay := &datagrams{j, m, a.teller}
	a.agreement = &agreement{j, m, a.wires, a.teller, a.entries, a.mover, oneWay, turns{}}
	a.respondent = &respondent{j, m, a.wires, a.entries, a.mover, a.escape, &pairs, stats}
	open := inquiries{params: &pairs, bell: newBell()}
	a.inquirer = &inquirer{j, m, a.pairs, a.mover, a.escape, a.teller, &pairs, clock, open, agenda}
	a.listener = &listener{j, m, a.pairs, a.inquirer, a.waker, a.survey, clock, stats}
	a.counter = &counter{j, m, a.survey, a.untracked}
	a.replies = &replyWatcher{j, m, a.inquirer, newBell()}
	a.planes, a.sweeper = &planes{journal: j, members: m}, &sweeper{j, m, oneWay, a.replies, newBell()}
	a.adopter = &adopter{journal: j, members: m, survey: a.survey, ledger: ledger, stacks: a.stacks, entries: a.entries,
		planes: a.planes, stranded: map[string]time.Time{}, pins: map[string]map[string]string{}}
	a.keeper = &keeper{journal: j, members: m, adopter: a.adopter, entries: a.entries, stacks: a.stacks}
	a.overrides = &overrides{j, m, a.judge, a.mover, a.entries, a.stacks, a.untracked}
	a.server = &server{journal: j, overrides: a.overrides, members: m, judge: a.judge, wires: a.wires, survey: a.survey,
		waker: a.waker, untracked: a.untracked, begun: newReadiness(), start: clock.now, stats: stats}
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
			a.running(a.listener.listen)
			a.running(func(ctx context.Context) error { return a.survey.run(ctx, a.members.netnsOf) })
			a.running(func(ctx context.Context) error {
				return a.waker.kicks.Run(ctx, func(c kick.Call, err error) {
					a.warn("wake connections of %s with %s: %v", c.Local, c.Remote, err)
				})
			})
			a.running(a.replies.watchReplies)
		}
		for _, f := range []func(context.Context) error{a.inquirer.inquireAll, a.counter.countAll,
			a.sweeper.sweepFlows, a.describeAll, a.adopter.takeIn, a.planes.makeRoom, a.keeper.keepAll, a.stacks.fitter.Run,
			a.writeAll, a.recorder.run} {
			a.running(f)
		}
		a.running(func(ctx context.Context) error { return a.untracked.run(ctx, a.members, a.entries.goOn) })
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
	for _, k := range a.prober.receive() {
		a.agreement.acknowledged(k.from, k.value)
	}
	next := a.watch(now)
	if now.Sub(a.refreshed) >= refresh || a.turnover.due || a.news != a.members.description {
		a.refreshed = now
		a.planes.renewLeases()
		a.turnover.rekey(now)
		a.entries.remark()
		a.wires.tellRefusals(a.members.remote, now)
		if err := errors.Join(a.unread, a.sync(a.news)); err != nil {
			a.warn("%v", err)
		}
	}
	if weighs {
		a.entries.admitWanted(a.cfg.Now())
		if err := a.entries.partIdle(a.cfg.Now()); err != nil {
			a.warn("%v", err)
		}
		if a.readings.changes != a.members.changes {
			a.readings.observe()
		}
		a.weighed = now
		a.prober.probeAll(now)
		a.weigh(now)
	}
	if !a.survey.awaited.IsZero() {
		next = min(next, suspectTick)
	}
	return a.pacer.end(next)
}

// watch looks at the counters of pairs with traffic, follows up suspicions, and has pairs leave
// what has failed. It returns when to look again.
func (a *Agent) watch(now time.Time) time.Duration {
	for _, p := range a.mover.takeMoved() {
		if a.members.knows(p) {
			a.pairs.attend(p, now)
		}
	}
	next := min(a.waker.wakeDue(now), a.waker.resendDue(now), a.pairs.poll(now), a.inquirer.doubtDue(now),
		a.prober.chase(now), a.pairs.chase(now))
	a.pairs.catchUp(now)
	asking := a.pairs.judge(now)
	failed, more := a.hosts.judge(now)
	if asking || more {
		next = min(next, suspectTick)
	}
	for _, f := range append(failed, a.pairs.conclude(now)...) {
		a.escape.leave(f, now)
	}
	return next
}

func (a *Agent) close() error {
	a.entries.settleRoutes()
	a.adopter.letGoAll()
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

// weigh gathers evidence about every pair with traffic and asks the policy.
func (a *Agent) weigh(now time.Time) {
	a.readings.take(now)
	a.prober.summarise(now)
	a.leisure.taken, a.agreement.turns = 0, turns{}
	busy := 0
	for _, l := range a.members.pods {
		a.pairs.handleEchoes(l)
		a.sweeper.hurry(l)
		for _, p := range l.pairs {
			a.pairs.probePair(p, now)
			a.pairs.look(p, now)
			if p.account(a.pairs.params, now) {
				a.stacks.refit(p)
			}
			if p.lines[0].carries() && !p.home() {
				a.untracked.stray(p)
			}
			a.opener.judge(p, now)
			a.inquirer.doubtHandshakes(p, now)
			a.inquirer.expireTrial(p, now)
			if p.detours.end(a.pairs.params, p.inquired, now) {
				a.mover.replace(p, now)
			}
			if now.Sub(p.active) >= quiet {
				if p.opening.elsewhere() {
					a.agreement.open(p, now) // its next flow is to find a network
				} else {
					a.mover.rest(p, now)
				}
				continue
			}
			busy++
			a.mover.keepHome(p)
			a.agreement.open(p, now)
			// With many busy pairs each has its turn, so that the work stays bounded.
			if !p.withdrawn && (now.Sub(p.own) < quiet || p.stranded()) &&
				now.Sub(p.weighed) >= time.Duration(a.busy/atOnce)*epoch {
				p.weighed = now
				for _, d := range a.judge.decide(p, now) {
					if p.apply(d) != p.assignments() {
						a.mover.carryOut(p, d, byPolicy, 0)
					}
				}
			}
			a.entries.askAgain(p, now)
			a.teller.settle(p, now)
			a.mover.doubt(p, now)
			a.stacks.routeDirectly(p, now)
			a.mover.judgeOutcome(p)
		}
	}
	a.busy = busy
	a.pairs.rewatch(now)
}
