package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/topo"
)

// DefaultRoot is where labs record themselves. It is under /run, which does
// not outlive the kernel, as the namespaces do not either.
const DefaultRoot = "/run/pathwise"

// Store is the directory of all labs of a machine.
type Store struct{ Root string }

// State is what a lab records of itself in lab.json.
type State struct {
	Spec Spec `json:"spec"`
	// Network is the pods' default network; all of them are in Spec.Networks.
	Network string `json:"network"`
	// Guest names the kernel where the record is of a guest and of no lab.
	Guest   string    `json:"guest,omitempty"`
	Created time.Time `json:"created"`
	// Owner is the process that made the lab and removes it; 0 when it stays up.
	Owner int `json:"owner,omitempty"`
	// Up is set when the lab is complete.
	Up    bool        `json:"up"`
	Hosts []topo.Host `json:"hosts"`
	Pods  []topo.Pod  `json:"pods"`
	// Delete holds the CNI attachments that want a CNI DEL when the lab goes down.
	Delete []deletion `json:"delete,omitempty"`
}

// deletion is what CNI DEL of one attachment needs.
type deletion struct {
	Pod      string          `json:"pod"`
	Host     string          `json:"host_netns"`
	Netns    string          `json:"netns"`
	IfName   string          `json:"if_name"`
	Conflist json.RawMessage `json:"conflist"`
	CNIPath  []string        `json:"cni_path"`
	// Timeout is what CNI ADD was given.
	Timeout time.Duration `json:"timeout,omitempty"`
}

// resource is one line of journal.jsonl: something that is about to be made.
type resource struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// Kinds of resources.
const (
	kindNetns  = "netns"
	kindCgroup = "cgroup"
	kindMount  = "mount"
	// kindDir is an empty directory outside the lab's own.
	kindDir = "directory"
)

func (s Store) labs() string           { return filepath.Join(s.Root, "labs") }
func (s Store) dir(name string) string { return filepath.Join(s.labs(), name) }
func (s Store) benchLock() string      { return filepath.Join(s.Root, "bench.lock") }

// ErrNoLab: no lab of that name is recorded.
var ErrNoLab = errors.New("no such lab: \"pathwise lab status\" lists all")

// List returns the states of all recorded labs, by name. A lab whose record
// cannot be read is returned with its name alone; what is no record is left out.
func (s Store) List() ([]State, error) {
	entries, err := os.ReadDir(s.labs())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("list labs: %w", err)
	}
	var out []State
	for _, e := range entries {
		if _, err := s.find(e.Name()); err != nil {
			continue
		}
		st, err := s.Load(e.Name())
		if err != nil {
			st = State{Spec: Spec{Name: e.Name()}}
		}
		out = append(out, st)
	}
	slices.SortFunc(out, func(a, b State) int { return strings.Compare(a.Spec.Name, b.Spec.Name) })
	return out, nil
}

// Load reads the record of the lab called name.
func (s Store) Load(name string) (State, error) {
	var st State
	dir, err := s.find(name)
	if err != nil {
		return st, err
	}
	raw, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return st, fmt.Errorf("lab %q: %w", name, ErrNoLab)
	} else if err != nil {
		return st, fmt.Errorf("read lab: %w", err)
	}
	if err := json.Unmarshal(raw, &st); err != nil {
		return State{}, fmt.Errorf("decode lab %q: %w", name, err)
	}
	if err := st.check(name); err != nil {
		return State{}, fmt.Errorf("read record of lab %q: %w", name, err)
	}
	return st, nil
}

// stateFile and lockFile are in the lab's directory; the latter is made first.
const (
	stateFile = "lab.json"
	lockFile  = "owner.lock"
)

// record is a lab's directory, with its state, while this process builds or removes it.
type record struct {
	dir     string
	journal *os.File
	// owner is held locked as long as the process that owns the lab lives.
	owner *os.File

	mu     sync.Mutex // guards the rest: hosts attach side by side
	state  State
	cgroup bool // recorded
}

// create makes the directory of a new lab and locks it.
func (s Store) create(name string) (*record, error) {
	if err := CheckName(name); err != nil {
		return nil, fmt.Errorf("lab name %w", err)
	}
	if err := os.MkdirAll(s.labs(), 0o755); err != nil {
		return nil, fmt.Errorf("create lab record: %w", err)
	}
	dir := s.dir(name)
	if err := os.Mkdir(dir, 0o755); errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("lab %q exists already: remove it with \"pathwise lab down %s\"", name, name)
	} else if err != nil {
		return nil, fmt.Errorf("create lab record: %w", err)
	}
	owner, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create lab record: %w", err)
	}
	if err := unix.Flock(int(owner.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		owner.Close()
		return nil, fmt.Errorf("lock lab record: %w", err)
	}
	journal, err := os.OpenFile(filepath.Join(dir, "journal.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		owner.Close()
		return nil, fmt.Errorf("create lab record: %w", err)
	}
	return &record{dir: dir, journal: journal, owner: owner}, nil
}

// intend records a resource before it is made.
func (r *record) intend(kind, name string) error {
	raw, err := json.Marshal(resource{kind, name})
	if err != nil {
		return fmt.Errorf("record %s %s: %w", kind, name, err)
	}
	if _, err := r.journal.Write(append(raw, '\n')); err != nil {
		return fmt.Errorf("record %s %s: %w", kind, name, err)
	}
	return nil
}

// change changes the state, which the next save records.
func (r *record) change(fn func(st *State)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fn(&r.state)
}

// pods are those of the state: made and attached as far as their names say so.
func (r *record) pods() []topo.Pod {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Pods
}

// mark is the variable, as NAME=VALUE, of the lab's processes.
func (r *record) mark() string { return labEnv + "=" + r.dir }

// makeDir makes a directory that goes with the lab.
func (r *record) makeDir(name string) (string, error) {
	dir := filepath.Join(r.dir, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", fmt.Errorf("create directory: %w", err)
	}
	return dir, nil
}

// willDelete records an attachment that wants a CNI DEL, before it is made.
func (r *record) willDelete(d deletion) error {
	r.change(func(st *State) { st.Delete = append(st.Delete, d) })
	return r.save()
}

// save replaces lab.json in one step.
func (r *record) save() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	raw, err := json.MarshalIndent(r.state, "", "  ")
	if err != nil {
		return fmt.Errorf("save lab: %w", err)
	}
	tmp := filepath.Join(r.dir, "lab.json.tmp")
	if err := os.WriteFile(tmp, raw, 0o644); err != nil {
		return fmt.Errorf("save lab: %w", err)
	}
	if err := os.Rename(tmp, filepath.Join(r.dir, stateFile)); err != nil {
		return fmt.Errorf("save lab: %w", err)
	}
	return nil
}

func (r *record) close() {
	r.journal.Close()
	_ = unlock(r.owner)
}

// resources reads the journal; a half-written last line was not acted upon.
func resources(dir string) []resource {
	raw, err := os.ReadFile(filepath.Join(dir, "journal.jsonl"))
	if err != nil {
		return nil
	}
	var out []resource
	for _, l := range strings.Split(string(raw), "\n") {
		var r resource
		if json.Unmarshal([]byte(l), &r) == nil && r.Name != "" {
			out = append(out, r)
		}
	}
	return out
}

// owned reports whether a living process holds the lab.
func owned(dir string) bool { return locked(filepath.Join(dir, lockFile)) }

// locked reports whether a living process holds the lock file.
func locked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
}

// unlock gives a lock back at once: closing the file would not, while a child that is being started has it, too.
func unlock(f *os.File) error {
	return errors.Join(unix.Flock(int(f.Fd()), unix.LOCK_UN), f.Close())
}

// ErrBusy: another bench runs on this machine.
var ErrBusy = errors.New("another pathwise bench is running: two would disturb each other's figures; wait for it or stop it")

// LockBench keeps a second bench from disturbing the first one's figures. The
// lock goes with the process; release also removes what the store left.
func (s Store) LockBench() (release func() error, err error) {
	if err := os.MkdirAll(s.Root, 0o755); err != nil {
		return nil, fmt.Errorf("create %s: %w", s.Root, err)
	}
	f, err := os.OpenFile(s.benchLock(), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock bench: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, ErrBusy
	}
	return func() error { return errors.Join(unlock(f), s.Tidy()) }, nil
}
