package profile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"pathwise.dev/pathwise/internal/explain"
)

//go:generate go tool bpf2go -tags linux -target bpfel -go-package profile drop drop.bpf.c -- -O2 -g -mcpu=v3 -Wall -Werror -I/usr/include/x86_64-linux-gnu -I/usr/include/aarch64-linux-gnu

// Drops counts the packets that the kernel throws away in one window.
type Drops struct {
	objs dropObjects
	link link.Link
}

// OpenDrops loads the program, which runs for dropped packets alone. It needs Linux
// 5.17 with BPF and its type information.
func OpenDrops() (d *Drops, err error) {
	d = &Drops{}
	defer func() {
		if err != nil {
			err = fmt.Errorf("count dropped packets: %w", errors.Join(err, d.Close()))
			d = nil
		}
	}()
	if err := loadDropObjects(&d.objs, nil); err != nil {
		return d, fmt.Errorf("load program: %w", err)
	}
	if d.link, err = link.AttachTracing(link.TracingOptions{Program: d.objs.PwDrop}); err != nil {
		return d, fmt.Errorf("attach program: %w", err)
	}
	return d, nil
}

// Count turns counting on or off.
func (d *Drops) Count(on bool) error {
	var v uint32
	if on {
		v = 1
	}
	if err := d.objs.PwDropping.Put(uint32(0), v); err != nil {
		return fmt.Errorf("count dropped packets: %w", err)
	}
	return nil
}

// Read returns what was dropped in the places, by the kernel's names for reasons.
func (d *Drops) Read(places map[uint64]explain.Place) ([]explain.Drop, error) {
	found := map[explain.Drop]uint64{}
	var key dropDrop
	var n uint64
	counted := map[dropDrop]uint64{}
	it := d.objs.PwDrops.Iterate()
	for it.Next(&key, &n) {
		if _, ours := places[uint64(key.Netns)]; ours {
			counted[key] = n
		}
	}
	if err := it.Err(); err != nil {
		return nil, fmt.Errorf("read dropped packets: %w", err)
	}
	if len(counted) == 0 {
		return nil, nil
	}
	names, err := reasonNames()
	if err != nil {
		return nil, fmt.Errorf("name the kernel's reasons to drop packets: %w", err)
	}
	for key, n := range counted {
		name := cmp.Or(names[uint64(key.Reason)], fmt.Sprintf("reason_%d", key.Reason))
		found[explain.Drop{Reason: name, Place: places[uint64(key.Netns)]}] += n
	}
	var out []explain.Drop
	for drop, n := range found {
		drop.Packets = n
		out = append(out, drop)
	}
	slices.SortFunc(out, func(a, b explain.Drop) int {
		return cmp.Or(cmp.Compare(b.Packets, a.Packets), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Place, b.Place))
	})
	return out, nil
}

// reasonNames are those of enum skb_drop_reason, whose numbers differ between kernels.
func reasonNames() (map[uint64]string, error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, err
	}
	var enum *btf.Enum
	if err := spec.TypeByName("skb_drop_reason", &enum); err != nil {
		return nil, err
	}
	out := map[uint64]string{}
	for _, v := range enum.Values {
		name := strings.TrimPrefix(strings.TrimPrefix(v.Name, "SKB_DROP_REASON_"), "SKB_")
		out[v.Value] = strings.ToLower(name)
	}
	return out, nil
}

// Close takes the program away. Closing twice is fine.
func (d *Drops) Close() error {
	var err error
	if d.link != nil {
		err = d.link.Close()
		d.link = nil
	}
	return errors.Join(err, d.objs.Close())
}
