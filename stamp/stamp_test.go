package stamp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// namespace makes a namespace that goes with the test: its loopback carries what
// is sent there, and nobody else's packets.
func namespace(t *testing.T, name string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	if err := errors.Join(netns.Prepare(), netns.Delete(name), netns.Create(name)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(netns.Delete(name), netns.Release()); err != nil {
			t.Error(err)
		}
	})
	return name
}

// listen opens a UDP socket in a namespace.
func listen(t *testing.T, ns, addr string) *net.UDPConn {
	t.Helper()
	var conn *net.UDPConn
	network := "udp"
	if strings.HasPrefix(addr, "0.0.0.0:") {
		network = "udp4" // else it would be an IPv6 socket
	}
	err := netns.Do(ns, func() (err error) {
		conn, err = net.ListenUDP(network, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(addr)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func addrTo(addr string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(addr), port)
}

func addrOf(c *net.UDPConn) netip.AddrPort { return c.LocalAddr().(*net.UDPAddr).AddrPort() }

// serve runs fn until the test ends.
func serve(t *testing.T, fn func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- fn(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// line is a sender and a reflector on real sockets.
type line struct {
	s       *Sender
	r       *Reflector
	to      netip.AddrPort
	replies chan Reply
	lost    chan Lost
	mu      sync.Mutex
	orders  []string
}

func newLine(t *testing.T, ns, at string, k Keys) *line {
	t.Helper()
	l := &line{replies: make(chan Reply, 10000), lost: make(chan Lost, 10000)}
	conn := listen(t, ns, at)
	l.to = addrOf(conn)
	var err error
	l.r, err = NewReflector(conn, ReflectorConfig{Keys: k, OnTLV: func(_ netip.AddrPort, _ uint16, x TLV) []byte {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.orders = append(l.orders, string(x.Value))
		return []byte("done")
	}})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l.r.Serve)
	l.s = newSender(t, listen(t, ns, netip.AddrPortFrom(l.to.Addr(), 0).String()), k, l)
	return l
}

func newSender(t *testing.T, conn *net.UDPConn, k Keys, l *line) *Sender {
	t.Helper()
	s, err := NewSender(conn, SenderConfig{
		Keys: k, SameClock: true, Deadline: 5 * time.Second,
		OnReply: func(r Reply) { l.replies <- r }, OnLost: func(x Lost) { l.lost <- x },
	})
	if err != nil {
		t.Fatal(err)
	}
	serve(t, s.Run)
	return s
}

func (l *line) send(t *testing.T, o SendOptions) Sent {
	t.Helper()
	sent, err := l.s.Send(l.to, o)
	if err != nil {
		t.Fatal(err)
	}
	return sent
}

func (l *line) reply(t *testing.T) Reply {
	t.Helper()
	select {
	case r := <-l.replies:
		return r
	case x := <-l.lost:
		t.Fatalf("lost %+v; sender %+v, reflector %+v", x, l.s.Counters(), l.r.Counters())
	case <-time.After(20 * time.Second):
		t.Fatalf("no event; sender %+v, reflector %+v", l.s.Counters(), l.r.Counters())
	}
	return Reply{}
}

// TestSockets: every combination of address family and mode, by the kernel: the
// DSCP of each packet, TTLs, sizes, timestamps and the hook.
func TestSockets(t *testing.T) {
	ns := namespace(t, "pw-t-stamp")
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		for name, k := range modes() {
			l := newLine(t, ns, at, k)
			for i, dscp := range []uint8{0, 0b101011, 0b000111, 46} {
				sent := l.send(t, SendOptions{Size: 1200, DSCP: dscp, ECN: 2, ClassOfService: true, ReplyDSCP: dscp ^ 0b000100,
					TLVs: notice()})
				r := l.reply(t)
				if r.From != l.to || r.Seq != uint32(i) || r.Seq != sent.Seq || r.ReflectorSeq != uint32(i) || r.Size != 1200 ||
					r.SSID != l.s.SSID() ||
					r.DSCPSeen != int(dscp) || r.ECNSeen != 2 || r.ReplyDSCP != int(dscp^0b000100) || r.TTL != 64 || r.ReplyTTL != 64 {
					t.Errorf("%s %s: %+v", at, name, r)
				}
				// Not how long, but that it adds up.
				if sum := r.ForwardDelay + r.BackwardDelay - r.RTT; r.RTT <= 0 || r.ReflectorProcessing <= 0 ||
					sum.Abs() > 100*time.Microsecond || !r.ClocksAgree {
					t.Errorf("%s %s: delays do not add up: %+v", at, name, r)
				}
				if got := len(r.TLVs); got != len(k.Current)/len(secret.Current) {
					t.Errorf("%s %s: %d TLVs", at, name, got)
				}
			}
			// Without the TLV a reply carries what arrived.
			l.send(t, SendOptions{DSCP: 46})
			if r := l.reply(t); r.DSCPSeen != -1 || r.ReplyDSCP != 46 {
				t.Errorf("%s %s: %+v", at, name, r)
			}
			l.mu.Lock()
			if want := 4 * len(k.Current) / len(secret.Current); len(l.orders) != want {
				t.Errorf("%s %s: hook called %d times, expected %d", at, name, len(l.orders), want)
			}
			l.mu.Unlock()
			if r := l.r.LastProbe(l.to.Addr()); r.IsZero() {
				t.Errorf("%s %s: never heard", at, name)
			}
		}
	}
}

// TestWildcard: a reflector bound to no address answers from the one it was
// asked at, of either family.
func TestWildcard(t *testing.T) {
	ns := namespace(t, "pw-t-stamp-any")
	for at, tos := range map[string][]string{"[::]:0": {"127.0.0.1", "127.0.0.9", "::1"}, "0.0.0.0:0": {"127.0.0.9"}} {
		l := newLine(t, ns, at, secret)
		port := l.to.Port()
		for _, to := range tos {
			l.to = netip.AddrPortFrom(netip.MustParseAddr(to), port)
			local := "127.0.0.1:0"
			if l.to.Addr().Is6() {
				local = "[::1]:0"
			}
			l.s = newSender(t, listen(t, ns, local), secret, l)
			l.send(t, SendOptions{DSCP: 0b101011, ClassOfService: true, ReplyDSCP: 0b101011})
			if r := l.reply(t); r.From != l.to || r.DSCPSeen != 0b101011 || r.ReplyDSCP != 0b101011 {
				t.Errorf("%s at %s: %+v", to, at, r)
			}
		}
	}
}

// TestBleached: a network that does not carry the mark is found out, in each
// direction.
func TestBleached(t *testing.T) {
	ns := namespace(t, "pw-t-stamp-mark")
	l := newLine(t, ns, "127.0.0.1:0", secret)
	mark := SendOptions{DSCP: 0b101011, ClassOfService: true, ReplyDSCP: 0b100011}
	for _, tt := range []struct {
		name, match string
		seen, reply int
	}{
		{"forward", "dport", 0, 0b100011},
		{"backward", "sport", 0b101011, 0},
	} {
		rules := "table ip t { chain c { type filter hook output priority 0; udp " + tt.match + " " + portString(l.to) +
			" ip dscp set cs0; }; }"
		nft(t, ns, rules)
		l.send(t, mark)
		if r := l.reply(t); r.DSCPSeen != tt.seen || r.ReplyDSCP != tt.reply {
			t.Errorf("%s: %d arrived there and %d here", tt.name, r.DSCPSeen, r.ReplyDSCP)
		}
		nft(t, ns, "delete table ip t")
	}
}

func portString(a netip.AddrPort) string {
	_, port, _ := net.SplitHostPort(a.String())
	return port
}

func nft(t *testing.T, ns, rules string) {
	t.Helper()
	cmd := exec.Command("nft", rules)
	var out []byte
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w
	err = netns.Start(ns, cmd)
	w.Close()
	if err == nil {
		buf := make([]byte, 4096)
		n, _ := r.Read(buf)
		out, err = buf[:n], cmd.Wait()
	}
	if err != nil {
		t.Fatalf("nft %s: %v: %s", rules, err, out)
	}
}

// TestBlackHole: what is lost is reported lost, by its own deadline, and where,
// once replies come again.
func TestBlackHole(t *testing.T) {
	ns := namespace(t, "pw-t-stamp-hole")
	for _, dir := range []string{"dport", "sport"} {
		l := newLine(t, ns, "127.0.0.1:0", secret)
		l.send(t, SendOptions{})
		l.reply(t)
		nft(t, ns, "table ip t { chain c { type filter hook input priority 0; udp "+dir+" "+portString(l.to)+" drop; }; }")
		for range 5 {
			l.send(t, SendOptions{Deadline: 20 * time.Millisecond})
		}
		var seqs []uint32
		for range 5 {
			x := <-l.lost
			seqs = append(seqs, x.Seq)
		}
		slices.Sort(seqs)
		if !slices.Equal(seqs, []uint32{1, 2, 3, 4, 5}) || l.s.Counters().Lost != 5 {
			t.Errorf("%s: lost %v", dir, seqs)
		}
		nft(t, ns, "delete table ip t")
		l.send(t, SendOptions{})
		r := l.reply(t) // to the seventh: of those before, the reflector has numbered what it saw
		if seen := r.ReflectorSeq; r.Seq != 6 || dir == "dport" && seen != 1 || dir == "sport" && seen != 6 {
			t.Errorf("%s: probe %d is the reflector's %d", dir, r.Seq, seen)
		}
	}
}

// TestDrainIsBounded: of more than it is to read at once the rest is read the next time, and up to when it has read
// is said as it is.
func TestDrainIsBounded(t *testing.T) {
	ns := namespace(t, "pw-t-stamp-most")
	s, err := NewSender(listen(t, ns, "127.0.0.1:0"), SenderConfig{Keys: secret, OnReply: func(Reply) {}})
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	if err := s.raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
	}); errors.Join(err, failed) != nil {
		t.Fatal(err, failed)
	}
	attacker := listen(t, ns, "127.0.0.1:0")
	const n = drainMost * 5 / 2
	for range n {
		if _, err := attacker.WriteTo([]byte("garbage"), s.conn.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	sent := time.Now()
	for turn, want := range []uint64{drainMost, 2 * drainMost, n} {
		at, err := s.Drain()
		if got := s.Counters().Received; err != nil || got != want || at.IsZero() || at.Before(sent) != (turn < 2) {
			t.Errorf("turn %d: %d received, want %d; up to %v after all were sent; %v", turn, got, want, at.Sub(sent), err)
		}
	}
}

// TestDrain: what lies in the socket is read before it is judged.
func TestDrain(t *testing.T) {
	ns := namespace(t, "pw-t-stamp-drain")
	l := newLine(t, ns, "127.0.0.1:0", secret)
	quiet, err := NewSender(listen(t, ns, "127.0.0.1:0"),
		SenderConfig{Keys: secret, OnReply: func(r Reply) { l.replies <- r }})
	if err != nil {
		t.Fatal(err)
	}
	l.s = quiet // nobody runs it
	sent := l.send(t, SendOptions{})
	for end := time.Now().Add(20 * time.Second); len(l.replies) == 0 && time.Now().Before(end); {
		at, err := quiet.Drain()
		if err != nil || at.Before(sent.At) {
			t.Fatal(at, err)
		}
	}
	if r := l.reply(t); r.Seq != sent.Seq || r.RTT <= 0 {
		t.Errorf("%+v", r)
	}
}
