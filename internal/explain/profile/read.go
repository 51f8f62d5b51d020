package profile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"pathwise.dev/pathwise/internal/explain"
)

// Device names a device whose packets are of interest.
type Device struct {
	// Netns is the inode of its namespace.
	Netns uint64
	Index int
	Name  string
}

// Read returns what the window showed. places tells whose a namespace is, by its
// inode; what is in none of them is outside. looked is what one packet in 16
// was like, sent and received by device; nil where packets are not counted.
func (s *Sampler) Read(t *explain.Table, places map[uint64]explain.Place, devices []Device) (stacks []explain.Stack,
	looked [][2]explain.Device, lost uint64, err error) {
	names, err := readSymbols()
	if err != nil {
		return nil, nil, 0, err
	}
	frames, err := s.frames(names)
	if err != nil {
		return nil, nil, 0, err
	}
	if stacks, err = s.counts(t, frames, places); err != nil {
		return nil, nil, 0, err
	}
	if err := s.objs.PwLost.Lookup(uint32(0), &lost); err != nil {
		return nil, nil, 0, fmt.Errorf("read lost samples: %w", err)
	}
	if s.NoPackets == nil {
		looked, err = s.devices(devices)
	}
	return stacks, looked, lost, err
}

// frames reads the stacks by their hash, the root first.
func (s *Sampler) frames(names symbols) (map[uint64][]string, error) {
	out := map[uint64][]string{}
	var hash uint64
	var raw profileFrames
	it := s.objs.PwStacks.Iterate()
	for it.Next(&hash, &raw) {
		var list []string
		for _, ip := range raw.Ip {
			if ip == 0 {
				break
			}
			list = append(list, names.name(ip))
		}
		slices.Reverse(list)
		out[hash] = list
	}
	if err := it.Err(); err != nil {
		return nil, fmt.Errorf("read stacks: %w", err)
	}
	return out, nil
}

func (s *Sampler) counts(t *explain.Table, frames map[uint64][]string, places map[uint64]explain.Place) (
	[]explain.Stack, error) {
	var out []explain.Stack
	var key profileWhere
	var n uint64
	it := s.objs.PwSamples.Iterate()
	for it.Next(&key, &n) {
		process := make([]byte, len(key.Process))
		for i, c := range key.Process {
			process[i] = byte(c)
		}
		process, _, _ = bytes.Cut(process, []byte{0})
		st := explain.Stack{CPU: int(key.Cpu), Process: string(process), Frames: frames[key.Stack], Count: n}
		st.Context = explain.ContextOf(t, st.Frames)
		netns := key.TaskNetns
		if st.Context == explain.SoftIRQ && s.NoPackets == nil {
			netns = key.PacketNetns
		}
		st.Place = cmp.Or(places[uint64(netns)], explain.Outside)
		if st.Context == explain.Free {
			st.Place = explain.Outside
		}
		out = append(out, st)
	}
	if err := it.Err(); err != nil {
		return nil, fmt.Errorf("read samples: %w", err)
	}
	return merge(out), nil
}

// merge adds up equal stacks: the last packet's namespace splits them where it
// does not count. The order is fixed, the most frequent first.
func merge(in []explain.Stack) []explain.Stack {
	order := func(a, b explain.Stack) int {
		return cmp.Or(cmp.Compare(a.CPU, b.CPU), cmp.Compare(a.Context, b.Context), cmp.Compare(a.Place, b.Place),
			cmp.Compare(a.Process, b.Process), slices.Compare(a.Frames, b.Frames))
	}
	slices.SortFunc(in, order)
	var out []explain.Stack
	for _, s := range in {
		if n := len(out); n > 0 && order(out[n-1], s) == 0 {
			out[n-1].Count += s.Count
			continue
		}
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b explain.Stack) int { return cmp.Compare(b.Count, a.Count) })
	return out
}

// devices adds up what CPUs counted of one packet in 16: sent and received, by
// device. Their sizes and segments are typical of all; their number is not.
func (s *Sampler) devices(wanted []Device) ([][2]explain.Device, error) {
	out := make([][2]explain.Device, len(wanted))
	for i, d := range wanted {
		for received := range out[i] {
			key := profileDeviceKey{Netns: uint32(d.Netns), Ifindex: uint32(d.Index), Received: uint32(received)}
			var values []profileDeviceValue
			if err := s.objs.PwDevices.Lookup(&key, &values); errors.Is(err, ebpf.ErrKeyNotExist) {
				continue
			} else if err != nil {
				return nil, fmt.Errorf("read packets of %s: %w", d.Name, err)
			}
			e := &out[i][received]
			e.Sizes = make([]uint64, len(profileDeviceValue{}.Sizes))
			for _, v := range values {
				e.Packets += v.Packets
				e.Bytes += v.Bytes
				e.Segments += v.Segments
				for j, n := range v.Sizes {
					e.Sizes[j] += n
				}
			}
		}
	}
	return out, nil
}
