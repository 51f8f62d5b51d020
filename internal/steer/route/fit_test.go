package route

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"
)

// kernels is what a Fitter has made of kernels that are none.
type kernels struct {
	*Fitter[string]
	log     []string // what was done, and reported
	refuses error
}

func newKernels() *kernels {
	k := &kernels{}
	k.Fitter = NewFitter(func(peer string, r Report) {
		k.log = append(k.log, fmt.Sprintf("%s has %d, %v, %d hops", peer, r.Has.MTU, r.Err != nil, len(r.Hops)))
	})
	k.apply = func(_ End, has, want Fit, again bool) (Fit, error) {
		k.log = append(k.log, fmt.Sprintf("%d to %d, again %v", has.MTU, want.MTU, again))
		if k.refuses != nil {
			return has, k.refuses
		}
		return want, nil
	}
	k.find = func(string, []Route) (map[int]net.HardwareAddr, error) {
		return map[int]net.HardwareAddr{1: {2}}, k.refuses
	}
	return k
}

// end is a peer whose data plane notes what it is made ready for.
func (k *kernels) end() End {
	return End{Netns: "pod", Ready: func(dev string, ready bool) error {
		k.log = append(k.log, fmt.Sprintf("%s ready %v", dev, ready))
		return nil
	}}
}

func narrow(mtu int) Fit { return Fit{Form: Form{MTU: mtu}} }

func straight(dev string) Fit { return Fit{Form: Form{Direct: dev}} }

// expect wants what was done and reported since it was last called.
func (k *kernels) expect(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(k.log, want) {
		t.Errorf("%q, want %q", k.log, want)
	}
	k.log = nil
}

// TestFitter: what is wanted last is done, once, and what is not known is done again.
func TestFitter(t *testing.T) {
	k := newKernels()
	if k.Want("p", k.end(), Fit{}) {
		t.Error("something is under way for what is wanted of nobody")
	}
	for _, mtu := range []int{1400, 1300} {
		if !k.Want("p", k.end(), narrow(mtu)) {
			t.Errorf("%d is not under way", mtu)
		}
	}
	k.Do("p")
	k.expect(t, "0 to 1300, again false", "p has 1300, false, 0 hops")
	if k.Want("p", k.end(), narrow(1300)) {
		t.Error("it is under way still")
	}
	k.Do("p")
	k.expect(t)
	k.Find("p", k.end())
	if k.Want("p", k.end(), narrow(1300)) {
		t.Error("to ask for next hops makes nothing be under way")
	}
	k.Again("p")
	k.Again("nobody")
	if !k.Want("p", k.end(), narrow(1300)) {
		t.Error("what may have gone is not under way")
	}
	k.Do("p")
	k.expect(t, "1300 to 1300, again true", "p has 1300, false, 1 hops")
	k.Want("p", k.end(), Fit{})
	k.Forget("p")
	k.Do("p")
	k.expect(t)
	k.Adopt("q", k.end(), narrow(1200))
	if k.Do("q"); !k.Want("q", k.end(), Fit{}) {
		t.Error("what a predecessor left is not undone")
	}
	k.Do("q")
	k.expect(t, "1200 to 1200, again true", "q has 1200, false, 0 hops",
		"1200 to 0, again false", "q has 0, false, 0 hops")
}

// TestFitterRefused: what the kernel refuses is told, not held for done, and tried again
// with the time, not with every wish.
func TestFitterRefused(t *testing.T) {
	k := newKernels()
	k.refuses = errors.New("refused")
	k.Find("p", k.end())
	k.Want("p", k.end(), narrow(1300))
	k.Do("p")
	k.expect(t, "0 to 1300, again false", "p has 0, true, 1 hops")
	if k.Want("p", k.end(), narrow(1300)) {
		t.Error("it is under way")
	}
	if !k.Want("p", k.end(), Fit{}) {
		t.Error("what may be there in part is not undone")
	}
	k.Do("p")
	k.expect(t, "0 to 0, again true", "p has 0, true, 0 hops")
	k.refuses = nil
	for range 2 {
		k.retry()
		if next, ok := k.next(); ok {
			k.Do(next)
		}
	}
	k.expect(t, "0 to 0, again true", "p has 0, false, 0 hops")
}

// TestFitterReleases: the data plane stays ready for direct routes by an interface until the
// last of them has gone.
func TestFitterReleases(t *testing.T) {
	k := newKernels()
	for _, peer := range []string{"p", "q", "r"} {
		k.Want(peer, k.end(), straight("net1"))
		k.Do(peer)
	}
	k.log = nil
	k.Want("p", k.end(), straight("net2"))
	k.Do("p")
	k.Forget("q") // its route stays, and nobody counts it
	k.expect(t, "0 to 0, again false", "p has 0, false, 0 hops")
	k.Want("r", k.end(), Fit{})
	k.Do("r")
	k.expect(t, "0 to 0, again false", "net1 ready false", "r has 0, false, 0 hops")
	k.Want("p", k.end(), Fit{})
	k.Do("p")
	k.expect(t, "0 to 0, again false", "net2 ready false", "p has 0, false, 0 hops")
	if len(k.straight) != 0 {
		t.Errorf("still counted: %v", k.straight)
	}
}

// TestFitterWaitsForNothing: who wants something of a peer goes on while the kernel is asked
// for it, and what is wanted meanwhile is done next.
func TestFitterWaitsForNothing(t *testing.T) {
	k := newKernels()
	asked, answer, done := make(chan int), make(chan struct{}), make(chan int)
	k.apply = func(_ End, _, want Fit, _ bool) (Fit, error) {
		asked <- want.MTU
		<-answer
		return want, nil
	}
	k.report = func(_ string, r Report) { done <- r.Has.MTU }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- k.Run(ctx) }()
	k.Want("p", k.end(), narrow(1400))
	if got := <-asked; got != 1400 {
		t.Errorf("%d is asked for", got)
	}
	for _, mtu := range []int{1400, 1300} {
		if !k.Want("p", k.end(), narrow(mtu)) {
			t.Errorf("%d is not under way", mtu)
		}
	}
	idle := make(chan struct{})
	go func() {
		k.Idle()
		close(idle)
	}()
	select {
	case <-idle:
		t.Error("it is idle while it asks")
	case <-time.After(10 * time.Millisecond):
	}
	for _, want := range []int{1400, 1300} {
		answer <- struct{}{}
		if got := <-done; got != want {
			t.Errorf("%d is done, want %d", got, want)
		}
		if want == 1400 {
			<-asked
		}
	}
	<-idle
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
