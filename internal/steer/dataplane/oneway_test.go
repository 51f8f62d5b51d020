package dataplane

import (
	"net"
	"slices"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// oneWayFlow sends datagrams from pod 1 to a socket in pod 2 that says nothing.
func (b *bed) oneWayFlow() (sends net.Conn, gets net.PacketConn) {
	b.t.Helper()
	if err := netns.Do(b.pods[2], func() (err error) {
		gets, err = net.ListenPacket("udp4", "10.90.2.2:7001")
		return err
	}); err != nil {
		b.t.Fatal(err)
	}
	sends, err := b.dial(1, "udp4", "10.90.2.2:7001")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { sends.Close(); gets.Close() })
	return sends, gets
}

// pass sends datagrams and wants each to arrive.
func pass(t *testing.T, sends net.Conn, gets net.PacketConn, n int) (from net.Addr) {
	t.Helper()
	buf := make([]byte, 16)
	for range n {
		_, err := sends.Write([]byte("sample"))
		if err == nil {
			err = gets.SetReadDeadline(time.Now().Add(5 * time.Second))
		}
		if err == nil {
			_, from, err = gets.ReadFrom(buf)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return from
}

// listed are the ports of the flows of one way that a sweep of pod 1 finds.
func (b *bed) listed() (out []uint16) {
	b.t.Helper()
	f, err := b.planes[1].Flows()
	if err != nil {
		b.t.Fatal(err)
	}
	defer f.Close()
	c, err := f.Sweep()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, w := range c.OneWay {
		if w.UID != "pod-2" || w.Remote != 7001 {
			b.t.Errorf("listed %+v", w)
		}
		out = append(out, w.Local)
	}
	return out
}

// TestOneWay: datagrams that nobody answers go where the choices say once both ends have admitted
// the flow, and no answer to them is waited for. The end that gets them admits none that has not
// come by the default network. An answer makes it a flow like any other.
func TestOneWay(t *testing.T) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	sends, gets := b.oneWayFlow()
	near, far := ports(sends)
	admit := func(pod int, local, remote uint16) bool {
		t.Helper()
		ok, err := b.planes[pod].AdmitOneWay([]string{1: "pod-2", 2: "pod-1"}[pod], local, remote)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if admit(2, far, near) {
		t.Error("a flow was admitted of which nothing has come")
	}
	b.move(1, 2)
	pass(t, sends, gets, 12)
	if sent, _ := b.crossed(1, 2); sent != 0 || admit(2, far, near+1) {
		t.Errorf("%d packets went over a path without an answer", sent)
	}
	time.Sleep(2 * seenUnit) // said once more, after the first few at once
	pass(t, sends, gets, 1)
	if got := b.listed(); !slices.Equal(got, []uint16{near}) {
		t.Fatalf("listed as of one way: %v, expected %d", got, near)
	}
	for range 2 {
		if !admit(2, far, near) || !admit(1, near, far) {
			t.Fatal("the flow was not admitted")
		}
	}
	pass(t, sends, gets, 20)
	sent, _ := b.crossed(1, 2)
	_, got := b.crossed(2, 2)
	if sent != 20 || got != 20 {
		t.Errorf("%d packets went and %d came over the path, expected 20", sent, got)
	}
	if out, _, err := b.planes[1].Tallies("pod-2", 2); err != nil || out.Last != 0 {
		t.Errorf("an answer is waited for since %v, %v", out.Last, err)
	}
	if got := b.listed(); !slices.Equal(got, []uint16{near}) {
		t.Errorf("listed as of one way once it is admitted: %v", got)
	}
	from := pass(t, sends, gets, 1)
	if _, err := gets.WriteTo([]byte("answer"), from); err != nil {
		t.Fatal(err)
	}
	if err := sends.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := sends.Read(make([]byte, 16)); err != nil {
		t.Fatal("the answer does not come: ", err)
	}
	pass(t, sends, gets, 1)
	if got := b.listed(); len(got) > 0 {
		t.Errorf("listed as of one way after an answer: %v", got)
	}
	if out, _, err := b.planes[1].Tallies("pod-2", 2); err != nil || out.Last == 0 {
		t.Errorf("no answer is waited for, %v", err)
	}
}

// TestUnseenComesByEth0: filters in a pod that drop what comes by eth0 drop it too where it has
// come by a path and nobody has answered it: datagrams of one way, and what begins elsewhere.
func TestUnseenComesByEth0(t *testing.T) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	for _, proto := range []string{"udp", "tcp"} {
		b.run(2, "iptables", "-A", "INPUT", "-i", "eth0", "-p", proto, "--dport", "7001", "-j", "DROP")
	}
	b.move(1, 2)
	sends, gets := b.oneWayFlow()
	near, far := ports(sends)
	send := func(n int) {
		t.Helper()
		for range n {
			if _, err := sends.Write([]byte("sample")); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(3)
	for pod, uid := range map[int]string{2: "pod-1", 1: "pod-2"} {
		at := [2]uint16{near, far}
		if pod == 2 {
			at = [2]uint16{far, near}
		}
		if ok, err := b.planes[pod].AdmitOneWay(uid, at[0], at[1]); err != nil || !ok {
			t.Fatalf("pod %d does not admit the flow: %v", pod, err)
		}
	}
	send(5)
	if _, came := b.crossed(2, 2); came != 5 {
		t.Fatalf("%d packets came over the path, expected 5", came)
	}
	b.carry(false)
	b.begin(1, Elsewhere)
	b.begin(2, Elsewhere)
	b.serve(2, "tcp", "10.90.2.2:7001")
	if conn, err := b.dial(1, "tcp", "10.90.2.2:7001", option{value: 1500 * time.Millisecond}); err == nil {
		conn.Close()
		t.Error("a connection has begun past a filter of the pod")
	}
	if err := gets.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, _, err := gets.ReadFrom(make([]byte, 16)); err == nil {
		t.Errorf("%d octets came past a filter of the pod", n)
	}
}
