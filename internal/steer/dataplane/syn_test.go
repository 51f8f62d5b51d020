package dataplane

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// TestSYNs: the SYNs of a time are known, as they were sent, and which of them were answered, and where.
func TestSYNs(t *testing.T) {
	t.Parallel()
	for _, family := range []string{"4", "6"} {
		t.Run("IPv"+family, func(t *testing.T) {
			b := newBed(t)
			b.open(1)
			b.open(2)
			format := map[string]string{"4": "10.90.2.2:%d", "6": "[fd90:2::2]:%d"}[family]
			served := fmt.Sprintf(format, 7001)
			if err := exchange(b.echo("tcp"+family, served, served), "answered"); err != nil {
				t.Fatal(err)
			}
			answer := func(s SYN) Answer {
				t.Helper()
				is, err := b.planes[1].Answer("pod-2", s.Local, s.Remote)
				if err != nil {
					t.Fatal(err)
				}
				return is
			}
			if got := b.syns(0, ever, 7001); len(got) != 1 || answer(got[0]) != AnsweredAtHome {
				t.Errorf("of a connection that was answered: %v", got)
			}
			dead := map[string]string{"4": "10.90.2.2/32", "6": "fd90:2::2/128"}[family]
			b.run(0, "ip", "route", "add", "blackhole", dead)
			conn, err := b.dial(1, "tcp"+family, fmt.Sprintf(format, 7002), option{value: 1500 * time.Millisecond})
			if err == nil {
				conn.Close()
				t.Fatal("a connection over a network that drops all")
			}
			got := b.syns(0, ever, 7002)
			if len(got) != 1 || answer(got[0]) != NoAnswer {
				t.Fatalf("of one that nobody answers: %v", got)
			}
			header := map[string]int{"4": 20, "6": 40}[family]
			syn := got[0].Packet
			if len(syn) < header+20 || binary.BigEndian.Uint16(syn[header+2:]) != 7002 || syn[header+13] != 2 {
				t.Errorf("it is %x", syn)
			}
			if n := len(b.syns(got[0].Sent, ever, 7002)) + len(b.syns(0, got[0].Sent-1, 7002)); n != 0 {
				t.Errorf("%d SYNs of another time", n)
			}
		})
	}
}

// TestManySYNs: a hundred SYNs that are lost while a failure is found are all known, those that were sent again by
// their stack once, and after a hundred further connections that have begun meanwhile nearly all.
func TestManySYNs(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.open(1)
	b.open(2)
	if err := exchange(b.echo("tcp", "10.90.2.2:7001", "10.90.2.2:7001"), "answered"); err != nil {
		t.Fatal(err)
	}
	b.run(0, "ip", "route", "add", "blackhole", "10.90.2.2/32")
	const lost = 100
	b.connectMany(7002, lost)
	known := func() int { return len(b.syns(0, ever, 7002)) }
	if n := known(); n < lost-2 || n > lost {
		t.Errorf("%d SYNs are known of %d", n, lost)
	}
	time.Sleep(1500 * time.Millisecond) // their stack sends them again after a second
	if n := known(); n < lost-2 || n > lost {
		t.Errorf("%d SYNs are known of %d that were sent twice", n, lost)
	}
	b.run(0, "ip", "route", "del", "blackhole", "10.90.2.2/32")
	b.connectMany(7001, lost)
	if n := known(); n < lost*9/10 {
		t.Errorf("%d SYNs are known of %d once others were sent", n, lost)
	}
}

// ever is later than any time of CLOCK_MONOTONIC.
const ever = time.Duration(1<<63 - 1)

// syns are those of pod 1 to a port of pod 2 of a time.
func (b *bed) syns(after, until time.Duration, port uint16) []SYN {
	b.t.Helper()
	all, err := b.planes[1].SYNs("pod-2", after, until)
	if err != nil {
		b.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(s SYN) bool { return s.Remote != port })
}

// connectMany has pod 1 open many connections to a port of pod 2 at once, and waits for none of them.
func (b *bed) connectMany(port, n int) {
	b.t.Helper()
	err := netns.Do(b.pods[1], func() error {
		for range n {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			b.t.Cleanup(func() { unix.Close(fd) })
			err = unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{10, 90, 2, 2}})
			if err != nil && !errors.Is(err, unix.EINPROGRESS) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
}
