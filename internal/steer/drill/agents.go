package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/procfs"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/steer/agent"
)

// agentProcess is "pathwise agent --host HOST", as a user would start it.
type agentProcess struct {
	host   string
	cmd    *exec.Cmd
	client *agent.Client
	log    *os.File
	done   chan struct{}
}

// crew is the agents of a ground's hosts.
type crew struct {
	s      *session
	lab    *lab.Lab
	name   string // of the lab
	agents map[string]*agentProcess
}

// startAgent starts the agent of a host and waits until it answers.
func (c *crew) startAgent(ctx context.Context, host string, args ...string) (*agentProcess, error) {
	if old := c.agents[host]; old != nil {
		old.stop()
	}
	path := filepath.Join(c.s.Out, "agents")
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(path, fmt.Sprintf("%s-%s.log", c.s.entry.Name, host)),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("make log: %w", err)
	}
	ns := ""
	for _, h := range c.lab.Hosts() {
		if h.Name == host {
			ns = h.Netns
		}
	}
	a := &agentProcess{host: host, log: log, done: make(chan struct{}),
		client: agent.Dial(agent.Socket(c.lab.Dir(), host))}
	a.cmd = exec.Command(c.s.Self,
		append([]string{"agent", "--lab", c.name, "--host", host, "--seed", strconv.FormatUint(c.s.Seed|1, 10)}, args...)...)
	a.cmd.Env = append(os.Environ(), c.s.Store.Mark(c.name), "PATHWISE_STATE="+c.s.Store.Root)
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	a.cmd.Stdout, a.cmd.Stderr = log, log
	if err := netns.Start(ns, a.cmd); err != nil {
		log.Close()
		return nil, fmt.Errorf("start agent of %s: %w", host, err)
	}
	go func() {
		_ = a.cmd.Wait() // it is killed on purpose, or the log says why it ended
		log.Close()
		close(a.done)
	}()
	c.agents[host] = a
	return a, until(ctx, 15*time.Second, 20*time.Millisecond, "agent of "+host+" answers", func() (bool, error) {
		select {
		case <-a.done:
			return false, fmt.Errorf("agent of %s: %w: see %s", host, errEnded, log.Name())
		default:
		}
		_, err := a.client.Health(ctx)
		return err == nil, err
	})
}

var errEnded = errors.New("it has ended")

// startAgents starts all hosts' agents.
func (c *crew) startAgents(ctx context.Context, args ...string) error {
	for _, h := range c.lab.Hosts() {
		if _, err := c.startAgent(ctx, h.Name, args...); err != nil {
			return err
		}
	}
	return nil
}

// stop ends the agent in good order; what it steered stays until its lease ends.
func (a *agentProcess) stop() {
	_ = a.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-a.done:
	case <-time.After(5 * time.Second):
		a.kill()
	}
}

// kill ends it by SIGKILL.
func (a *agentProcess) kill() {
	_ = a.cmd.Process.Kill() // it may have ended
	<-a.done
}

// stopAgents stops them all.
func (c *crew) stopAgents() {
	for _, a := range c.agents {
		a.stop()
	}
	clear(c.agents)
}

// order gives a manual order, again until the agent takes it: a pair that has
// just begun to talk is not open yet.
func (c *crew) order(ctx context.Context, host string, o agent.Order) error {
	return until(ctx, 5*time.Second, 50*time.Millisecond, fmt.Sprintf("order %s>%s to %s", o.Local, o.Remote, o.Network),
		func() (bool, error) {
			_, err := c.agents[host].client.Order(ctx, o)
			return err == nil, err
		})
}

// events of an agent after number since. An agent keeps the latest ones alone: it is an error if some are gone.
func (a *agentProcess) events(ctx context.Context, since int) ([]agent.Event, error) {
	all, err := a.client.Events(ctx, since, false)
	if err == nil {
		err = gap(all, since)
	}
	return all, err
}

// gap finds events after number since that are not there.
func gap(all []agent.Event, since int) error {
	if len(all) > 0 && all[0].ID > since+1 {
		return fmt.Errorf("read events of the agent: %d to %d are gone", since+1, all[0].ID-1)
	}
	return nil
}

// eventLog is an agent's events, as they are read from time to time.
type eventLog struct {
	agent  *agentProcess
	since  int
	events []agent.Event
}

// follow begins to read the events of all agents, from now on.
func (c *crew) follow(ctx context.Context) (out []*eventLog, err error) {
	for _, a := range c.agents {
		n, err := a.lastEvent(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, &eventLog{agent: a, since: n})
	}
	return out, nil
}

// more reads what has come since.
func (l *eventLog) more(ctx context.Context) error {
	events, err := l.agent.events(ctx, l.since)
	if len(events) > 0 {
		l.since = events[len(events)-1].ID
		l.events = append(l.events, events...)
	}
	return err
}

// readEvery is the longest time between two readings: an agent was seen to note three events a second.
const readEvery = 10 * time.Second

// readFor pauses, and reads what the agents note meanwhile.
func readFor(ctx context.Context, all []*eventLog, d time.Duration) error {
	for end := program.Kernel() + d; ; {
		left := end - program.Kernel()
		if err := pause(ctx, min(max(left, 0), readEvery)); err != nil {
			return err
		}
		for _, l := range all {
			if err := l.more(ctx); err != nil {
				return err
			}
		}
		if left <= readEvery {
			return nil
		}
	}
}

// lastEvent is the number of an agent's newest event.
func (a *agentProcess) lastEvent(ctx context.Context) (int, error) {
	all, err := a.client.Events(ctx, 0, false)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	return all[len(all)-1].ID, nil
}

// moves are the events by which a pair's flows changed their path.
func moves(events []agent.Event) (out []agent.Event) {
	for _, e := range events {
		if (e.Kind == "switch" || e.Kind == "failover" || e.Kind == "fallback") && !e.DryRun {
			out = append(out, e)
		}
	}
	return out
}

// usage is what a process has used.
type usage struct {
	cpu    time.Duration
	system time.Duration // of it, in the kernel
	rss    float64       // bytes, now
	at     time.Time
}

// usageOf reads /proc/PID/stat (proc(5)).
func usageOf(pid int) (u usage, err error) {
	u.at = time.Now()
	p, err := procfs.NewProc(pid)
	if err != nil {
		return u, fmt.Errorf("read usage: %w", err)
	}
	s, err := p.Stat()
	if err != nil {
		return u, fmt.Errorf("read usage of %d: %w", pid, err)
	}
	const tick = time.Second / 100 // USER_HZ, part of the ABI
	u.system = time.Duration(s.STime) * tick
	u.cpu = time.Duration(s.UTime)*tick + u.system
	u.rss = float64(s.ResidentMemory())
	return u, nil
}
