package lab

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/network"
	"pathwise.dev/pathwise/internal/topo"
)

// File is a lab file: a Spec and the network on it.
type File struct {
	Spec    Spec
	Network network.Network
}

// ParseFile reads a lab file; name stands in errors, find is the catalogue.
func ParseFile(name string, r io.Reader, find func(string) (network.Network, error)) (File, error) {
	root, err := config.Parse(name, r)
	if err != nil {
		return File{}, err
	}
	f := File{Spec: Spec{Name: "lab"}}
	places := map[string]config.Value{}
	err = root.Fields(map[string]config.Field{
		"name":  func(v config.Value) (err error) { f.Spec.Name, err = v.Text(); places["name"] = v; return err },
		"hosts": func(v config.Value) (err error) { f.Spec.Hosts, err = v.Int(1, MaxHosts); return err },
		"mtu":   func(v config.Value) (err error) { f.Spec.MTU, err = v.Int(topo.MinMTU, topo.MaxMTU); return err },
		"network": func(v config.Value) error {
			text, err := v.Text()
			if err == nil {
				f.Network, err = find(text)
			}
			return err
		},
		"underlay":  prefix(&f.Spec.Underlay, places, "underlay"),
		"pod_range": prefix(&f.Spec.PodRange, places, "pod_range"),
		"pods":      func(v config.Value) error { return f.Spec.readPods(v, places) },
	}, "network", "pods")
	if err != nil {
		return File{}, err
	}
	f.Spec = f.Spec.Fill()
	return f, place(f.Spec.Check(), root, places)
}

// place gives an error of Check the line of the key that it is about.
func place(err error, root config.Value, places map[string]config.Value) error {
	var field *FieldError
	if !errors.As(err, &field) {
		return err
	}
	// "pods[3].host" is placed at "pods[3]" where the key itself is not known.
	for key := field.Key; ; {
		if v, ok := places[key]; ok {
			return v.Wrap(field.Err)
		}
		i := strings.LastIndexByte(key, '.')
		if i < 0 {
			return root.Wrap(err)
		}
		key = key[:i]
	}
}

func prefix(dst *netip.Prefix, places map[string]config.Value, key string) config.Field {
	return func(v config.Value) error {
		places[key] = v
		text, err := v.Text()
		if err != nil {
			return err
		}
		if *dst, err = netip.ParsePrefix(text); err != nil {
			return v.Errorf("%q: expected an address range such as 10.77.0.0/16", text)
		}
		*dst = dst.Masked()
		return nil
	}
}

func (s *Spec) readPods(v config.Value, places map[string]config.Value) error {
	items, err := v.Items()
	if err != nil {
		return err
	}
	for i, item := range items {
		var p PodSpec
		err := item.Fields(map[string]config.Field{
			"name": func(v config.Value) (err error) { p.Name, err = v.Text(); return err },
			"host": func(v config.Value) (err error) { p.Host, err = v.Int(1, MaxHosts); return err },
		}, "name", "host")
		if err != nil {
			return err
		}
		places[fmt.Sprintf("pods[%d]", i)] = item
		s.Pods = append(s.Pods, p)
	}
	return nil
}
