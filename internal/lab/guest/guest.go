// Package guest boots a kernel alongside the host's own and runs one command in it:
// for networks that the host's kernel cannot build. The guest's root file system
// is the host's, read-only under a layer in memory, so that the same programs run
// in it; its init is the pathwise executable itself.
//
// A guest has no way to the host but one shared directory and the output of its
// command. It knows nothing of networks or labs: those are made inside, by the
// command. What it leaves when it dies, or is killed with its parent, is one
// recorded directory, which "lab down" removes.
package guest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"pathwise.dev/pathwise/internal/lab"
	"pathwise.dev/pathwise/internal/lab/capability"
)

// Config says what to run in a guest.
type Config struct {
	Kernel Kernel
	// Store records the guest.
	Store lab.Store
	// Self is the executable that calls Init when it finds itself Inside.
	Self string
	// Memory in bytes; 0 means DefaultMemory.
	Memory int64
	// Argv is the command, Env its environment, WorkDir where it starts; ""
	// means the root.
	Argv    []string
	Env     []string
	WorkDir string
	// Share is a directory of the host that the guest may write, under the same
	// path; "" for none. All else that it writes goes with it.
	Share string
	// Stdout and Stderr take the command's output while it runs, one Write at a time:
	// they may be the same. nil discards it.
	Stdout, Stderr io.Writer
	// Ready is told when the guest is about to start its command, and how long
	// the boot took; nil means nobody waits.
	Ready func(after time.Duration)
	// NICs are the guest's network interfaces; Netns is the namespace where their tap
	// devices are, and in which the guest's kernel runs.
	NICs  []NIC
	Netns string
	// Alone: the guest goes on when this process ends. See Start.
	Alone bool
	// BootLimit is how long the boot may take; 0 means DefaultBootLimit.
	BootLimit time.Duration
}

// Defaults of a Config.
const (
	DefaultMemory    = 2 << 30
	DefaultBootLimit = 90 * time.Second
)

// ErrDied: the guest ended before its command did. What the command wrote until
// then has been written.
var ErrDied = errors.New("the guest died")

// ErrBoot: the guest never came as far as its command.
var ErrBoot = errors.New("the guest did not boot")

// Run boots a guest, runs the command in it and returns the command's exit code,
// 128 and the signal's number where a signal ended it. When ctx ends the guest is
// killed.
func Run(ctx context.Context, c Config) (code int, err error) {
	if err := c.check(); err != nil {
		return 0, err
	}
	var id [3]byte
	if _, err := rand.Read(id[:]); err != nil {
		return 0, fmt.Errorf("name guest: %w", err)
	}
	claim, err := c.Store.Claim("guest-"+hex.EncodeToString(id[:]), c.Kernel.Label())
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, claim.Release(context.WithoutCancel(ctx))) }()
	return run(ctx, c, claim)
}

func (c *Config) check() error {
	if len(c.Argv) == 0 {
		return errors.New("run guest: expected a command")
	}
	if os.Geteuid() != 0 {
		return errors.New("booting a guest kernel needs root: run as root, for example with sudo")
	}
	if lacks := capability.Lacking(); lacks != "" {
		return fmt.Errorf("booting a guest kernel needs %s: %s", lacks, capability.Grant)
	}
	if miss := c.Kernel.Missing; len(miss) > 0 {
		return fmt.Errorf("guest kernel %s: missing: %v", c.Kernel.Name, miss[0])
	}
	if c.Memory == 0 {
		c.Memory = DefaultMemory
	}
	if c.BootLimit == 0 {
		c.BootLimit = DefaultBootLimit
	}
	// These stand on the guest's command line, whose words end at a space.
	for _, path := range []string{c.Self, c.Store.Root} {
		if strings.ContainsAny(path, " \t\n\",") {
			return fmt.Errorf("run guest: %q: expected a path without blanks, quotes and commas", path)
		}
	}
	return nil
}

// Files in the guest's directory, by which the two sides of a guest talk.
const (
	orderFile   = "order.json"
	readyFile   = "ready"
	outcomeFile = "outcome.json"
	stdoutFile  = "stdout"
	stderrFile  = "stderr"
	consoleFile = "console.log"
)

// outcome is how the command ended; a guest that died leaves none.
type outcome struct {
	Code int `json:"code"`
	// Error says why init could not run the command.
	Error string `json:"error,omitempty"`
}

// run boots the guest in its claimed directory and waits for its end.
func run(ctx context.Context, c Config, claim *lab.Claim) (int, error) {
	dir := claim.Dir()
	if err := prepare(dir, c); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began := time.Now()
	p, err := boot(ctx, c, claim)
	if err != nil {
		return 0, err
	}
	var turn sync.Mutex
	out := follow(filepath.Join(dir, stdoutFile), c.Stdout, &turn)
	errs := follow(filepath.Join(dir, stderrFile), c.Stderr, &turn)
	ready := watchBoot(c, filepath.Join(dir, readyFile), began, p.done, cancel)
	if c.Kernel.Name == QEMU {
		go endWith(filepath.Join(dir, outcomeFile), p)
	}
	<-p.done
	booted := <-ready
	err = errors.Join(out.finish(), errs.finish())
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, ErrBoot) {
			cause = fmt.Errorf("%w%s", cause, lastWords(dir))
		}
		return 0, errors.Join(cause, err)
	}
	code, end := conclude(dir, booted, p.err)
	return code, errors.Join(end, err)
}

// prepare writes what the guest's init reads, and the files that it writes.
func prepare(dir string, c Config) error {
	raw, err := json.Marshal(newOrder(c))
	if err != nil {
		return fmt.Errorf("encode guest's order: %w", err)
	}
	files := map[string][]byte{orderFile: raw, stdoutFile: nil, stderrFile: nil, consoleFile: nil}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return fmt.Errorf("prepare guest: %w", err)
		}
	}
	return nil
}

// watchBoot tells c.Ready, and ends a boot that takes too long. What it returns
// says in the end whether the guest came up.
func watchBoot(c Config, file string, began time.Time, done <-chan struct{},
	cancel context.CancelCauseFunc) <-chan bool {
	out := make(chan bool, 1)
	up := func() bool {
		if !exists(file) {
			return false
		}
		if c.Ready != nil {
			c.Ready(time.Since(began))
		}
		return true
	}
	go func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				// A short command may end within a tick.
				out <- up()
				return
			case <-tick.C:
			}
			if up() {
				out <- true
				return
			}
			if time.Since(began) > c.BootLimit {
				cancel(fmt.Errorf("guest kernel %s: %w: it was not ready after %v", c.Kernel.Label(), ErrBoot, c.BootLimit))
				out <- false
				return
			}
		}
	}()
	return out
}

// endWith ends a virtual machine once it has told its command's outcome, which is
// the last thing that it writes: to shut down takes an emulated one seconds.
func endWith(file string, p *process) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.done:
			return
		case <-tick.C:
		}
		if exists(file) {
			_ = p.kill() // it may have ended meanwhile
			return
		}
	}
}

// conclude reads how the command ended.
func conclude(dir string, booted bool, exit error) (int, error) {
	raw, err := os.ReadFile(filepath.Join(dir, outcomeFile))
	var o outcome
	if err == nil {
		err = json.Unmarshal(raw, &o)
	}
	switch {
	case err == nil && o.Error != "":
		return 0, errors.New(o.Error)
	case err == nil:
		return o.Code, nil
	case !booted:
		return 0, fmt.Errorf("%w: %s%s", ErrBoot, ended(exit), lastWords(dir))
	default:
		return 0, fmt.Errorf("%w before its command ended: %s%s", ErrDied, ended(exit), lastWords(dir))
	}
}

func ended(exit error) string {
	if exit == nil {
		return "it powered off"
	}
	return exit.Error()
}
