package route

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Fit is what a pod's kernel is to be like towards a peer. The zero Fit is as it would be
// without us.
type Fit struct {
	Form
	// Hold: the peer's hardware address is held, see HoldNeighbour.
	Hold bool
}

// End is a peer as the kernel of a pod sees it.
type End struct {
	Netns string
	// Routes are the paths, the default network's first.
	Routes []Route
	// Ready makes the data plane ready for direct routes by an interface, or ends that.
	Ready func(dev string, ready bool) error
}

// Report is what became of what was asked for of a peer.
type Report struct {
	// Has is what the kernel is like now, as far as is known, and Err why that, or Hops,
	// is not what is wanted.
	Has Fit
	Err error
	// Hops are the paths' next hops, where they were asked for and found.
	Hops map[int]net.HardwareAddr
}

// Fitter makes pods' kernels fit for their peers, and finds next hops, apart from who
// decides what is needed: that takes as long as the kernel takes. Of what is asked for of
// a peer the latest counts. What fails is tried again.
type Fitter[K comparable] struct {
	report func(K, Report)
	apply  func(e End, has, want Fit, again bool) (Fit, error)
	find   func(ns string, rs []Route) (map[int]net.HardwareAddr, error)
	bell   chan struct{}

	// work is held by who asks the kernel, one at a time, as an interface that one peer's
	// route leads by may be another's too. It comes before mu.
	work sync.Mutex
	mu   sync.Mutex // of what follows; nothing is waited for under it
	// peers are those of which something was asked for, queue those that it is to be done
	// for, and failed those that it failed for.
	peers  map[K]*fitting
	queue  []K
	failed map[K]bool
	// straight is how many routes lead straight to an interface.
	straight map[exitOf]int
}

type exitOf struct{ netns, dev string }

// fitting is one peer's.
type fitting struct {
	end       End
	want, has Fit
	// again: it is not known whether the kernel is as has says. hops: they are asked for.
	again, hops          bool
	queued, busy, failed bool
}

// due reports whether the kernel is to be made another.
func (p *fitting) due() bool { return p.want != p.has || p.again }

// retryEvery is how often what has failed is tried again, for retryMost peers at a time.
const retryEvery, retryMost = time.Second, 64

// NewFitter prepares one that reports on its own goroutine, see Run, or on that of Do.
func NewFitter[K comparable](report func(K, Report)) *Fitter[K] {
	return &Fitter[K]{report: report, apply: apply, find: NextHops, bell: make(chan struct{}, 1), peers: map[K]*fitting{},
		failed: map[K]bool{}, straight: map[exitOf]int{}}
}

// Want has the kernel be fit so, and reports whether that is under way: not if it is so
// already, nor if it was tried and has failed.
func (f *Fitter[K]) Want(k K, e End, want Fit) (underway bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.peers[k]
	if p == nil && want == (Fit{}) {
		return false
	}
	p = f.peer(k, e)
	same := p.want == want
	p.want = want
	if p.due() && !(same && p.failed) {
		f.enqueue(k, p)
	}
	return p.due() && (p.queued || p.busy)
}

// Find asks for the next hops of the peer's paths.
func (f *Fitter[K]) Find(k K, e End) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.peer(k, e)
	p.hops = true
	f.enqueue(k, p)
}

// Adopt tells what a predecessor has left of a peer's.
func (f *Fitter[K]) Adopt(k K, e End, has Fit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.peer(k, e)
	p.has, p.want, p.again = has, has, true
}

// Again has what is wanted be made again, as it may have gone with an interface.
func (f *Fitter[K]) Again(k K) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.peers[k]; p != nil {
		p.again = true
		f.enqueue(k, p)
	}
}

// Forget forgets the peer, whose kernel stays as it is. What is being done may still go on,
// until Idle.
func (f *Fitter[K]) Forget(k K) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.peers[k]; p != nil {
		f.count(p.end.Netns, p.has.Direct, -1)
		delete(f.peers, k)
		delete(f.failed, k)
	}
}

// Idle waits until what is being done is done.
func (f *Fitter[K]) Idle() {
	f.work.Lock()
	defer f.work.Unlock()
}

// Run does what is asked for until ctx ends.
func (f *Fitter[K]) Run(ctx context.Context) error {
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if k, ok := f.next(); ok {
			f.Do(k)
			continue
		}
		select {
		case <-f.bell:
		case <-tick.C:
			f.retry()
		case <-ctx.Done():
		}
	}
	return nil
}

// Do does what is asked for of a peer, if something is.
func (f *Fitter[K]) Do(k K) {
	if r, some := f.do(k); some {
		f.report(k, r)
	}
}

func (f *Fitter[K]) do(k K) (r Report, some bool) {
	f.work.Lock()
	defer f.work.Unlock()
	f.mu.Lock()
	p := f.peers[k]
	if p == nil || !p.due() && !p.hops {
		if p != nil {
			p.queued = false
		}
		f.mu.Unlock()
		return r, false
	}
	is := *p
	p.queued, p.busy, p.again, p.hops = false, true, false, false
	f.mu.Unlock()
	r.Has = is.has
	if is.due() {
		r.Has, r.Err = f.apply(is.end, is.has, is.want, is.again)
	}
	failed := r.Err != nil
	if is.hops {
		hops, err := f.find(is.end.Netns, is.end.Routes)
		r.Hops, r.Err = hops, errors.Join(r.Err, err)
	}
	if dev := f.done(k, p, r.Has, failed); dev != "" {
		r.Err = errors.Join(r.Err, is.end.Ready(dev, false))
	}
	return r, true
}

// done notes what the kernel is like now, and returns the interface to which no route leads
// straight any more.
func (f *Fitter[K]) done(k K, p *fitting, has Fit, failed bool) (released string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := p.has.Direct
	p.has, p.busy, p.failed, p.again = has, false, failed, p.again || failed
	if f.peers[k] != p {
		return "" // it was forgotten
	}
	delete(f.failed, k)
	if failed {
		f.failed[k] = true
	}
	if was == has.Direct {
		return ""
	}
	f.count(p.end.Netns, has.Direct, 1)
	if f.count(p.end.Netns, was, -1) == 0 {
		return was
	}
	return ""
}

// count counts the routes that lead straight to an interface, and returns how many do.
func (f *Fitter[K]) count(netns, dev string, by int) int {
	at := exitOf{netns, dev}
	if dev == "" {
		return 0
	}
	if f.straight[at] += by; f.straight[at] == 0 {
		delete(f.straight, at)
	}
	return f.straight[at]
}

// peer is the peer's fitting, made where there is none.
func (f *Fitter[K]) peer(k K, e End) *fitting {
	if f.peers[k] == nil {
		f.peers[k] = &fitting{}
	}
	f.peers[k].end = e
	return f.peers[k]
}

func (f *Fitter[K]) enqueue(k K, p *fitting) {
	if p.queued {
		return
	}
	p.queued = true
	f.queue = append(f.queue, k)
	select {
	case f.bell <- struct{}{}:
	default: // it has rung
	}
}

// next takes the peer that has waited longest.
func (f *Fitter[K]) next() (k K, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.queue) > 0 && !ok {
		k, f.queue = f.queue[0], f.queue[1:]
		p := f.peers[k]
		ok = p != nil && p.queued
	}
	return k, ok
}

// retry has what has failed be tried again.
func (f *Fitter[K]) retry() {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for k := range f.failed {
		if n++; n > retryMost {
			return
		}
		delete(f.failed, k)
		f.enqueue(k, f.peers[k])
	}
}

// apply makes the kernel of a pod as wanted. It returns what it is like then.
func apply(e End, has, want Fit, again bool) (Fit, error) {
	var errs []error
	dev, peer := e.Routes[0].Local.Dev, e.Routes[0].Remote
	if again || want.Form != has.Form {
		if err := e.shape(peer.Addr, want.Form); err != nil {
			errs = append(errs, err)
		} else {
			has.Form = want.Form
		}
	}
	if want.Hold != has.Hold || again && want.Hold {
		if _, err := HoldNeighbour(e.Netns, dev, peer.Addr, peer.MAC, want.Hold); err != nil {
			errs = append(errs, err)
		} else {
			has.Hold = want.Hold
		}
	}
	return has, errors.Join(errs...)
}

// shape is Shape. The data plane is ready before a route leads straight to a path's interface.
func (e End) shape(peer netip.Addr, to Form) error {
	if to.Direct != "" {
		if err := e.Ready(to.Direct, true); err != nil {
			return err
		}
	}
	return Shape(e.Netns, peer, to)
}
