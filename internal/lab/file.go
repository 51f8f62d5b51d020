package lab

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// File is a lab file: a Spec and the networks on it, the default one first.
type File struct {
	Spec     Spec
	Networks []network.Network
}

// reader reads a lab file.
type reader struct {
	File
	find func(string) (network.Network, error)
	// places holds the values that Check may find fault with, by key.
	places map[string]config.Value
	// agents is the value of that key, the zero value where there is none.
	agents string
}

// ParseFile reads a lab file; name is used in errors, find is the catalogue.
func ParseFile(name string, r io.Reader, find func(string) (network.Network, error)) (File, error) {
	root, err := config.Parse(name, r)
	if err != nil {
		return File{}, err
	}
	f := reader{File: File{Spec: Spec{Name: "lab"}}, find: find, places: map[string]config.Value{}}
	err = root.Fields(map[string]config.Field{
		"name":  func(v config.Value) (err error) { f.Spec.Name, err = v.Text(); f.places["name"] = v; return err },
		"hosts": func(v config.Value) (err error) { f.Spec.Hosts, err = v.Int(1, MaxHosts); return err },
		"mtu": func(v config.Value) (err error) {
			f.places["mtu"] = v
			f.Spec.MTU, err = v.Int(topo.MinMTU, topo.MaxMTU)
			return err
		},
		"network":   f.readNetwork,
		"networks":  f.readNetworks,
		"agents":    f.readAgents,
		"underlay":  prefix(&f.Spec.Underlay, f.places, "underlay"),
		"pod_range": prefix(&f.Spec.PodRange, f.places, "pod_range"),
		"pods":      f.readPods,
		"vms":       f.readVMs,
		"outside":   f.readOutside,
		"family": func(v config.Value) (err error) {
			f.places["family"] = v
			f.Spec.Family, err = v.Int(topo.IPv4, topo.IPv6)
			return err
		},
	}, "pods")
	if err != nil {
		return File{}, err
	}
	if len(f.Networks) == 0 {
		return File{}, root.Errorf("network: missing key: expected network: NAME or networks: [NAME, ...]")
	}
	f.Spec.Agents = f.agents == "true" || f.agents == "" && len(f.Networks) > 1 && len(f.Spec.VMs) == 0
	f.Spec = f.Spec.Fill()
	if err := place(f.Spec.Check(), root, f.places); err != nil {
		return File{}, err
	}
	return f.File, place(errors.Join(Combinable(f.Networks, f.Spec.Agents), Speak(f.Networks, f.Spec)), root, f.places)
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

// readNetwork reads the key network, which names one.
func (f *reader) readNetwork(v config.Value) error {
	if _, err := v.Text(); err != nil {
		return err
	}
	return f.readNetworks(v)
}

func (f *reader) readNetworks(v config.Value) error {
	if len(f.Networks) > 0 {
		return v.Errorf("expected network or networks, not both")
	}
	names, err := f.names(v, "networks")
	if err != nil {
		return err
	}
	for i, name := range names {
		n, err := f.find(name)
		if err != nil {
			return f.places[fmt.Sprintf("networks[%d]", i)].Wrap(err)
		}
		f.Networks = append(f.Networks, n)
	}
	f.Spec.Networks = names
	return nil
}

// names reads the list of networks' names at key and notes the place of each.
func (f *reader) names(v config.Value, key string) ([]string, error) {
	items, err := v.Items()
	if err != nil {
		return nil, err
	}
	var out []string
	for i, item := range items {
		f.places[fmt.Sprintf("%s[%d]", key, i)] = item
		text, err := item.Text()
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, nil
}

func (f *reader) readAgents(v config.Value) error {
	f.places["agents"] = v
	text, err := v.Text()
	if err == nil && text != "true" && text != "false" {
		err = v.Errorf("%q: expected true or false", text)
	}
	f.agents = text
	return err
}

// readVMs reads which hosts are virtual machines: [{host: 2, on: 1}]. A machine that
// is not named is one of the host's own.
func (f *reader) readVMs(v config.Value) error {
	items, err := v.Items()
	if err != nil {
		return err
	}
	for i, item := range items {
		var vm topo.VM
		err := item.Fields(map[string]config.Field{
			"host": func(v config.Value) (err error) { vm.Host, err = v.Int(1, MaxHosts); return err },
			"on":   func(v config.Value) (err error) { vm.On, err = v.Int(1, MaxHosts); return err },
		}, "host")
		if err != nil {
			return err
		}
		vm.On = cmp.Or(vm.On, vm.Host)
		f.places[fmt.Sprintf("vms[%d]", i)] = item
		f.Spec.VMs = append(f.Spec.VMs, vm)
	}
	return nil
}

func (f *reader) readOutside(v config.Value) error {
	f.places["outside"] = v
	text, err := v.Text()
	if err != nil {
		return err
	}
	f.Spec.Outside, err = topo.ParseOutside(text)
	return v.Wrap(err)
}

func (f *reader) readPods(v config.Value) error {
	items, err := v.Items()
	if err != nil {
		return err
	}
	for i, item := range items {
		var p PodSpec
		key := fmt.Sprintf("pods[%d]", i)
		err := item.Fields(map[string]config.Field{
			"name":     func(v config.Value) (err error) { p.Name, err = v.Text(); return err },
			"host":     func(v config.Value) (err error) { p.Host, err = v.Int(1, MaxHosts); return err },
			"networks": func(v config.Value) (err error) { p.Networks, err = f.names(v, key+".networks"); return err },
		}, "name", "host")
		if err != nil {
			return err
		}
		f.places[key] = item
		f.Spec.Pods = append(f.Spec.Pods, p)
	}
	return nil
}
