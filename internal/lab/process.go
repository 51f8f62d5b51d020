package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/program"
	"pathwise.dev/pathwise/internal/topo"
)

// labEnv marks every process of a lab with the lab's directory, so that it is
// found after its parent was killed.
const labEnv = "PATHWISE_LAB"

// programs are what runs for a lab: commands and daemons that carry its mark.
type programs struct {
	rec     *record
	daemons []*daemon
}

// command prepares a program that carries the lab's mark and, unless it is
// attached to the terminal, a process group of its own, so that Ctrl-C reaches
// Pathwise alone and it decides the order in which things stop.
func (p *programs) command(ctx context.Context, argv []string) (*exec.Cmd, error) {
	path, err := network.FindProgram(argv[0])
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Env = append(os.Environ(), p.rec.mark())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = outputWait
	return cmd, nil
}

// Run implements network.Operator.
func (p *programs) Run(ctx context.Context, ns string, argv ...string) ([]byte, error) {
	res, err := p.run(ctx, ns, argv)
	return res.Stdout, err
}

// run runs the program on this kernel, with env besides the environment.
func (p *programs) run(ctx context.Context, ns string, argv []string, env ...string) (program.Result, error) {
	cmd, err := p.command(ctx, argv)
	if err != nil {
		return program.Result{}, &program.Error{Argv: argv, Err: err}
	}
	cmd.Env = append(cmd.Env, env...)
	stdout, stderr := &Capture{most: mostPrinted}, &ending{most: mostErrors}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	begin := time.Now()
	if err := netns.Start(ns, cmd); err != nil {
		return program.Result{}, &program.Error{Argv: argv, Err: err}
	}
	err = cmd.Wait()
	if over := stdout.err(); over != nil {
		err = over
	}
	res := program.Result{
		Stdout: stdout.kept,
		User:   cmd.ProcessState.UserTime(),
		System: cmd.ProcessState.SystemTime(),
		Wall:   time.Since(begin),
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return res, &program.Error{Argv: argv, Stderr: tail(stderr.Bytes()), Err: err}
	}
	return res, nil
}

// tail is the end of a program's output, short enough for an error line.
func tail(out []byte) string {
	const most = 400
	text := strings.Join(strings.Fields(string(out)), " ")
	if len(text) > most {
		text = "..." + text[len(text)-most:]
	}
	return text
}

// daemon is a started Daemon.
type daemon struct {
	name string
	log  string
	done chan struct{}
	err  error
}

// Start implements network.Operator.
func (p *programs) Start(_ context.Context, d network.Daemon) error {
	// Not the caller's context: a daemon lives until the lab goes down.
	cmd, err := p.command(context.Background(), d.Argv)
	if err != nil {
		return fmt.Errorf("start %s: %w", d.Name, err)
	}
	log := filepath.Join(p.rec.dir, d.Name+".log")
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", d.Name, err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(cmd.Env, d.Env...)
	if err := netns.Start(d.Netns, cmd); err != nil {
		return fmt.Errorf("start %s: %w", d.Name, err)
	}
	run := &daemon{name: d.Name, log: log, done: make(chan struct{})}
	go func() {
		run.err = cmd.Wait()
		close(run.done)
	}()
	p.daemons = append(p.daemons, run)
	return nil
}

// failed returns why a daemon of the lab has ended; nil while all of them run.
func (p *programs) failed() error {
	for _, d := range p.daemons {
		select {
		case <-d.done:
			raw, err := EndOf(d.log, mostErrors)
			if err != nil {
				raw = []byte(err.Error())
			}
			return fmt.Errorf("daemon %s ended: %w: %s", d.name, errors.Join(d.err, errEnded), tail(raw))
		default:
		}
	}
	return nil
}

// errEnded replaces the error of a daemon that ended well, but too soon.
var errEnded = errors.New("not running")

// InVM returns the host, one that is a virtual machine, and there the namespace of
// the pod or host called where; a zero host where that is not in one.
func (st State) InVM(where string) (topo.Host, string) {
	for _, h := range st.Hosts {
		if h.VM == "" {
			continue
		}
		if h.Name == where {
			return h, h.Netns
		}
		for _, p := range st.Pods {
			if p.Name == where && p.Host == h.Index {
				return h, p.Netns
			}
		}
	}
	return topo.Host{}, ""
}

// Attached prepares a program in a pod or host of a lab that is up, joined to
// the caller's terminal. Start it with netns.Start in the namespace returned.
func (s Store) Attached(ctx context.Context, st State, where string, argv []string) (*exec.Cmd, string, error) {
	ns := ""
	for _, h := range st.Hosts {
		if h.Name == where {
			ns = h.Netns
		}
	}
	for _, p := range st.Pods {
		if p.Name == where {
			ns = p.Netns
		}
	}
	if ns == "" {
		return nil, "", fmt.Errorf("lab %q has no pod or host %q: see \"pathwise lab status\"", st.Spec.Name, where)
	}
	path, err := network.FindProgram(argv[0])
	if err != nil {
		return nil, "", err
	}
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Env = append(os.Environ(), labEnv+"="+s.dir(st.Spec.Name))
	return cmd, ns, nil
}
