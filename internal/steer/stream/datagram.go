package stream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/sample"
)

// datagrams sends a train over UDP.
func (c Client) datagrams(ctx context.Context, j *journal) error {
	d := net.Dialer{}
	if c.Bind.IsValid() {
		d.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(c.Bind, 0))
	}
	conn, err := d.DialContext(ctx, family("udp", c.Target.Addr()), c.Target.String())
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	defer conn.Close()
	in, err := newInbox(conn.(*net.UDPConn), j.clock)
	if err != nil {
		return err
	}
	j.detail("rcvbuf", strconv.Itoa(in.room))
	c.train(ctx, j, in, c.Echo)
	return nil
}

// inbox is a UDP socket that takes whatever comes as fast as it comes.
type inbox struct {
	conn  *net.UDPConn
	batch *ipv4.PacketConn // its batches work for IPv6 as well
	clock clock
	// room is the receive buffer that the kernel gave.
	room    int
	dropped uint32
	msgs    []ipv4.Message
	// replies is scratch for sending back.
	replies []ipv4.Message
}

const (
	batchSize = 64
	// roomWanted holds 2 s of small packets at 20,000 a second, at some 768
	// bytes of kernel memory each.
	roomWanted = 32 << 20
)

func newInbox(conn *net.UDPConn, c clock) (*inbox, error) {
	b := &inbox{conn: conn, batch: ipv4.NewPacketConn(conn), clock: c, msgs: make([]ipv4.Message, batchSize),
		replies: make([]ipv4.Message, 0, batchSize)}
	for i := range b.msgs {
		b.msgs[i].Buffers = [][]byte{make([]byte, 1<<16)} // the kernel gives memory when it is written
		b.msgs[i].OOB = make([]byte, unix.CmsgSpace(4)+unix.CmsgSpace(16))
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("set socket options: %w", err)
	}
	var inner error
	err = raw.Control(func(fd uintptr) { inner = b.options(int(fd)) })
	if err := errors.Join(err, inner); err != nil {
		return nil, fmt.Errorf("set socket options: %w", err)
	}
	return b, nil
}

// options makes the socket roomy, and tell of drops and of arrival times.
func (b *inbox) options(fd int) error {
	// Beyond net.core.rmem_max only with CAP_NET_ADMIN.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, roomWanted); err != nil {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, roomWanted); err != nil {
			return err
		}
	}
	room, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	b.room = room
	return errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS_NEW, 1))
}

func (b *inbox) send(buf []byte, _ uint64) error {
	_, err := b.conn.Write(buf)
	return err
}

func (b *inbox) hush() { b.conn.SetReadDeadline(past()) }

func (b *inbox) drops() int64 { return int64(b.dropped) }

func (b *inbox) receive(each func(p packet, at time.Duration)) error {
	for {
		n, err := b.read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil && !errors.Is(err, unix.ECONNREFUSED) { // the sender tells of refusals
			return err
		}
		now := time.Now()
		for i := range n {
			m := &b.msgs[i]
			at := b.arrival(m, now)
			if p, ok := parsePacket(m.Buffers[0][:m.N]); ok {
				each(p, at)
			}
		}
	}
}

// read fills msgs.
func (b *inbox) read() (int, error) {
	n, err := b.batch.ReadBatch(b.msgs, 0)
	if err != nil {
		return 0, err
	}
	return n, nil
}

// arrival is when the kernel received the message, on the monotonic clock: its
// stamp is of the wall clock, and now is read on both. On the way it notes the
// socket's count of drops.
func (b *inbox) arrival(m *ipv4.Message, now time.Time) time.Duration {
	mono := b.clock.of(now)
	for rest := m.OOB[:m.NN]; len(rest) >= unix.CmsgLen(0); {
		h, data, next, err := unix.ParseOneSocketControlMessage(rest)
		if err != nil {
			break
		}
		rest = next
		switch {
		case h.Level != unix.SOL_SOCKET:
		case h.Type == unix.SO_RXQ_OVFL && len(data) >= 4:
			b.dropped = max(b.dropped, binary.NativeEndian.Uint32(data))
		case h.Type == unix.SO_TIMESTAMPNS_NEW && len(data) >= 16:
			stamp := int64(binary.NativeEndian.Uint64(data))*int64(time.Second) + int64(binary.NativeEndian.Uint64(data[8:]))
			// A wall clock that was set in between gives a nonsense age.
			if age := time.Duration(now.UnixNano() - stamp); age >= 0 && age < time.Minute {
				mono -= age
			}
		}
	}
	return mono
}

// maxFlows bounds what strangers' packets can make a server remember.
const maxFlows = 256

// office is a UDP server at work.
type office struct {
	*inbox
	journal *journal
	flows   map[uint32]*flow
	counts  Datagrams
}

// collect receives trains until ctx ends.
func (s Server) collect(ctx context.Context, w io.Writer, j *journal) error {
	conn, err := net.ListenUDP(family("udp", s.Listen.Addr()), net.UDPAddrFromAddrPort(s.Listen))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer conn.Close()
	in, err := newInbox(conn, j.clock)
	if err != nil {
		return err
	}
	j.detail("rcvbuf", strconv.Itoa(in.room))
	hushed := make(chan struct{})
	context.AfterFunc(ctx, func() { in.hush(); close(hushed) })
	if _, err := fmt.Fprintf(w, "listening %s\n", conn.LocalAddr()); err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	j.report.Latency, j.report.Spacing = sample.NewHistogram(), newSpacing() // also without any client
	o := &office{inbox: in, journal: j, flows: map[uint32]*flow{}}
	for ctx.Err() == nil {
		n, err := in.read()
		if err != nil && ctx.Err() == nil {
			j.wrong(-1, reason("receive", err))
			time.Sleep(acceptPause)
		}
		if hurry := o.sort(in.msgs[:n], time.Now()); !hurry && n < batchSize {
			time.Sleep(rest)
		}
	}
	<-hushed // or it might end the reads of what is left
	o.conn.SetReadDeadline(time.Time{})
	o.drain(j.clock.now())
	o.close()
	return nil
}

// drain takes what the kernel had received by the end: where the machine has
// not run the server for some time, that must not be reported as lost.
func (o *office) drain(end time.Duration) {
	for {
		// A deadline of a moment could pass before the first look.
		n, err := o.batch.ReadBatch(o.msgs, unix.MSG_DONTWAIT)
		if err != nil || n == 0 {
			return
		}
		now := time.Now()
		o.sort(o.msgs[:n], now)
		if o.arrival(&o.msgs[n-1], now) > end {
			return
		}
	}
}

// rest is how long a server lets packets gather that nobody waits for: one
// wake-up for many costs the system under test less, and their times of arrival
// are the kernel's stamps all the same.
const rest = 500 * time.Microsecond

// sort gives each message to its flow and sends back what is to be echoed;
// hurry says that there was such.
func (o *office) sort(msgs []ipv4.Message, now time.Time) (hurry bool) {
	back := o.replies[:0]
	for i := range msgs {
		m := &msgs[i]
		at := o.arrival(m, now)
		p, ok := parsePacket(m.Buffers[0][:m.N])
		f := o.flows[p.flow]
		if ok && f == nil && p.what != echoed && len(o.flows) < maxFlows {
			l := o.journal.line(len(o.flows))
			l.last = at // a flow begins with its first packet
			f = newFlow(l)
			o.flows[p.flow] = f
		}
		if !ok || f == nil || p.what == echoed {
			o.counts.Foreign++
			continue
		}
		if p.what == lastCall {
			// A number that the packets do not come near is not of this flow.
			if !f.over && p.seq < f.order.next+farAhead {
				f.finish(int64(p.seq), at)
			}
			continue
		}
		f.arrive(p, at)
		if p.what == toEcho {
			setType(m.Buffers[0], echoed)
			back = append(back, ipv4.Message{Buffers: [][]byte{m.Buffers[0][:m.N]}, Addr: m.Addr})
		}
	}
	o.reply(back)
	return len(back) > 0
}

func (o *office) reply(back []ipv4.Message) {
	for len(back) > 0 {
		n, err := o.batch.WriteBatch(back, 0)
		if err != nil {
			o.journal.wrong(-1, reason("echo", err))
			n = 1 // go on behind the one that cannot be sent
		} else {
			o.counts.Sent += int64(n)
		}
		back = back[n:]
	}
}

// close hands in what was received.
func (o *office) close() {
	for _, f := range o.flows {
		o.journal.handIn(f.settled())
	}
	l := o.journal.line(-1)
	o.counts.SocketDrops = o.drops()
	l.Counts.Datagrams = o.counts
	o.journal.handIn(l)
}
