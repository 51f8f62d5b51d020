package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/program"
)

// Self is what an order calls the program that follows it.
const Self = "/proc/self/exe"

// Run is what runs in a pod for each program of a workload: it reads a lab.Program, a line of
// JSON, runs it, and writes a lab.Ran when that has ended. A program ends when in does, as it
// does where the one that ordered it has gone. Images of one static program have no other: "cat" is
// done here.
func Run(ctx context.Context, in io.Reader, out io.Writer) error {
	dec := json.NewDecoder(in)
	var order lab.Program
	if err := dec.Decode(&order); err != nil {
		return fmt.Errorf("read order: %w", err)
	}
	if len(order.Argv) == 0 {
		return errors.New("read order: it has no program")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process at the latest
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	var ran lab.Ran
	if order.Argv[0] == "cat" {
		ran = show(order.Argv[1:])
	} else {
		ran = execute(ctx, order)
	}
	return json.NewEncoder(out).Encode(ran)
}

// show is what cat does.
func show(files []string) (ran lab.Ran) {
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			ran.Failure, ran.Stderr = "exit status 1", err.Error()
		}
		ran.Stdout = append(ran.Stdout, raw...)
	}
	return ran
}

func execute(ctx context.Context, order lab.Program) lab.Ran {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, order.Argv[0], order.Argv[1:]...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = append(os.Environ(), program.Ahead(order.Ahead))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	begin := time.Now()
	err := cmd.Run()
	ran := lab.Ran{Result: program.Result{Stdout: stdout.Bytes(), Wall: time.Since(begin)}}
	if p := cmd.ProcessState; p != nil {
		ran.User, ran.System = p.UserTime(), p.SystemTime()
	}
	if err != nil {
		text := stderr.Bytes()
		ran.Failure, ran.Stderr = err.Error(), string(bytes.TrimSpace(text[max(0, len(text)-4096):]))
	}
	return ran
}
