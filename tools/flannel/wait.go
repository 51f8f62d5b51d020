package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"github.com/flannel-io/flannel/pkg/ip"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/klog/v2"
)

// waitForConfig returns once etcd holds the network's configuration.
func waitForConfig(ctx context.Context, endpoints []string, prefix string) error {
	if err := waitForEtcd(ctx, endpoints); err != nil {
		return err
	}
	client, err := clientv3.New(clientv3.Config{Context: ctx, Endpoints: endpoints})
	if err != nil {
		return fmt.Errorf("connect to etcd: %w", err)
	}
	defer client.Close()
	key := path.Join(prefix, "config")
	now, err := client.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("read %s from etcd: %w", key, err)
	}
	if len(now.Kvs) > 0 {
		return nil
	}
	klog.Infof("waiting for %s in etcd", key)
	for change := range client.Watch(ctx, key, clientv3.WithRev(now.Header.Revision+1)) {
		if err := change.Err(); err != nil {
			return fmt.Errorf("watch %s in etcd: %w", key, err)
		}
		for _, event := range change.Events {
			if event.Type == clientv3.EventTypePut {
				return nil
			}
		}
	}
	return fmt.Errorf("watch %s in etcd: %w", key, errors.Join(ctx.Err(), errClosed))
}

var errClosed = errors.New("watch ended")

// waitForEtcd returns once one of the endpoints accepts connections: an etcd
// client whose first try is refused waits a second before the next.
func waitForEtcd(ctx context.Context, endpoints []string) error {
	var hosts []string
	for _, e := range endpoints {
		u, err := url.Parse(e)
		if err != nil {
			return fmt.Errorf("read etcd endpoint: %w", err)
		}
		if u.Port() == "" {
			return fmt.Errorf("read etcd endpoint: %q: expected a URL with a port, as http://127.0.0.1:2379", e)
		}
		hosts = append(hosts, u.Host)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for said := false; ; {
		err := dialAny(ctx, hosts)
		if err == nil {
			return nil
		}
		if !said {
			klog.Infof("waiting for etcd: %v", err)
			said = true
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

func dialAny(ctx context.Context, hosts []string) error {
	var errs []error
	for _, h := range hosts {
		conn, err := (&net.Dialer{Timeout: 250 * time.Millisecond}).DialContext(ctx, "tcp", h)
		if err == nil {
			return conn.Close()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// previousSubnet returns the IPv4 subnet that the subnet file names, the zero
// value if it names none. flannel takes it again if no other host has it.
func previousSubnet(file string) (ip.IP4Net, error) {
	raw, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return ip.IP4Net{}, nil
	} else if err != nil {
		return ip.IP4Net{}, fmt.Errorf("read subnet file: %w", err)
	}
	for line := range strings.Lines(string(raw)) {
		value, ok := strings.CutPrefix(strings.TrimSpace(line), "FLANNEL_SUBNET=")
		if !ok {
			continue
		}
		p, err := netip.ParsePrefix(value)
		if err != nil || !p.Addr().Is4() {
			return ip.IP4Net{}, fmt.Errorf("read subnet file %s: %q is no IPv4 subnet", file, value)
		}
		return ip.IP4Net{IP: ip.FromBytes(p.Masked().Addr().AsSlice()), PrefixLen: uint(p.Bits())}, nil
	}
	return ip.IP4Net{}, nil
}
