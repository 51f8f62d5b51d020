// Package limit reads the counters of what may limit traffic while a window lasts:
// queues and policers of tc, sockets, and programs outside the lab.
//
// It does not judge: package explain says which limit explains a figure. What a
// kernel does not count is told as such, and fails nothing.
package limit

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/explain"
	"pathwise.dev/pathwise/internal/lab/netns"
)

// Namespace is one whose counters are read.
type Namespace struct {
	Name  string
	Inode uint64
	Place explain.Place
	Links *netlink.Handle
	// Pod: generators run in it, whose sockets are of interest.
	Pod bool
}

// Watch reads counters at the ends of one window, and of connections in between.
type Watch struct {
	spaces []Namespace
	// processes: those outside the lab are counted.
	processes bool

	began, ended time.Time
	queues       map[queueKey]queue
	policers     map[policerKey]policer
	pods         []pod
	flows        map[flowKey]*seen
	running      map[int]ticks
	out          explain.Limits

	stop chan struct{}
	done sync.WaitGroup
}

// pod is what is kept of a namespace with generators.
type pod struct {
	Namespace
	// files are /proc/net/snmp and snmp6, which stay the namespace's.
	files  []*os.File
	before datagrams
	// send and receive are what TCP's buffers begin with and may grow to.
	send, receive [2]float64
}

// mostPods bounds how many pods' sockets are read: the kernel looks at every
// connection of the machine for each.
const mostPods = 16

// Open prepares to read the counters of spaces, and with processes the CPU time of
// programs outside them.
func Open(spaces []Namespace, processes bool) *Watch {
	w := &Watch{spaces: spaces, processes: processes}
	for _, s := range spaces {
		if !s.Pod || len(w.pods) == mostPods {
			continue
		}
		p := pod{Namespace: s}
		err := netns.Do(s.Name, func() (err error) {
			p.files = openDatagrams()
			if p.send, err = readBuffer("tcp_wmem"); err != nil {
				return err
			}
			p.receive, err = readBuffer("tcp_rmem")
			return err
		})
		if err != nil {
			w.unread("sockets", err)
		}
		w.pods = append(w.pods, p)
	}
	return w
}

// unread notes what could not be read, once.
func (w *Watch) unread(what string, err error) {
	if text := fmt.Sprintf("%s: %v", what, err); !slices.Contains(w.out.Unread, text) {
		w.out.Unread = append(w.out.Unread, text)
	}
}

// Begin begins the window, which lasts about d. One that had begun before is forgotten.
func (w *Watch) Begin(d time.Duration) {
	w.halt()
	w.flows = map[flowKey]*seen{}
	if w.processes {
		w.running = w.readProcesses()
	}
	for i := range w.pods {
		w.pods[i].before = w.readDatagrams(w.pods[i])
	}
	w.queues, w.policers, w.began = w.readQueues()
	w.look(true)
	w.stop = make(chan struct{})
	w.done.Go(func() { w.follow(d) })
}

// looks is how often in a window connections are looked at. One that ends before
// the window does counts as it was then.
const looks = 5

// follow looks at connections while the window lasts.
func (w *Watch) follow(d time.Duration) {
	tick := time.NewTicker(max(d/looks, 50*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
			w.look(false)
		}
	}
}

// End ends the window.
func (w *Watch) End() {
	if w.stop == nil {
		return
	}
	w.halt()
	queues, policers, at := w.readQueues()
	w.ended = at
	w.look(false)
	w.out.Queues = w.changed(queues)
	w.out.Policers = w.policed(policers)
	w.out.Flows = w.carried()
	for _, p := range w.pods {
		now := w.readDatagrams(p)
		d := explain.Datagram{Place: p.Place, Received: now.received - p.before.received,
			NoRoom: now.noRoom - p.before.noRoom}
		if d.Received+d.NoRoom > 0 {
			w.out.Datagrams = append(w.out.Datagrams, d)
		}
	}
	if w.processes {
		w.out.Others = spent(w.running, w.readProcesses())
	}
}

// halt ends the looks of a window.
func (w *Watch) halt() {
	if w.stop != nil {
		close(w.stop)
		w.done.Wait()
		w.stop = nil
	}
}

// Limits is what was counted, once the window has ended.
func (w *Watch) Limits() *explain.Limits { return &w.out }

// Close lets go of what was opened.
func (w *Watch) Close() {
	w.halt()
	for _, p := range w.pods {
		for _, f := range p.files {
			f.Close()
		}
	}
	w.pods = nil
}
