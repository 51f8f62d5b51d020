package dataplane

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// TestOpenerOwns: the end that has opened a connection owns it, also where the planes have not
// seen it begin, or have forgotten it, and the server speaks first. Fails where the end owns that
// sends first.
func TestOpenerOwns(t *testing.T) {
	for _, network := range []string{"tcp", "tcp6"} {
		for _, client := range []int{1, 2} { // of the two, 1 has the lower address
			t.Run(fmt.Sprintf("%s opened by pod %d", network, client), func(t *testing.T) { openerOwns(t, network, client) })
		}
	}
}

func openerOwns(t *testing.T, network string, client int) {
	b := newBed(t)
	server := 3 - client
	at := map[string]string{"tcp": "10.90.%d.2:7301", "tcp6": "[fd90:%d::2]:7301"}[network]
	at = fmt.Sprintf(at, server)
	var ln net.Listener
	if err := netns.Do(b.pods[server], func() (err error) {
		ln, err = net.Listen(network, at)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := b.dial(client, network, at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	back, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	near, far := ports(conn)
	b.open(1)
	b.open(2)
	b.move(client, 2)
	owns := func(when string) {
		t.Helper()
		err := say(back, conn)
		for range 4 {
			err = errors.Join(err, say(back, conn), say(conn, back))
		}
		c, s := b.role(client, near, far, 6), b.role(server, far, near, 6)
		if err != nil || c != roleOwner || s != roleFollow {
			t.Errorf("%s: roles %d of the client and %d of the server, %v; expected %d and %d", when, c, s, err,
				roleOwner, roleFollow)
		}
	}
	owns("begun before")
	for _, who := range [][]int{{client}, {server}, {client, server}} {
		for _, pod := range who {
			b.forget(pod, map[int]uint16{client: near, server: far}[pod], map[int]uint16{client: far, server: near}[pod], 6)
		}
		time.Sleep(20 * time.Millisecond) // the tick ends in which the role is remembered
		owns(fmt.Sprintf("forgotten by %v", who))
	}
}
