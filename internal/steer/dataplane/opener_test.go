package dataplane

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// older is a connection that was opened before the planes were.
type older struct {
	*bed
	client, server int // pods: of the two, 1 has the lower address
	conn, back     net.Conn
	near, far      uint16
}

// older opens a connection; the listener ends where it is told to, and has no queue where it is
// told so.
func (b *bed) older(network string, client int, local net.Addr, ends, noQueue bool) *older {
	b.t.Helper()
	o := &older{bed: b, client: client, server: 3 - client}
	at := fmt.Sprintf(map[string]string{"tcp": "10.90.%d.2:7301", "tcp6": "[fd90:%d::2]:7301"}[network], o.server)
	var ln net.Listener
	err := netns.Do(b.pods[o.server], func() (err error) {
		ln, err = net.Listen(network, at)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { ln.Close() })
	if noQueue {
		rc, err := ln.(*net.TCPListener).SyscallConn()
		if err == nil {
			err = rc.Control(func(fd uintptr) { err = unix.Listen(int(fd), 0) })
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
	var opts []option
	if local != nil {
		opts = append(opts, from(local))
	}
	if o.conn, err = b.dial(client, network, at, opts...); err != nil {
		b.t.Fatal(err)
	}
	if o.back, err = ln.Accept(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { o.back.Close() })
	if ends {
		ln.Close()
	}
	o.near, o.far = ports(o.conn)
	return o
}

// speak has both ends speak, the server first.
func (o *older) speak() {
	o.t.Helper()
	err := say(o.back, o.conn)
	for range 4 {
		err = errors.Join(err, say(o.back, o.conn), say(o.conn, o.back))
	}
	if err != nil {
		o.t.Fatal(err)
	}
}

// roles are those of the client and of the server, after they have spoken.
func (o *older) roles() (client, server uint8) {
	o.t.Helper()
	o.speak()
	return o.role(o.client, o.near, o.far, 6), o.role(o.server, o.far, o.near, 6)
}

// TestOpenerOwns: the end that has opened a connection owns it, also where the planes have not
// seen it begin, or have forgotten it, and the server speaks first, or has closed its listener.
// Fails where the end owns that sends first.
func TestOpenerOwns(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp", "tcp6"} {
		for _, client := range []int{1, 2} {
			home := net.ParseIP(fmt.Sprintf(map[string]string{"tcp": "10.90.%d.2", "tcp6": "fd90:%d::2"}[network], client))
			for bound, local := range map[string]net.Addr{
				"by connect": nil, "to a port": &net.TCPAddr{Port: 7300}, "to an address": &net.TCPAddr{IP: home},
			} {
				for _, ends := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s opened by pod %d, bound %s, listener ends %v", network, client, bound, ends),
						func(t *testing.T) { openerOwns(newBed(t).older(network, client, local, ends, false)) })
				}
			}
		}
	}
}

func openerOwns(o *older) {
	owns := func(when string) {
		o.t.Helper()
		if c, s := o.roles(); c != roleOwner || s != roleFollow {
			o.t.Errorf("%s: roles %d of the client and %d of the server, expected %d and %d", when, c, s, roleOwner,
				roleFollow)
		}
	}
	o.open(o.server)
	o.speak()
	if s := o.role(o.server, o.far, o.near, 6); s != roleNone {
		o.t.Errorf("role %d of the server before the client's plane is there, expected none", s)
	}
	o.open(o.client)
	o.move(o.client, 2)
	owns("begun before")
	for _, who := range [][]int{{o.client}, {o.server}, {o.client, o.server}} {
		for _, pod := range who {
			ports := map[int][2]uint16{o.client: {o.near, o.far}, o.server: {o.far, o.near}}[pod]
			o.forget(pod, ports[0], ports[1], 6)
		}
		time.Sleep(20 * time.Millisecond) // the tick ends in which the role is remembered
		owns(fmt.Sprintf("forgotten by %v", who))
	}
}

// TestServerWithoutQueue: where a server looks like a client, as its listener has a queue of 0,
// one of the two ends becomes the owner all the same: the lower address, where the server has
// spoken first. Fails where ends contest a connection, or leave it to each other.
func TestServerWithoutQueue(t *testing.T) {
	for _, client := range []int{1, 2} {
		for _, first := range []int{1, 2} {
			t.Run(fmt.Sprintf("opened by pod %d, pod %d comes first", client, first), func(t *testing.T) {
				o := newBed(t).older("tcp", client, nil, false, true)
				o.open(first)
				o.speak()
				o.open(3 - first)
				o.move(client, 2)
				want := [2]uint8{roleOwner, roleFollow}
				if o.server == 1 {
					want = [2]uint8{roleFollow, roleOwner}
				}
				for until := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
					c, s := o.roles()
					if c == want[0] && s == want[1] {
						return
					}
					if time.Now().After(until) {
						t.Fatalf("roles %d of the client and %d of the server, expected %v", c, s, want)
					}
				}
			})
		}
	}
}
