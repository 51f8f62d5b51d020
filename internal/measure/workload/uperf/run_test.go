package uperf

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/lab/program"
)

// slave serves on a loopback port of this test's own.
func slave(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().(*net.TCPAddr).AddrPort()
	l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, netip.AddrPortFrom(netip.IPv6Unspecified(), addr.Port()), 4, true) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for {
		if c, err := net.Dial("tcp", addr.String()); err == nil {
			c.Close()
			return addr
		}
		time.Sleep(time.Millisecond)
	}
}

// master runs a profile against target: for longer where a machine is so busy that the
// window is over before all strands are connected.
func master(t *testing.T, target netip.AddrPort, p Profile) (c Count, err error) {
	t.Helper()
	for warmup := 100 * time.Millisecond; warmup < 10*time.Second; warmup *= 4 {
		if c, err = once(t, target, p, warmup); err == nil || !strings.Contains(err.Error(), "still connecting") {
			break
		}
	}
	return c, err
}

func once(t *testing.T, target netip.AddrPort, p Profile, warmup time.Duration) (Count, error) {
	t.Helper()
	now, err := program.Monotonic()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Generate(t.Context(), &b, Offer{Target: target, Profile: p, Begin: now + warmup,
		Duration: 300 * time.Millisecond}); err != nil {
		if b.Len() > 0 {
			t.Errorf("failed and printed %q", b.String())
		}
		return Count{}, err
	}
	return parse(b.Bytes())
}

func profile(t *testing.T, transactions string) Profile {
	t.Helper()
	p, err := Parse("test.xml", strings.NewReader(body(transactions)), unset)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCountsAsUperf: a request and its answer are two flowops and the bytes of
// both directions; a transaction of writes is as many flowops as it has.
func TestCountsAsUperf(t *testing.T) {
	target := slave(t)
	c, err := master(t, target, RequestResponse(4, response))
	// A transaction that crosses an edge of the window has a part outside.
	if err != nil || c.Operations == 0 || c.Failed != 0 || abs(c.Flowops-2*c.Operations) > 2*4 ||
		abs(c.FlowopBytes-1200*c.Operations) > 1200*4 {
		t.Errorf("request and response: %+v, %v", c, err)
	}
	if abs(c.Received-1000*c.Operations) > 1000*4 || abs(c.ServerReceived-200*c.Operations) > 200*4 {
		t.Errorf("request and response: received %d and %d bytes in %d transactions", c.Received, c.ServerReceived, c.Operations)
	}
	c, err = master(t, target, Streaming(2, 1024))
	connects := c.Flowops % 640 // on a busy machine the connections are opened in the window
	if err != nil || c.Flowops < 640 || connects > 2 || c.FlowopBytes != 1024*(c.Flowops-connects) || c.Received != 0 ||
		c.ServerReceived == 0 || c.Writes.Count() == 0 {
		t.Errorf("streaming: %+v, %v", c, err)
	}
}

func abs(n int64) int64 { return max(n, -n) }

func TestRunsProfiles(t *testing.T) {
	t.Parallel()
	target := slave(t)
	for name, transactions := range map[string]string{
		"accept":       `<transaction><flowop type="accept" options="tcp_nodelay wndsz=50k"/></transaction><transaction duration="9"><flowop type="write" options="size=90"/><flowop type="read" options="size=90"/></transaction><transaction><flowop type="disconnect"/></transaction>`,
		"random":       link + `<transaction duration="9"><flowop type="write" options="count=3 size=rand(1,20k)"/><flowop type="read" options="size=rand(1,100)"/><flowop type="think" options="duration=1ms"/><flowop type="nop"/></transaction>`,
		"each again":   `<transaction duration="9"><flowop type="connect"/><flowop type="write" options="size=1"/><flowop type="read" options="size=1"/><flowop type="disconnect"/></transaction>`,
		"connect only": `<transaction iterations="10"><flowop type="connect"/><flowop type="disconnect"/></transaction>`,
		"untimed":      link + `<transaction iterations="35"><flowop type="write" options="size=300"/><flowop type="read" options="size=2k"/></transaction><transaction iterations="2"><flowop type="write" options="size=1"/></transaction><transaction><flowop type="read" options="size=1"/><flowop type="disconnect"/></transaction>`,
		"two":          `<transaction><flowop type="connect" options="conn=1"/><flowop type="accept" options="conn=2"/></transaction><transaction duration="9"><flowop type="write" options="conn=1 size=300"/><flowop type="read" options="conn=2 size=30k"/></transaction><transaction><flowop type="disconnect" options="conn=1"/><flowop type="disconnect" options="conn=2"/></transaction>`,
		"reading":      link + `<transaction duration="9"><flowop type="read" options="size=8k count=10"/></transaction>`,
	} {
		p := profile(t, transactions)
		p.Groups[0].Strands = 3
		p.Groups = append(p.Groups, p.Groups[0])
		c, err := master(t, target, p)
		if err != nil || c.Operations == 0 || c.Failed != 0 || c.Failure != "" ||
			(c.Received+c.ServerReceived == 0) != (name == "connect only") {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

const udpLink = `<transaction><flowop type="connect" options="remotehost=$h protocol=udp"/></transaction>`

// TestRunsByUDP: connections by UDP, whichever end opens them, in all of uperf's ways.
func TestRunsByUDP(t *testing.T) {
	t.Parallel()
	target := slave(t)
	const rr = `<transaction duration="9"><flowop type="write" options="size=90"/><flowop type="read" options="size=90"/></transaction><transaction><flowop type="disconnect"/></transaction>`
	for name, transactions := range map[string]string{
		"connect":        udpLink + rr,
		"by IPv6":        udpLink + rr,
		"accept by IPv6": strings.Replace(udpLink, "connect", "accept", 1) + rr,
		"accept":         strings.Replace(udpLink, "connect", "accept", 1) + rr,
		"random":         udpLink + `<transaction duration="9"><flowop type="write" options="count=3 size=rand(1,20k)"/><flowop type="read" options="size=rand(1,100)"/></transaction>`,
		"each":           `<transaction duration="9"><flowop type="connect" options="protocol=udp"/><flowop type="write" options="size=1"/><flowop type="read" options="size=65507"/><flowop type="disconnect"/></transaction>`,
		"untimed":        udpLink + `<transaction iterations="35"><flowop type="write" options="size=300"/><flowop type="read" options="size=2k"/></transaction><transaction><flowop type="disconnect"/></transaction>`,
		"sending":        udpLink + `<transaction duration="9"><flowop type="write" options="size=1k count=16"/></transaction>`,
		"reading":        udpLink + `<transaction duration="9"><flowop type="read" options="size=1k count=16"/></transaction><transaction><flowop type="disconnect"/></transaction>`,
		"with tcp": `<transaction><flowop type="connect"/><flowop type="connect" options="conn=1 protocol=udp"/></transaction><transaction duration="9"><flowop type="write" options="size=300"/>
			<flowop type="read" options="conn=1 size=300"/></transaction><transaction><flowop type="disconnect"/><flowop type="disconnect" options="conn=1"/></transaction>`,
	} {
		p := profile(t, transactions)
		p.Groups[0].Strands = 3
		p.Groups = append(p.Groups, p.Groups[0])
		to := target
		if strings.Contains(name, "IPv6") {
			to = netip.AddrPortFrom(netip.IPv6Loopback(), target.Port())
		}
		c, err := master(t, to, p)
		if err != nil || c.Operations == 0 || c.Failed != 0 || c.Failure != "" || c.Received+c.ServerReceived == 0 ||
			c.Sent == 0 || c.Arrived == 0 {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

// forgetful is a server that answers two of three datagrams with one of their size.
func forgetful(t *testing.T) netip.AddrPort {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	u, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(l.Addr().(*net.TCPAddr).AddrPort()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	greeted := make(chan bool, 1000)
	go func() {
		buf := make([]byte, 1<<16)
		for i := 0; ; {
			n, from, err := u.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			if isGreeting(buf[:n]) {
				greeted <- true
			} else if i++; i%3 > 0 {
				_, _ = u.WriteToUDPAddrPort(buf[:n], from)
			}
		}
	}()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				line, err := readLine(conn, maxLine)
				if h, _ := parseHello(line); err != nil || h.Report {
					_ = writeLine(conn, report{})
					return
				}
				_, _ = conn.Write([]byte(ready))
				<-greeted
				_, _ = conn.Write([]byte(ready))
				_, _ = conn.Read(line)
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// TestDatagramsThatAreLost: what nobody answers is a failure, after as long as an
// answer may take, or one that the profile allows, after which the strand goes on.
func TestDatagramsThatAreLost(t *testing.T) {
	t.Parallel()
	target := forgetful(t)
	const ask = `<transaction duration="9"><flowop type="write" options="size=90"/><flowop type="read" options="size=90 `
	if _, err := master(t, target, profile(t, udpLink+`<transaction duration="9"><flowop type="write" options="size=90 count=3"/>
		<flowop type="read" options="size=90 count=3"/></transaction>`)); err == nil || !strings.Contains(err.Error(), "within 500ms") {
		t.Errorf("without a timeout: %v", err)
	}
	for options, allowed := range map[string]bool{"timeout=20ms": false, "timeout=20ms canfail": true} {
		c, err := master(t, target, profile(t, udpLink+ask+options+`"/></transaction>`))
		if err != nil || c.Operations == 0 || (c.Failed == 0) != allowed || (c.Spared == 0) == allowed ||
			c.Sent <= c.Arrived {
			t.Errorf("%q: %+v, %v", options, c, err)
		}
		if !strings.Contains(c.Failure+c.Spare, "read: nothing came within") {
			t.Errorf("%q: failed by %q and %q", options, c.Failure, c.Spare)
		}
	}
}

// TestCongestion: connections have the congestion control that the profile names, at
// either end, or cubic, and one that the kernel has not is told.
func TestCongestion(t *testing.T) {
	t.Parallel()
	target := slave(t)
	for _, tc := range []struct{ kind, options, want, fails string }{
		{"connect", "", "cubic", ""}, {"accept", "", "cubic", ""}, {"connect", "cc=reno", "reno", ""},
		{"accept", "cc=reno", "reno", ""},
		{"connect", "cc=none", "", "use congestion control none: this kernel has none of that name"},
	} {
		p := profile(t, `<transaction><flowop type="`+tc.kind+`" options="`+tc.options+
			`"/></transaction><transaction duration="9"><flowop type="read" options="size=8k"/></transaction>`)
		c, err := master(t, target, p)
		if tc.fails != "" && (err == nil || !strings.Contains(err.Error(), tc.fails)) || tc.fails == "" &&
			(err != nil || strings.Join(c.Congestion, " ") != tc.want) {
			t.Errorf("%+v: %q, %v", tc, c.Congestion, err)
		}
	}
}

// TestRate: of a rate half begins at once and the other half a half second later.
func TestRate(t *testing.T) {
	c, err := master(t, slave(t), profile(t, link+`<transaction duration="9" rate="7"><flowop type="write" options="size=1"/><flowop type="read" options="size=1"/></transaction>`))
	// The window is of 0.3 s and 0.1 s later: there is no half second's beginning in
	// it, or one, of 3 or 4.
	if err == nil && c.Operations != 3 && c.Operations != 4 || err != nil &&
		!strings.Contains(err.Error(), "no transaction") {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestServerThatSendsSomethingElse: payload that is not uperf's zeros is an error.
func TestServerThatSendsSomethingElse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if _, err := readLine(conn, maxLine); err == nil {
					_, _ = conn.Write([]byte(ready + strings.Repeat("x", 1000)))
					_, _ = readLine(conn, maxLine)
				}
			}()
		}
	}()
	_, err = master(t, l.Addr().(*net.TCPAddr).AddrPort(), RequestResponse(1, 1000))
	if err == nil || !strings.Contains(err.Error(), errNotZero.Error()) {
		t.Errorf("got %v", err)
	}
}

func TestStartsInTimeOrNotAtAll(t *testing.T) {
	err := Generate(t.Context(), &bytes.Buffer{}, Offer{Profile: RequestResponse(1, 1), Begin: 1, Duration: 1})
	if err == nil || !strings.Contains(err.Error(), "too busy") {
		t.Errorf("got %v", err)
	}
}

// TestCountsWhatWasMoved: bulk of which no transaction ends has a figure.
func TestCountsWhatWasMoved(t *testing.T) {
	p := Streaming(2, 1024)
	for i := range p.Groups[0].Transactions {
		for k := range p.Groups[0].Transactions[i].Flowops {
			if f := &p.Groups[0].Transactions[i].Flowops[k]; f.Count > 1 {
				f.Count = 1 << 40
			}
		}
	}
	c, err := master(t, slave(t), p)
	if err != nil || c.Operations != 0 || c.Cut != 2 || c.ServerReceived == 0 {
		t.Errorf("%+v, %v", c, err)
	}
}
