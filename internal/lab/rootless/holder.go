package rootless

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// Argument is the hidden command that is the holder; it calls Hold.
const Argument = "rootless-hold"

// mark is in the environment of all that runs in the namespaces.
const mark = "PATHWISE_ROOTLESS"

// Place is where a user's holder is recorded.
type Place struct{ Dir string }

// holder is the record of the process that holds the namespaces.
type holder struct {
	PID int `json:"pid"`
	// Start tells the process from a later one of the same number.
	Start uint64 `json:"start,string"`
	// User is its user namespace, as /proc/PID/ns/user shows it.
	User string `json:"user_namespace"`
}

func (p Place) record() string { return filepath.Join(p.Dir, "holder.json") }

// open makes the directory, which must be the user's alone, and locks it in mode how,
// which waits for one who is starting or ending a holder. The lock stays with all
// that inherits the file.
func (p Place) open(how int) (*os.File, error) {
	if err := os.Mkdir(p.Dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("create %s: %w", p.Dir, err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(p.Dir, &st); err != nil {
		return nil, fmt.Errorf("stat %s: %w", p.Dir, err)
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Mode&0o77 != 0 {
		return nil, fmt.Errorf("%s: expected a directory that is this user's alone: remove it, or set XDG_RUNTIME_DIR", p.Dir)
	}
	f, err := os.OpenFile(filepath.Join(p.Dir, "lock"), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := flock(f, how); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Command returns the program and arguments by which argv runs in the user's
// namespaces, which are made first where there are none and create is set; without
// it, nil. The lock that keeps them is inherited by the program, which the caller
// executes in place of itself.
func (p Place) Command(ctx context.Context, self string, argv []string, create bool) ([]string, error) {
	if _, err := os.Stat(p.record()); err != nil && !create {
		return nil, nil
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return nil, fmt.Errorf("join user namespace: %w: apt-get install util-linux", err)
	}
	lock, err := p.open(unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	h, ok := p.load()
	if !ok && !create {
		return nil, errors.Join(p.clear(h), lock.Close())
	}
	if !ok {
		if h, err = p.start(ctx, self); err != nil {
			return nil, errors.Join(err, lock.Close())
		}
	}
	// Kept over exec, by what runs there too.
	if _, err := unix.FcntlInt(lock.Fd(), unix.F_SETFD, 0); err != nil {
		return nil, fmt.Errorf("keep lock: %w", err)
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find working directory: %w", err)
	}
	out := netns.Join(h.PID, dir, append([]string{self}, argv...)...)
	out[0] = nsenter
	return out, nil
}

// Mark is the variable, as NAME=VALUE, of all that runs in the namespaces.
func (p Place) Mark() string { return mark + "=" + p.Dir }

// load reads the record, and reports whether the process lives.
func (p Place) load() (holder, bool) {
	var h holder
	raw, err := os.ReadFile(p.record())
	if err != nil || json.Unmarshal(raw, &h) != nil || h.PID <= 0 {
		return holder{}, false
	}
	return h, h.Start != 0 && startOf(h.PID) == h.Start
}

// start makes the namespaces. Of several commands at once one does, and the others
// find them made.
func (p Place) start(ctx context.Context, self string) (holder, error) {
	starting, err := os.OpenFile(filepath.Join(p.Dir, "start"), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return holder{}, fmt.Errorf("open lock: %w", err)
	}
	defer starting.Close()
	if err := flock(starting, unix.LOCK_EX); err != nil {
		return holder{}, fmt.Errorf("lock start: %w", err)
	}
	h, ok := p.load()
	if ok {
		return h, nil
	}
	if err := p.clear(h); err != nil {
		return holder{}, err
	}
	h, err = p.launch(ctx, self)
	if err != nil {
		return holder{}, errors.Join(refused(err, knob), p.forget())
	}
	return h, nil
}

// launch starts a holder and waits until it is ready. It is recorded before it may
// make anything.
func (p Place) launch(ctx context.Context, self string) (holder, error) {
	goR, goW, err := os.Pipe()
	if err != nil {
		return holder{}, fmt.Errorf("start holder: %w", err)
	}
	defer goW.Close()
	readyR, readyW, err := os.Pipe()
	if err != nil {
		goR.Close()
		return holder{}, fmt.Errorf("start holder: %w", err)
	}
	defer readyR.Close()
	cmd := exec.Command(self, Argument, p.Dir)
	cmd.SysProcAttr = netns.Own()
	cmd.ExtraFiles = []*os.File{goR, readyW}
	cmd.Env = append(os.Environ(), p.Mark())
	cmd.Dir = "/"
	err = cmd.Start()
	goR.Close()
	readyW.Close()
	if err != nil {
		return holder{}, fmt.Errorf("make user namespace: %w", err)
	}
	h, err := p.bless(ctx, cmd.Process.Pid, goW, readyR)
	if err != nil {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		return holder{}, err
	}
	return h, cmd.Process.Release()
}

// bless records the process, maps its user, lets it go on and hears how it went.
func (p Place) bless(ctx context.Context, pid int, proceed io.Writer, ready io.Reader) (holder, error) {
	h := holder{PID: pid, Start: startOf(pid)}
	var err error
	if h.User, err = os.Readlink(fmt.Sprintf("/proc/%d/ns/user", pid)); err != nil {
		return h, fmt.Errorf("record holder: %w", err)
	}
	raw, err := json.Marshal(h)
	if err != nil {
		return h, fmt.Errorf("record holder: %w", err)
	}
	if err := os.WriteFile(p.record(), append(raw, '\n'), 0o600); err != nil {
		return h, fmt.Errorf("record holder: %w", err)
	}
	if err := mapIDs(ctx, pid); err != nil {
		return h, err
	}
	if _, err := proceed.Write([]byte{'\n'}); err != nil {
		return h, fmt.Errorf("start holder: %w", err)
	}
	said, err := io.ReadAll(ready)
	if err != nil {
		return h, fmt.Errorf("start holder: %w", err)
	}
	if text := strings.TrimSpace(string(said)); text != readyWord {
		var code int
		if rest, ok := strings.CutPrefix(text, "errno "); ok {
			number, what, _ := strings.Cut(rest, " ")
			if code, err = strconv.Atoi(number); err == nil {
				return h, fmt.Errorf("%s: %w", what, unix.Errno(code))
			}
		}
		return h, fmt.Errorf("start holder: %s", text)
	}
	return h, nil
}

// startOf is when the process started, in ticks since boot; 0 where there is none.
func startOf(pid int) uint64 {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	const exiting = 0x4 // PF_EXITING (include/linux/sched.h)
	s, err := p.Stat()
	if err != nil || s.State == "Z" || s.State == "X" || s.Flags&exiting != 0 {
		return 0
	}
	return s.Starttime
}

// forget removes the record of a holder that has gone.
func (p Place) forget() error {
	if err := os.Remove(p.record()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove record of holder: %w", err)
	}
	return nil
}

// clear ends what a holder that was killed has left in its namespaces, which go with
// the last process in them, and forgets it.
func (p Place) clear(h holder) error {
	const patience = 5 * time.Second
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		left := p.members(h)
		if len(left) == 0 {
			return p.forget()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v in the user's namespaces do not end", left)
		}
		for _, pid := range left {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended meanwhile
		}
	}
}

// members lists the processes in the holder's user namespace. The kernel gives a
// namespace's number to a later one, so one of them must bear the mark.
func (p Place) members(h holder) []int {
	all, err := procfs.AllProcs()
	if err != nil || h.User == "" {
		return nil
	}
	var out []int
	ours := false
	for _, one := range all {
		if startOf(one.PID) == 0 {
			continue
		}
		if in, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", one.PID)); err != nil || in != h.User {
			continue
		}
		out = append(out, one.PID)
		environ, err := one.Environ()
		ours = ours || err == nil && slices.Contains(environ, p.Mark())
	}
	if !ours {
		return nil
	}
	return out
}
