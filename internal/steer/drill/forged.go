package drill

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/steer/agent"
	"pathwise.dev/pathwise/internal/steer/stream"
	"pathwise.dev/pathwise/stamp"
)

func forgedKind() kind {
	return kind{
		name: "forged", about: "forged, replayed, truncated and oversized probes and answers thrown at a running agent",
		defaults: Options{Repetitions: 1, Probes: 2000}, keys: []string{"probes"},
		length: func(o Options, _ File) time.Duration {
			return 12*time.Second + time.Duration(o.Probes)*2*time.Millisecond
		},
		run: runForged, figures: forgedFigures,
	}
}

func runForged(ctx context.Context, s *session) ([]Sample, error) {
	one, err := s.try(ctx, "from the peer's own address", func(out *Sample) error {
		g, err := s.ground(ctx, s.pair("forged"))
		if err == nil {
			err = g.healthy(ctx)
		}
		if err != nil {
			return err
		}
		// Both ways, so that each agent has orders to give.
		long := []string{"--duration", "0", "--think", "2ms"}
		f, err := g.begin(ctx, traffic{kind: stream.RR, from: g.pod("a"), to: g.pod("b"), args: long})
		if err != nil {
			return err
		}
		r, err := g.begin(ctx, traffic{kind: stream.RR, from: g.pod("b"), to: g.pod("a"), args: long})
		if err != nil {
			return errors.Join(err, f.abandon())
		}
		err = g.attack(ctx, out, g.nets[1])
		for _, f := range []*flow{f, r} {
			client, server, endErr := f.end()
			judge(out, client, server)
			err = errors.Join(err, endErr)
		}
		return err
	})
	return []Sample{one}, err
}

// attack plays the strongest attacker that has no key: it is in the agent's
// own pod on h2, sees all probes of the network, and sends what it makes of
// them to the agent of h1.
func (g *ground) attack(ctx context.Context, out *Sample, network string) error {
	me, victim := g.agentPod("h2"), g.agentPod("h1")
	from, ok := me.On(network)
	to, ok2 := victim.On(network)
	if !ok || !ok2 {
		return errNoPort
	}
	// While the pair is opened and moved, so that orders are among what is captured.
	captured := make(chan []packet, 1)
	go func() {
		var got []packet
		// that there are none is found below
		_ = netns.Do(me.Netns, func() error { got = listen(from.Dev, 4*time.Second); return nil })
		captured <- got
	}()
	a := g.agents["h1"]
	quiet, err := a.client.Health(ctx)
	err = errors.Join(err, pause(ctx, 300*time.Millisecond))
	for _, n := range []string{network, g.nets[0]} {
		err = errors.Join(err, g.order(ctx, "h1", agent.Order{Local: "a", Remote: "b", Network: n, Pin: true}),
			g.order(ctx, "h2", agent.Order{Local: "b", Remote: "a", Network: n, Pin: true}), pause(ctx, 500*time.Millisecond))
	}
	got := <-captured
	before, beforeErr := a.client.Health(ctx)
	since, sinceErr := a.lastEvent(ctx)
	if err := errors.Join(err, beforeErr, sinceErr); err != nil {
		return err
	}
	out.Values["probes answered meanwhile"] = float64(before.Reflectors[network].Reflected -
		quiet.Reflectors[network].Reflected)
	sent, err := g.inject(me.Netns, got, from.Addr, to.Addr, out)
	if err != nil {
		return err
	}
	if err := pause(ctx, 1500*time.Millisecond); err != nil {
		return err
	}
	after, err := a.client.Health(ctx)
	events, eventsErr := a.events(ctx, since)
	if err := errors.Join(err, eventsErr); err != nil {
		return err
	}
	out.Values["thrown"] = float64(sent)
	count(out, events)
	for _, e := range events {
		out.Text["event "+e.Kind] = e.Reason
	}
	out.refused(before, after, network)
	out.Values["restarted"] = 0
	if !after.Started.Equal(before.Started) {
		out.Values["restarted"] = 1
	}
	return nil
}

// refused notes what an agent has refused between two looks, of what came over a network.
func (out *Sample) refused(before, after agent.Health, network string) {
	r, was := after.Reflectors[network], before.Reflectors[network]
	out.Values["reflector delivered"] = float64(r.Delivered - was.Delivered)
	out.Values["counted"], out.Values["sender refused"] = 0, 0
	then := was.Refused()
	for reason, n := range r.Refused() {
		out.Values["reflector "+strings.ReplaceAll(reason, "_", " ")] = float64(n - then[reason])
		out.Values["counted"] += float64(n - then[reason])
	}
	then = before.Senders[network].Refused()
	for reason, n := range after.Senders[network].Refused() {
		out.Values["sender refused"] += float64(n - then[reason])
		out.Values["counted"] += float64(n - then[reason])
	}
}

// packet is a probe or an answer as captured on the wire.
type packet struct {
	from, to netip.AddrPort
	payload  []byte
}

// listen captures UDP to and from STAMP's port on an interface of this thread's
// namespace for a while (packet(7)).
func listen(dev string, d time.Duration) []packet {
	link, err := net.InterfaceByName(dev)
	if err != nil {
		return nil
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL)))
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	tv := unix.NsecToTimeval(int64(50 * time.Millisecond))
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: link.Index}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv)); err != nil {
		return nil
	}
	var out []packet
	buf := make([]byte, 65536)
	for end := time.Now().Add(d); time.Now().Before(end) && len(out) < 10000; {
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err != nil {
			continue // nothing in this slice of time
		}
		if p, ok := dissect(buf[:n]); ok {
			out = append(out, p)
		}
	}
	return out
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

// dissect reads an IPv4 UDP packet that is STAMP's.
func dissect(b []byte) (p packet, ok bool) {
	if len(b) < 28 || b[0]>>4 != 4 || b[9] != unix.IPPROTO_UDP {
		return p, false
	}
	ip := int(b[0]&15) * 4 // at least 20 (RFC 791, section 3.1)
	if ip < 20 || len(b) < ip+8 {
		return p, false
	}
	src, dst := netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	udp := b[ip:]
	size := int(binary.BigEndian.Uint16(udp[4:]))
	p = packet{from: netip.AddrPortFrom(src, binary.BigEndian.Uint16(udp)),
		to: netip.AddrPortFrom(dst, binary.BigEndian.Uint16(udp[2:]))}
	if size < 8 || size > len(udp) || p.from.Port() != stamp.Port && p.to.Port() != stamp.Port {
		return p, false
	}
	p.payload = append([]byte(nil), udp[8:size]...)
	return p, true
}

// inject sends what it makes of the captured packets: to the agent's reflector what
// went there, and to its sender what pretends to be answers.
func (g *ground) inject(ns string, captured []packet, from, to netip.Addr, out *Sample) (sent int, err error) {
	var probes, answers []packet
	for _, p := range captured {
		switch {
		case p.from.Addr() == from && p.to == netip.AddrPortFrom(to, stamp.Port):
			probes = append(probes, p)
		case p.from == netip.AddrPortFrom(from, stamp.Port) && p.to.Addr() == to:
			answers = append(answers, p)
		}
	}
	out.Values["heard probes"], out.Values["heard answers"] = float64(len(probes)), float64(len(answers))
	if len(probes) == 0 || len(answers) == 0 {
		return 0, fmt.Errorf("capture probes and answers of %s: %w: %d and %d", to, errNotYet, len(probes), len(answers))
	}
	err = netns.Do(ns, func() error {
		c, err := net.ListenUDP("udp", &net.UDPAddr{IP: from.AsSlice()})
		if err != nil {
			return err
		}
		defer c.Close()
		r := g.s.rand
		for i := range g.s.options().Probes {
			for _, m := range mutations(r, probes[i%len(probes)].payload) {
				if _, err := c.WriteToUDPAddrPort(m, netip.AddrPortFrom(to, stamp.Port)); err == nil {
					sent++
				}
			}
			a := answers[i%len(answers)]
			for _, m := range mutations(r, a.payload) {
				if _, err := c.WriteToUDPAddrPort(m, a.to); err == nil {
					sent++
				}
			}
			time.Sleep(time.Millisecond) // a flood would lose them before they are looked at
		}
		return nil
	})
	return sent, err
}

// mutations is what an attacker makes of a packet: as it was, changed in one byte,
// cut short, far too long, and noise.
func mutations(r *rand.Rand, p []byte) [][]byte {
	forged := append([]byte(nil), p...)
	forged[r.IntN(len(forged))] ^= byte(1 + r.IntN(255))
	noise := make([]byte, r.IntN(1400))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	long := append(append([]byte(nil), p...), make([]byte, 9300)...)
	return [][]byte{p, forged, p[:r.IntN(len(p))], long, noise}
}

func forgedFigures(_ Options, all []Sample) []Figure {
	moves := total("decisions while forged probes came", values(all, "", "moves"), atMost(0))
	moves.Note = fmt.Sprintf("%.0f thrown, from the peer's own address: replayed, changed, truncated, oversized, noise; the agent is not restarted, other events: %s",
		sum(values(all, "", "thrown")), otherEvents(all))
	counted := make([]float64, 0, len(all))
	for i, n := range values(all, "", "counted") {
		counted = append(counted, n/values(all, "", "thrown")[i])
	}
	c := summary("of them counted as refused by the agent", "ratio", counted, median, atLeast(0.95))
	return []Figure{moves, c, total("orders delivered from replayed probes", extra(all), nil),
		total("agent restarted or crashed", values(all, "", "restarted"), atMost(0)),
		total("connections lost", values(all, "", "connections_lost"), atMost(0))}
}

// extra are the orders that the reflector took while it was attacked: those of
// the true peer are among them.
func extra(all []Sample) []float64 { return values(all, "", "reflector delivered") }

func otherEvents(all []Sample) string {
	text := ""
	for _, s := range all {
		for k, v := range s.Values {
			if len(k) > 7 && k[:7] == "events " {
				text += fmt.Sprintf("%s %.0f ", k[7:], v)
			}
		}
	}
	if text == "" {
		return "none"
	}
	return text
}
