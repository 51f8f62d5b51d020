package guest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// program is one program of the host that a guest needs: the kernel itself, or
// what serves it files.
type program struct {
	argv []string
	env  []string
	// files are the program's file descriptors from 3.
	files []*os.File
	// log takes its output, alongside the guest's other files.
	log string
	// netns is where it runs; "" for this process's own namespace.
	netns string
	// alone: it goes on when this process ends.
	alone bool
}

// place is where a guest's files lie, and the mark of its processes.
type place interface {
	Dir() string
	// Mark is a variable, as NAME=VALUE.
	Mark() string
}

// process is a program that runs.
type process struct {
	done chan struct{}
	// err is why it ended, once done is closed.
	err error
	// kill ends it.
	kill func() error
}

// start runs a program in a process namespace of its own, so that whatever it has
// started ends with it, and bound to this process, so that it ends with that.
// The guest's processes are processes of the host: without their tracer they
// would go on with the host's system calls.
func start(ctx context.Context, in place, p program) (*process, error) {
	log, err := os.OpenFile(filepath.Join(in.Dir(), p.log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.argv[0], err)
	}
	defer log.Close()
	if p.alone {
		ctx = context.WithoutCancel(ctx)
	}
	cmd := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
	cmd.Dir = in.Dir()
	cmd.Env = append([]string{in.Mark(), "PATH=" + os.Getenv("PATH"), "HOME=" + in.Dir()}, p.env...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, p.files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if p.alone {
		cmd.SysProcAttr.Pdeathsig = 0
	}
	cmd.WaitDelay = time.Second
	out := &process{done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The signal comes at the death of the thread that forked.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := netns.Start(p.netns, cmd)
		started <- err
		if err == nil {
			out.err = cmd.Wait()
		}
		close(out.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", p.argv[0], err)
	}
	out.kill = cmd.Process.Kill
	return out, nil
}

// boot starts the guest's kernel.
func boot(ctx context.Context, c Config, in place) (*process, error) {
	switch c.Kernel.Name {
	case UML:
		return bootUML(ctx, c, in)
	case QEMU:
		return bootQEMU(ctx, c, in)
	default:
		return nil, fmt.Errorf("boot guest: unknown kind of kernel %q", c.Kernel.Name)
	}
}
