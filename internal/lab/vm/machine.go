package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/guest"
	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
)

// machine is a virtual machine that runs.
type machine struct {
	mac    net.HardwareAddr
	addr   netip.AddrPort
	guest  *guest.Machine
	client *http.Client
}

func newMachine(ns string, addr netip.Addr, mac net.HardwareAddr) *machine {
	m := &machine{mac: mac, addr: netip.AddrPortFrom(addr, port)}
	m.client = &http.Client{
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dial(ctx, ns, m.addr)
		}}}
	return m
}

// dial connects to the machine at addr from the namespace of its host.
func dial(ctx context.Context, ns string, addr netip.AddrPort) (net.Conn, error) {
	var conn net.Conn
	// One address, and so one socket, made on this thread.
	err := netns.Do(ns, func() (err error) {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp4", addr.String())
		return err
	})
	return conn, err
}

// MAC implements lab.Machine.
func (m *machine) MAC() string { return m.mac.String() }

// Failed implements lab.Machine.
func (m *machine) Failed() error {
	if m.guest == nil {
		return nil
	}
	return m.guest.Failed()
}

// Call implements lab.Machine.
func (m *machine) Call(ctx context.Context, op string, in, out any) error {
	raw, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+m.addr.String()+sharePath+op,
		bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask virtual machine: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		const most = 64 << 10
		text, err := io.ReadAll(io.LimitReader(resp.Body, most))
		if err != nil {
			return fmt.Errorf("ask virtual machine: %w", err)
		}
		return errors.New(strings.TrimSpace(string(text)))
	}
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, mostBody)).Decode(out); err != nil {
		return fmt.Errorf("decode virtual machine's answer: %w", err)
	}
	return nil
}

// await returns when the machine answers.
func (m *machine) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, guest.DefaultBootLimit)
	defer cancel()
	err := network.Poll(ctx, 20*time.Millisecond, func() error {
		once, stop := context.WithTimeout(ctx, time.Second)
		defer stop()
		if err := m.Failed(); err != nil {
			cancel()
			return err
		}
		return m.Call(once, "clock", nil, nil)
	})
	if err != nil {
		return fmt.Errorf("wait for virtual machine: %w", err)
	}
	return nil
}
