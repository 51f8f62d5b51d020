package ovs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// Count implements network.Datapath, by what the datapaths of all hosts have counted.
func (f *Fabric) Count(ctx context.Context) (network.Passed, error) {
	var sum network.Passed
	ask, read := []string{"dpif-netdev/pmd-stats-show"}, parseThreads
	if f.Datapath == System {
		ask, read = []string{"dpctl/show", "-s"}, parseShow
	}
	for _, h := range f.site.Hosts {
		text, err := f.call(ctx, h, ask[0], ask[1:]...)
		if err != nil {
			return sum, fmt.Errorf("count packets of host %s: %w", h.Name, err)
		}
		one, err := read(text)
		if err != nil {
			return sum, fmt.Errorf("count packets of host %s: read %s: %w", h.Name, ask[0], err)
		}
		sum.Packets += one.Packets
		sum.Passes += one.Passes
	}
	return sum, nil
}

// call asks the host's ovs-vswitchd as ovs-appctl does (ovs, lib/unixctl.c), but starts no
// program, which on an emulated processor takes longer than what is to be counted.
func (f *Fabric) call(ctx context.Context, h topo.Host, method string, params ...string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", filepath.Join(f.dir(h), "vswitchd.ctl"))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return "", err
	}
	ask := map[string]any{"id": 0, "method": method, "params": append([]string{}, params...)}
	if err := json.NewEncoder(conn).Encode(ask); err != nil {
		return "", fmt.Errorf("ask %s: %w", method, err)
	}
	var answer struct {
		Result string
		Error  any
	}
	if err := json.NewDecoder(conn).Decode(&answer); err != nil {
		return "", fmt.Errorf("read the answer of %s: %w", method, err)
	}
	if answer.Error != nil {
		return "", fmt.Errorf("%s: %v", method, answer.Error)
	}
	return answer.Result, nil
}

// Forget implements network.Datapath. The flows come back as packets meet them.
func (f *Fabric) Forget(ctx context.Context) error {
	for _, h := range f.site.Hosts {
		if _, err := f.Control(ctx, h, "dpctl/del-flows"); err != nil {
			return fmt.Errorf("forget flows of host %s: %w", h.Name, err)
		}
	}
	return nil
}

// parseThreads reads what the threads of the datapath in user space have counted (ovs,
// lib/dpif-netdev.c, pmd_info_show_stats).
func parseThreads(text string) (p network.Passed, err error) {
	seen := false
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if name != "packets received" && name != "packet recirculations" {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return p, fmt.Errorf("%s: %w", name, err)
		}
		p.Passes += n
		if name == "packets received" {
			p.Packets, seen = p.Packets+n, true
		}
	}
	if !seen {
		return p, errors.New("no packets received")
	}
	return p, nil
}

// parseShow reads what the kernel's datapaths have counted: look-ups, of which each pass is
// one, and the packets that came in by their ports (ovs, lib/dpctl.c, show_dpif).
func parseShow(text string) (p network.Passed, err error) {
	seen := false
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		add := func(to *uint64, field, key string) {
			value, ok := strings.CutPrefix(field, key)
			n, bad := strconv.ParseUint(value, 10, 64)
			if !ok || bad != nil {
				err = errors.Join(err, fmt.Errorf("%q: expected %sNUMBER", field, key))
			}
			*to += n
		}
		switch {
		case fields[0] == "lookups:" && len(fields) >= 3:
			add(&p.Passes, fields[1], "hit:")
			add(&p.Passes, fields[2], "missed:")
			seen = true
		case fields[0] == "RX" && strings.HasPrefix(fields[1], "packets:") && fields[1] != "packets:?": // ?: not counted
			add(&p.Packets, fields[1], "packets:")
		}
	}
	if err == nil && !seen {
		err = errors.New("no lookups")
	}
	return p, err
}
