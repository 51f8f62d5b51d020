package profile

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/explain"
)

// TestDrops sends datagrams to a port where nobody listens, in the window and after it.
func TestDrops(t *testing.T) {
	d, err := OpenDrops()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c, err := net.Dial("udp4", "127.0.0.1:9") // discard: nobody has it here
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const n = 500
	send := func() {
		for range n {
			_, _ = c.Write([]byte("x")) // every other one reports that the one before was refused
			_, _ = c.Write([]byte("x"))
		}
	}
	for _, on := range []bool{true, false} {
		if err := d.Count(on); err != nil {
			t.Fatal(err)
		}
		send()
	}
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &st); err != nil {
		t.Fatal(err)
	}
	got, err := d.Read(map[uint64]explain.Place{st.Ino: explain.Client})
	if err != nil {
		t.Fatal(err)
	}
	var refused uint64
	for _, drop := range got {
		if drop.Reason == "no_socket" && drop.Place == explain.Client {
			refused += drop.Packets
		}
	}
	if refused < n/2 || refused >= 2*n {
		t.Errorf("%d packets dropped for want of a socket, %d were sent in the window: %+v", refused, n, got)
	}
	if other, err := d.Read(map[uint64]explain.Place{1: explain.Client}); err != nil || len(other) != 0 {
		t.Errorf("of another namespace: %+v, %v", other, err)
	}
}
