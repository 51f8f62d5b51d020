package wireguard

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/procfs"
	"github.com/vishvananda/netlink"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/lab/network/routed"
	"pathwise.dev/pathwise/internal/topo"
)

// daemon is the program that "make plugins" builds. It is not called
// wireguard-go, as that is another main with other arguments.
const daemon = "pathwise-wireguard-go"

// makeDevice makes the host's kernel device.
func makeDevice(ctx context.Context, site network.Site, h topo.Host, r ring) error {
	nl, err := site.Netlink(h.Netns)
	if err != nil {
		return err
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = device(site), site.MTU-overhead
	link := &netlink.Wireguard{LinkAttrs: attrs}
	if err := nl.LinkAdd(link); err != nil {
		return fmt.Errorf("create WireGuard device: %w", err)
	}
	file, err := writeConfig(site, h, r.forKernel(site, h))
	if err != nil {
		return err
	}
	if _, err := site.Run(ctx, h.Netns, "wg", "setconf", attrs.Name, file); err != nil {
		return fmt.Errorf("configure %s: %w", attrs.Name, err)
	}
	return routed.Through(nl, link, site, h)
}

// startDaemon starts the host's wireguard-go; its device appears a little later.
func startDaemon(ctx context.Context, site network.Site, h topo.Host, r ring) error {
	file, err := writeConfig(site, h, r.forDaemon(site, h))
	if err != nil {
		return err
	}
	return site.Start(ctx, network.Daemon{Name: fmt.Sprintf("wireguard-go%d-%s", site.Index, h.Name), Netns: h.Netns,
		Argv: []string{daemon, "--mtu", strconv.Itoa(site.MTU - overhead), "--config", file, device(site)}})
}

// writeConfig writes the host's configuration, which holds its secret.
func writeConfig(site network.Site, h topo.Host, text string) (string, error) {
	file := filepath.Join(site.Dir, "wireguard-"+h.Name+".conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write WireGuard configuration: %w", err)
	}
	return file, nil
}

// ready waits until every daemon has its device and listens, and routes pods into
// the device. Only then may anything be sent: an initiation that meets no listener
// is tried again after five seconds (Donenfeld 2017, section 6.2: Rekey-Timeout).
func ready(ctx context.Context, site network.Site) error {
	const every = 2 * time.Millisecond
	for _, h := range site.Hosts {
		if err := network.Poll(ctx, every, func() error { return listens(h, port(site)) }); err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
		nl, err := site.Netlink(h.Netns)
		if err != nil {
			return err
		}
		link, err := nl.LinkByName(device(site))
		if err != nil {
			return fmt.Errorf("host %s: find %s: %w", h.Name, device(site), err)
		}
		if err := routed.Through(nl, link, site, h); err != nil {
			return fmt.Errorf("host %s: %w", h.Name, err)
		}
	}
	return nil
}

// listens looks for a UDP socket at the port, in the kernel's own table (proc(5)).
func listens(h topo.Host, port uint16) error {
	return netns.Do(h.Netns, func() error {
		thread, err := procfs.NewFS("/proc/thread-self") // the namespace is this thread's alone
		var sockets procfs.NetUDP
		if err == nil {
			sockets, err = thread.NetUDP()
		}
		if err != nil {
			return fmt.Errorf("list UDP sockets: %w", err)
		}
		for _, s := range sockets {
			if s.LocalPort == uint64(port) {
				return nil
			}
		}
		return fmt.Errorf("nothing listens at UDP port %d yet", port)
	})
}
