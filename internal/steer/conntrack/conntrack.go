// Package conntrack has a host's kernel forget TCP connections that it tracks, or take them as they come.
//
// A connection that comes back to a network in the middle is taken up there like one that
// was never seen (nf_conntrack_tcp_loose), unless an old entry knows of it: its window is
// not where the connection is by then, so that what comes is INVALID, which firewalls
// drop. Entries that are taken up so have no such window, and the same is said here of the others. It does not
// know which connections have left: that is said by who moves them.
package conntrack

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// Connection is one that the kernel tracks: From is the end whose packet it saw first.
type Connection struct{ From, To netip.AddrPort }

// established is the state of a connection that is neither opening nor closing
// (TCP_CONNTRACK_ESTABLISHED), answered that of one whose opening was answered
// (TCP_CONNTRACK_SYN_RECV): it stays so where the rest went another way. In the others, packets say
// by themselves what they are: half a handshake is taken up by nobody.
const established, answered = 3, 2

// answeredFor is how long the kernel keeps one that was answered, in seconds, by default
// (nf_conntrack_tcp_timeout_syn_recv), and patience for how many the rest may be on its way.
const answeredFor, patience = 60, 1

// perLook is how many entries the kernel gives in the time in which it goes through all that it tracks, and
// gives none: that many buckets are empty.
const perLook = 4000

// Forget has the kernel forget the TCP connections of a family between those pairs of addresses that which says
// and that have been opened, in the namespace called ns, "" for the caller's own. Of the others it looks at the
// windows no more: half a handshake is taken up by nobody, so it is not forgotten, and what stays may leave later.
// Those whose addresses or ports it translates stay as they are. It returns how many went, and what processor's
// time that took: it may be much where much is tracked.
func Forget(ns string, v6 bool, between [][2]netip.Addr, which func(Connection) bool) (
	n int, took time.Duration, err error) {
	family := uint8(unix.AF_INET)
	if v6 {
		family = unix.AF_INET6
	}
	forget := func() (err error) {
		begin := spent()
		n, err = forgetHere(family, between, which)
		took = spent() - begin
		return err
	}
	if ns == "" {
		runtime.LockOSThread() // whose time is counted
		err = forget()
		runtime.UnlockOSThread()
	} else {
		err = netns.Do(ns, forget)
	}
	if unspoken(err) {
		return 0, took, nil
	}
	if err != nil {
		return n, took, fmt.Errorf("forget tracked connections: %w", err)
	}
	return n, took, nil
}

// unspoken reports whether the kernel does not track connections, or does not speak of them.
func unspoken(err error) bool {
	return errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP)
}

// forgetHere is Forget in the thread's namespace. Of IPv6 the kernel gives what is not between the addresses
// (Linux 6.18 compares them the wrong way round), so all is asked for.
func forgetHere(family uint8, between [][2]netip.Addr, which func(Connection) bool) (n int, err error) {
	if len(between) == 0 {
		return 0, nil
	}
	named := map[[2]netip.Addr]bool{}
	for _, b := range between {
		named[b], named[[2]netip.Addr{b[1], b[0]}] = true, true
	}
	all, err := total()
	if err != nil {
		return 0, err
	}
	if all < perLook*2*len(between) || family == unix.AF_INET6 {
		between = [][2]netip.Addr{{}}
	}
	wanted := func(e entry) bool { return named[[2]netip.Addr{e.orig.From.Addr(), e.orig.To.Addr()}] && e.plain() }
	for _, b := range between {
		for _, b := range [][2]netip.Addr{b, {b[1], b[0]}} {
			found, err := dump(family, b[0], b[1], wanted)
			if err != nil {
				return n, err
			}
			for _, e := range found {
				done, err := e.treat(family, which)
				if err != nil {
					return n, err
				}
				if done {
					n++
				}
			}
			if b[0] == b[1] {
				break
			}
		}
	}
	return n, nil
}

// treat forgets the entry, or has its windows be looked at no more. It reports whether it is forgotten.
func (e entry) treat(family uint8, which func(Connection) bool) (bool, error) {
	opened := e.state == established || e.state == answered && e.timeout < answeredFor-patience
	switch {
	case opened && which(e.orig):
		return e.forget(family)
	case e.strict:
		return false, e.loosen(family)
	}
	return false, nil
}

// plain reports whether it is between the addresses and ports that its ends know.
func (e entry) plain() bool { return e.reply == Connection{From: e.orig.To, To: e.orig.From} }

// spent is the thread's processor time so far.
func spent() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
