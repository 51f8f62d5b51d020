package stream

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// orders is what the environment tells a child process, which is this test
// binary as a server or a client: real processes in real namespaces.
type orders struct {
	Server *Server
	Client *Client
}

const ordersEnv = "PW_STREAM_TEST_ORDERS"

func TestMain(m *testing.M) {
	text := os.Getenv(ordersEnv)
	if text == "" {
		os.Exit(m.Run())
	}
	if err := obey(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func obey(text string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	if o.Server != nil {
		return Serve(ctx, os.Stdout, *o.Server)
	}
	return Run(ctx, os.Stdout, *o.Client)
}

func addrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// Three namespaces in a row; the one in the middle forwards.
const (
	nsClient = "pw-t-strm-c"
	nsRouter = "pw-t-strm-r"
	nsServer = "pw-t-strm-s"
)

// wire is one end of a cable.
type wire struct {
	ns, name string
	addrs    []string
	gateways []string // of the default routes
}

// row builds the namespaces and their cables.
func row(t *testing.T) {
	t.Helper()
	if err := netns.Prepare(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Release(); err != nil {
			t.Error(err)
		}
	})
	for _, ns := range []string{nsClient, nsRouter, nsServer} {
		if err := netns.Create(ns); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := netns.Delete(ns); err != nil {
				t.Error(err)
			}
		})
	}
	setting := func(ns, path, value string) {
		if err := netns.Do(ns,
			func() error { return os.WriteFile("/proc/sys/net/"+path, []byte(value), 0o644) }); err != nil {
			t.Fatal(err)
		}
	}
	for _, ns := range []string{nsClient, nsRouter, nsServer} {
		// A router asks for no neighbour while its own address may be a duplicate.
		setting(ns, "ipv6/conf/default/accept_dad", "0")
		setting(ns, "ipv6/conf/all/accept_dad", "0")
	}
	setting(nsRouter, "ipv4/ip_forward", "1")
	setting(nsRouter, "ipv6/conf/all/forwarding", "1")
	cable(t, wire{nsClient, "eth0", []string{"10.99.1.2/24", "fd99:1::2/64"}, []string{"10.99.1.1", "fd99:1::1"}},
		wire{nsRouter, "left", []string{"10.99.1.1/24", "fd99:1::1/64"}, nil})
	cable(t, wire{nsServer, "eth0", []string{"10.99.2.2/24", "fd99:2::2/64"}, []string{"10.99.2.1", "fd99:2::1"}},
		wire{nsRouter, "right", []string{"10.99.2.1/24", "fd99:2::1/64"}, nil})
}

// cable joins two namespaces.
func cable(t *testing.T, a, b wire) {
	t.Helper()
	err := netns.Do(a.ns, func() error {
		f, err := netns.LinkFd(b.ns)
		if err != nil {
			return err
		}
		defer f.Close()
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: a.name}, PeerName: b.name,
			PeerNamespace: netlink.NsFd(f.Fd())})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []wire{a, b} {
		if err := plug(w); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range []wire{a, b} { // routes need both ends up
		if err := route(w); err != nil {
			t.Fatal(err)
		}
	}
}

// plug gives a wire its addresses.
func plug(w wire) error {
	h, err := netns.Netlink(w.ns)
	if err != nil {
		return err
	}
	defer h.Close()
	link, err := h.LinkByName(w.name)
	if err != nil {
		return err
	}
	for _, text := range w.addrs {
		addr, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		if addr.IP.To4() == nil {
			addr.Flags = unix.IFA_F_NODAD // usable at once
		}
		if err := h.AddrAdd(link, addr); err != nil {
			return err
		}
	}
	return h.LinkSetUp(link)
}

// route sets a wire's default routes.
func route(w wire) error {
	h, err := netns.Netlink(w.ns)
	if err != nil {
		return err
	}
	defer h.Close()
	link, err := h.LinkByName(w.name)
	if err != nil {
		return err
	}
	for _, gw := range w.gateways {
		if err := h.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.ParseIP(gw)}); err != nil {
			return fmt.Errorf("route by %s: %w", gw, err)
		}
	}
	return nil
}

// blackHole makes the router drop what goes to addr in silence, and returns
// how to end that.
func blackHole(t *testing.T, addr netip.Addr) (undo func()) {
	t.Helper()
	h, err := netns.Netlink(nsRouter)
	if err != nil {
		t.Fatal(err)
	}
	route := &netlink.Route{Dst: &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(addr.BitLen(), addr.BitLen())},
		Type: unix.RTN_BLACKHOLE}
	if err := h.RouteAdd(route); err != nil {
		t.Fatal(err)
	}
	return func() {
		defer h.Close()
		if err := h.RouteDel(route); err != nil {
			t.Error(err)
		}
	}
}

// child is a running process.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    bytes.Buffer
	stderr bytes.Buffer
	read   chan struct{}
}

// start runs the orders in a namespace; listening is the server's first line.
func start(t *testing.T, ns string, o orders) (c *child, listening string) {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	c = &child{t: t, cmd: exec.Command("/proc/self/exe"), read: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), ordersEnv+"="+string(text))
	c.cmd.Stderr = &c.stderr
	pipe, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := netns.Start(ns, c.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.cmd.Process.Kill() })
	in := bufio.NewReader(pipe)
	if o.Server != nil {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("the server does not listen: %v", err)
		}
		listening = strings.TrimPrefix(strings.TrimSpace(line), "listening ")
	}
	go func() {
		defer close(c.read)
		_, _ = io.Copy(&c.out, in)
	}()
	return c, listening
}

// end waits for the child's report, after a signal if it is given.
func (c *child) end(sig ...os.Signal) Report {
	c.t.Helper()
	for _, s := range sig {
		if err := c.cmd.Process.Signal(s); err != nil {
			c.t.Fatal(err)
		}
	}
	<-c.read
	if err := c.cmd.Wait(); err != nil {
		c.t.Fatalf("%v: %s", err, c.stderr.String())
	}
	r, err := Parse(c.out.Bytes())
	if err != nil {
		c.t.Fatalf("%v: %.200s", err, c.out.String())
	}
	return r
}

// Addresses of the server.
const (
	serverV4 = "10.99.2.2"
	serverV6 = "fd99:2::2"
)

// pair starts a server and then its client, which gets the server's address.
func pair(t *testing.T, addr string, c Client) (client, server *child) {
	t.Helper()
	c.Record, c.Patience = Record{DefaultBin, DefaultGap}, 2*time.Second
	c.Target = netip.AddrPortFrom(netip.MustParseAddr(addr), 0)
	if c.Kind != ICMP {
		var at string
		s := Server{Kind: c.Kind, Listen: c.Target, MPTCP: c.MPTCP, Record: c.Record}
		server, at = start(t, nsServer, orders{Server: &s})
		c.Target = addrPort(at)
	}
	client, _ = start(t, nsClient, orders{Client: &c})
	return client, server
}

// sound fails for whatever went wrong in a run on which nothing should.
func sound(t *testing.T, r Report, connections int64) {
	t.Helper()
	c := r.Counts
	if len(r.Errors.Reasons) > 0 || c.Corrupt != 0 ||
		c.Connections != (Connections{Opened: connections, Closed: connections}) {
		t.Errorf("%s %s: %+v, errors %v", r.Kind, r.Role, c, r.Errors.Reasons)
	}
	for _, g := range r.Gaps.List {
		// A stream's end meets its sender waiting for room: no fault.
		if g.Open && c.BytesSent == 0 {
			t.Errorf("%s %s: the gap %+v is open", r.Kind, r.Role, g)
		}
	}
}
