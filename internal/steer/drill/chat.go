package drill

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/topo"
)

// chatter is a datagram now and then between the first pod of a large lab and
// each of the others, by sockets of this process: a generator for each would cost
// more than what is measured.
type chatter struct {
	open    []*net.UDPConn
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// chat begins it: a datagram and its echo with each pod in every interval.
func (g *ground) chat(ctx context.Context, every time.Duration) (*chatter, error) {
	ctx, cancel := context.WithCancel(ctx)
	c := &chatter{cancel: cancel}
	hub, err := c.socket(g.pod("p1"), &net.UDPAddr{})
	if err != nil {
		return nil, errors.Join(err, c.stop())
	}
	var spokes []netip.AddrPort
	for _, pod := range g.lab.Pods() {
		if pod.Agent || pod.Name == "p1" {
			continue
		}
		spoke, err := c.socket(pod, &net.UDPAddr{Port: 7})
		if err != nil {
			return nil, errors.Join(err, c.stop())
		}
		spokes = append(spokes, netip.AddrPortFrom(pod.Addr(), 7))
		c.running.Go(func() { answerAll(spoke) })
	}
	c.running.Go(func() { receiveAll(hub) })
	c.running.Go(func() { talk(ctx, hub, spokes, every/time.Duration(len(spokes))) })
	return c, nil
}

func (c *chatter) socket(pod topo.Pod, addr *net.UDPAddr) (conn *net.UDPConn, err error) {
	err = netns.Do(pod.Netns, func() (e error) { conn, e = net.ListenUDP("udp", addr); return e })
	if err != nil {
		return nil, fmt.Errorf("open socket in pod %s: %w", pod.Name, err)
	}
	c.open = append(c.open, conn)
	return conn, nil
}

// stop ends the chatter.
func (c *chatter) stop() error {
	c.cancel()
	var errs []error
	for _, conn := range c.open {
		errs = append(errs, conn.Close())
	}
	c.running.Wait()
	return errors.Join(errs...)
}

// answerAll echoes until the socket is closed. What is lost does not matter.
func answerAll(c *net.UDPConn) {
	b := make([]byte, 100)
	for {
		n, from, err := c.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		_, _ = c.WriteToUDPAddrPort(b[:n], from)
	}
}

// receiveAll takes what comes until the socket is closed.
func receiveAll(c *net.UDPConn) {
	b := make([]byte, 100)
	for {
		if _, _, err := c.ReadFromUDPAddrPort(b); err != nil {
			return
		}
	}
}

// talk sends to one after the other until ctx ends.
func talk(ctx context.Context, from *net.UDPConn, to []netip.AddrPort, every time.Duration) {
	for {
		for _, spoke := range to {
			_, _ = from.WriteToUDPAddrPort(make([]byte, 64), spoke) // lost ones do not matter
			if pause(ctx, every) != nil {
				return
			}
		}
	}
}
