package impair

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"
)

// Line is a delay line: a process that holds packets on their way over a wire,
// for kernels without netem. It lives in the namespace of the pod's host. When it
// dies, however that is, packets go past it undelayed: the kernel takes its
// program off the wire with it.
type Line struct {
	Port Port
	// Dir is where its socket lies.
	Dir string
	// Seed of its random delays.
	Seed uint64
}

// orders say what a line is to do, by direction; nil lets packets alone.
type orders struct {
	In   *Hold `json:"in,omitempty"`
	Out  *Hold `json:"out,omitempty"`
	Stop bool  `json:"stop,omitempty"`
	// Ask leaves all as it is.
	Ask bool `json:"ask,omitempty"`
}

// Counts are what went over a delay line in one direction.
type Counts struct {
	// Passed have gone on, Held have not yet, Lost found the line full.
	Passed uint64 `json:"passed"`
	Held   uint64 `json:"held"`
	Lost   uint64 `json:"lost"`
}

type answer struct {
	Error string `json:"error,omitempty"`
	In    Counts `json:"in"`
	Out   Counts `json:"out"`
}

// running is a line while it runs.
type running struct {
	Line
	wire  wire
	lanes map[way]*lane
	stop  context.CancelFunc
}

// Run is the process. It writes a line to ready once it can be given orders, and
// ends when it is told to, with ctx, or when what it works on has gone.
func (l Line) Run(ctx context.Context, ready io.Writer) (err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	r := &running{Line: l, lanes: map[way]*lane{}, stop: stop}
	if r.wire, err = l.Port.wire(); err != nil {
		return fmt.Errorf("run delay line: %w", err)
	}
	for i, dir := range []way{intoPod, outOfPod} {
		a, err := newLane(r.wire, dir, rand.New(rand.NewPCG(l.Seed, uint64(i))))
		if err != nil {
			return fmt.Errorf("run delay line: %w", err)
		}
		defer a.close()
		r.lanes[dir] = a
	}
	ear, err := listen(l.Dir, l.Port.name()+".sock")
	if err != nil {
		return fmt.Errorf("run delay line: %w", err)
	}
	defer ear.Close()
	if err := r.work(ctx, ear, ready); err != nil {
		return fmt.Errorf("run delay line: %w", err)
	}
	return nil
}

// work goes on until ctx ends or something fails.
func (r *running) work(ctx context.Context, ear *net.UnixListener, ready io.Writer) error {
	failed := make(chan error, len(r.lanes)+1)
	var moving, serving sync.WaitGroup
	for _, a := range r.lanes {
		moving.Go(func() {
			if err := a.run(); err != nil {
				failed <- err
			}
		})
	}
	serving.Go(func() {
		if err := r.serve(ear); err != nil {
			failed <- err
		}
	})
	_, err := fmt.Fprintln(ready, "ready")
	if err == nil {
		err = r.watch(ctx, failed)
	}
	errs := []error{err, ear.Close()}
	serving.Wait() // no more orders
	for _, a := range r.lanes {
		errs = append(errs, a.end())
	}
	moving.Wait()
	return errors.Join(errs...)
}

// watch waits for the end: of ctx, of a part, or of the pod's interface. A line
// holds the host's namespace, which would otherwise never go.
func (r *running) watch(ctx context.Context, failed <-chan error) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-tick.C:
		}
		if r.gone() {
			return nil
		}
	}
}

// gone reports whether the pod's interface is not the one that it was.
func (r *running) gone() bool {
	w, err := r.Port.wire()
	return err != nil || w.near != r.wire.near || w.index != r.wire.index
}

func (r *running) serve(ear *net.UnixListener) error {
	for {
		c, err := ear.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return nil
		} else if err != nil {
			return fmt.Errorf("accept orders: %w", err)
		}
		if r.talk(c) { // who says stop waits until this process has ended
			continue
		}
		c.Close()
	}
}

// talk does what it is told on one connection, and reports a stop.
func (r *running) talk(c *net.UnixConn) (stop bool) {
	if c.SetDeadline(time.Now().Add(patience)) != nil {
		return false
	}
	o, err := readOrders(c)
	if err != nil {
		_ = json.NewEncoder(c).Encode(answer{Error: err.Error()}) // the one that asked may have gone
		return false
	}
	if r.gone() { // before watch has seen it: this is no answer
		r.stop()
		return false
	}
	var a answer
	if err := r.obey(o); err != nil {
		a.Error = err.Error()
	}
	a.In, a.Out = r.lanes[intoPod].counts(), r.lanes[outOfPod].counts()
	_ = json.NewEncoder(c).Encode(a) // the one that asked may have gone
	if o.Stop {
		r.stop()
	}
	return o.Stop
}

// readOrders reads what a line is told.
func readOrders(r io.Reader) (o orders, err error) {
	if err := json.NewDecoder(io.LimitReader(r, mostMessage)).Decode(&o); err != nil {
		return o, fmt.Errorf("read orders: %w", err)
	}
	for _, h := range []*Hold{o.In, o.Out} {
		if h == nil {
			continue
		}
		if err := h.check(); err != nil {
			return o, fmt.Errorf("read orders: %w", err)
		}
	}
	return o, nil
}

func (r *running) obey(o orders) error {
	if o.Ask {
		return nil
	}
	return errors.Join(r.lanes[intoPod].order(o.In), r.lanes[outOfPod].order(o.Out))
}

// patience is how long a line and who orders it wait for each other.
const patience = 5 * time.Second

// name of a port in files; names of namespaces and interfaces hold no slash.
func (p Port) name() string { return p.Netns + "-" + p.Dev }

// listen opens a socket in a directory whose path may be longer than a socket's
// may be (108 bytes, unix(7)).
func listen(dir, name string) (*net.UnixListener, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	path := fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	ear, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	// The file stays for the next process to remove: the path is not ours
	// any more once the directory is closed.
	ear.SetUnlinkOnClose(false)
	return ear, nil
}
