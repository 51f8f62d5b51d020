package probe

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// namespace makes a namespace that goes with the test.
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

// echoer opens one in a namespace.
func echoer(t *testing.T, ns string, v6 bool) *Echoer {
	t.Helper()
	var fd int
	if err := netns.Do(ns, func() (err error) {
		fd, err = Socket(v6)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	e, err := NewEchoer(fd, v6, rand.Reader, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// TestEcho asks the kernel of a namespace: an address of its own answers, once
// for each question, by the kernel's clock; others do not.
func TestEcho(t *testing.T) {
	ns := namespace(t, "pw-echo")
	run(t, ns, "ip", "link", "set", "lo", "up")
	for _, address := range []string{"fd00::1/128", "fd00::2/128"} {
		run(t, ns, "ip", "address", "add", address, "dev", "lo", "nodad")
	}
	t.Run("IPv4", func(t *testing.T) { echoes(t, ns, "127.0.0.1", "127.0.0.2", "192.0.2.1") })
	t.Run("IPv6", func(t *testing.T) { echoes(t, ns, "fd00::1", "fd00::2", "2001:db8::1") })
}

func run(t *testing.T, ns string, argv ...string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	if err := netns.Start(ns, cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %v", argv, err)
	}
}

func echoes(t *testing.T, ns string, self, another, elsewhere string) {
	here, nobody := netip.MustParseAddr(self), netip.MustParseAddr(another)
	e, other := echoer(t, ns, here.Is6()), echoer(t, ns, here.Is6())
	lo := 1
	var asked []uint16
	var last time.Time
	for range 3 {
		seq, at, err := e.Send(nobody, here, lo)
		if err != nil {
			t.Fatal(err)
		}
		asked, last = append(asked, seq), at
		if _, _, err := other.Send(here, here, lo); err != nil {
			t.Fatal(err)
		}
	}
	var answers []Echo
	for end := time.Now().Add(10 * time.Second); len(answers) < len(asked) &&
		time.Now().Before(end); time.Sleep(time.Millisecond) {
		at, err := e.Drain(func(a Echo) { answers = append(answers, a) })
		if err != nil || at.Before(last) {
			t.Fatalf("drained until %v, sent at %v: %v", at, last, err)
		}
	}
	if len(answers) != len(asked) {
		t.Fatalf("%d of %d answers", len(answers), len(asked))
	}
	for i, a := range answers {
		if a.Seq != asked[i] || a.From != here || a.At.Before(a.SentAt) || a.At.After(time.Now()) {
			t.Errorf("answer %d: %+v", i, a)
		}
	}
	if _, _, err := e.Send(here, netip.MustParseAddr(elsewhere), lo+7); err == nil {
		t.Error("an echo by an interface that is not there is no error")
	}
}

// TestEchoAccept: who has not seen the question cannot answer it, and nobody twice.
func TestEchoAccept(t *testing.T) {
	peer := netip.MustParseAddr("10.0.0.2")
	e := &Echoer{id: 0x1234, now: time.Now}
	pending := func() []byte {
		e.flights[5] = echo{seq: 5, to: peer, nonce: [16]byte{1, 2, 3}, sent: time.Unix(1, 0)}
		b := append([]byte{0x45, 19: 0}, icmpEchoReply, 0, 0, 0, 0x12, 0x34, 0, 5)
		return append(b, e.flights[5].nonce[:]...)
	}
	for name, change := range map[string]func([]byte) []byte{
		"nothing":         func([]byte) []byte { return nil },
		"half a header":   func(b []byte) []byte { return b[:10] },
		"long header":     func(b []byte) []byte { b[0] = 0x4f; return b[:44] },
		"a question":      func(b []byte) []byte { b[20] = icmpEcho; return b },
		"another's":       func(b []byte) []byte { b[25]++; return b },
		"another number":  func(b []byte) []byte { b[27]++; return b },
		"an old number":   func(b []byte) []byte { b[26] = 4; return b },
		"another nonce":   func(b []byte) []byte { b[28]++; return b },
		"cut":             func(b []byte) []byte { return b[:len(b)-1] },
		"long":            func(b []byte) []byte { return append(b, 0) },
		"nothing but its": func(b []byte) []byte { return b[:28] },
		// Where the header's length is not checked, the header is its own payload.
		"no header":      func(b []byte) []byte { return append([]byte{0, 0, 0, 0, 0x12, 0x34, 0, 5}, b[28:]...) },
		"a short header": func(b []byte) []byte { return append([]byte{0x42, 7: 0}, b[20:]...) },
		"IPv6":           func(b []byte) []byte { b[0] = 0x65; return b },
	} {
		if a, ok := e.accept(change(pending()), peer); ok {
			t.Errorf("%s: accepted as %+v", name, a)
		}
	}
	b := pending()
	if _, ok := e.accept(b, netip.MustParseAddr("10.0.0.3")); ok {
		t.Error("accepted from somebody else")
	}
	if a, ok := e.accept(b, peer); !ok || a.Seq != 5 || a.From != peer || !a.SentAt.Equal(time.Unix(1, 0)) {
		t.Errorf("refused: %+v, %v", a, ok)
	}
	if _, ok := e.accept(b, peer); ok {
		t.Error("accepted twice")
	}
	options := append([]byte{0x46, 23: 0}, pending()[20:]...)
	if _, ok := e.accept(options, peer); !ok {
		t.Error("refused with IP options")
	}
}

// TestEchoAcceptIPv6: a message of ICMPv6 comes without its IP header.
func TestEchoAcceptIPv6(t *testing.T) {
	peer := netip.MustParseAddr("fd00::2")
	e := &Echoer{id: 0x1234, v6: true, now: time.Now}
	pending := func() []byte {
		e.flights[5] = echo{seq: 5, to: peer, nonce: [16]byte{1, 2, 3}, sent: time.Unix(1, 0)}
		return append([]byte{icmpv6EchoReply, 0, 0, 0, 0x12, 0x34, 0, 5}, e.flights[5].nonce[:]...)
	}
	for name, change := range map[string]func([]byte) []byte{
		"nothing":             func([]byte) []byte { return nil },
		"a question":          func(b []byte) []byte { b[0] = icmpv6Echo; return b },
		"an answer with IPv4": func(b []byte) []byte { b[0] = icmpEchoReply; return b },
		"another's":           func(b []byte) []byte { b[5]++; return b },
		"an IPv4 packet":      func(b []byte) []byte { return append([]byte{0x45, 19: 0}, b...) },
	} {
		if a, ok := e.accept(change(pending()), peer); ok {
			t.Errorf("%s: accepted as %+v", name, a)
		}
	}
	if a, ok := e.accept(pending(), peer); !ok || a.Seq != 5 {
		t.Errorf("refused: %+v", a)
	}
}

func TestInternetChecksum(t *testing.T) {
	b := []byte{icmpEcho, 0, 0, 0, 0x12, 0x34, 0, 5, 0xff, 0xfe}
	binary.BigEndian.PutUint16(b[2:], Checksum(b))
	if Checksum(b) != 0 {
		t.Errorf("checksum over %x is %#x, want 0", b, Checksum(b))
	}
}

// FuzzEchoReply: whatever comes in a raw ICMP socket harms nobody.
func FuzzEchoReply(f *testing.F) {
	good := append([]byte{0x45, 19: 0}, icmpEchoReply, 0, 0, 0, 0x12, 0x34, 0, 5)
	f.Add(append(good, make([]byte, 16)...))
	f.Add(append([]byte{0, 0, 0, 0, 0x12, 0x34, 0, 5}, make([]byte, 16)...)) // no header: the nonce is the payload's
	f.Add([]byte{0x4f})
	f.Add(bytes.Repeat([]byte{0x40}, 28))
	f.Fuzz(func(t *testing.T, b []byte) {
		e := &Echoer{id: 0x1234, now: time.Now}
		e.flights[5] = echo{seq: 5, to: netip.AddrFrom4([4]byte{10, 0, 0, 2}), sent: time.Unix(1, 0)}
		if a, ok := e.accept(b, netip.AddrFrom4([4]byte{10, 0, 0, 2})); ok && (a.Seq != 5 || len(b) < 44) {
			t.Errorf("%x: accepted as %+v", b, a)
		}
	})
}
