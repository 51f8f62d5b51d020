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

	"pathwise.dev/pathwise/internal/lab"
)

// program is one program of the host that a guest needs: the kernel itself, or
// what serves it files.
type program struct {
	argv []string
	env  []string
	// files are the program's file descriptors from 3.
	files []*os.File
	// log takes its output, beside the guest's other files.
	log string
}

// process is a program that runs.
type process struct {
	done chan struct{}
	// err is why it ended, once done is closed.
	err error
}

// start runs a program in a process namespace of its own, so that whatever it has
// started ends with it, and bound to this process, so that it ends with that.
// The guest's processes are processes of the host: without their tracer they
// would go on with the host's system calls.
func start(ctx context.Context, claim *lab.Claim, p program) (*process, error) {
	log, err := os.OpenFile(filepath.Join(claim.Dir(), p.log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.argv[0], err)
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...)
	cmd.Dir = claim.Dir()
	cmd.Env = append([]string{claim.Mark(), "PATH=" + os.Getenv("PATH"), "HOME=" + claim.Dir()}, p.env...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, p.files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	out := &process{done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The signal comes at the death of the thread that forked.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			out.err = cmd.Wait()
		}
		close(out.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", p.argv[0], err)
	}
	return out, nil
}

// boot starts the guest's kernel.
func boot(ctx context.Context, c Config, claim *lab.Claim) (*process, error) {
	switch c.Kernel.Name {
	case UML:
		return bootUML(ctx, c, claim)
	case QEMU:
		return bootQEMU(ctx, c, claim)
	default:
		return nil, fmt.Errorf("boot guest: unknown kind of kernel %q", c.Kernel.Name)
	}
}
