package custom

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// place is what a list is filled for: a pod, counted on its host from 1, and the
// device that is made for it where the list takes one.
type place struct {
	site network.Site
	host topo.Host
	pod  int
	dev  string
}

// words are replaced in a list, so that one file serves all hosts and pods.
func (p place) words() *strings.Replacer {
	return strings.NewReplacer(
		"${HOST}", strconv.Itoa(p.host.Index), "${POD}", strconv.Itoa(p.pod),
		"${SUBNET}", p.host.Pods.String(), "${PODS}", p.site.Pods.String(),
		"${SUBNET6}", topo.Subnet6(p.host.Pods).String(), "${PODS6}", topo.Range6(p.site.Pods).String(),
		"${ADDR}", p.host.Addr.Addr().String(), "${DEV}", p.host.Dev,
		"${MTU}", strconv.Itoa(p.site.MTU), "${DIR}", p.site.Dir)
}

// fill returns the list with the place's values, as a list also where the file has
// a single plugin. What plugins keep on disk goes into the lab, to go with it.
func (n *Network) fill(p place) ([]byte, error) {
	list, err := decode([]byte(p.words().Replace(string(n.raw))))
	if err != nil {
		return nil, err
	}
	if _, single := list["type"]; single && list["plugins"] == nil {
		wrapped := map[string]any{"plugins": []any{list}}
		for _, key := range []string{"name", "cniVersion"} {
			if v, ok := list[key]; ok {
				wrapped[key] = v
			}
		}
		list = wrapped
	}
	plugins, _ := list["plugins"].([]any)
	for _, raw := range plugins {
		plugin, ok := raw.(map[string]any)
		if !ok {
			continue // the CNI library says what is wrong
		}
		relocate(plugin, p.site.Dir)
		if n.replace {
			rehouse(plugin, p)
		}
		if plugin["type"] == "host-device" && plugin["device"] != nil {
			plugin["device"] = p.dev
		}
	}
	return json.Marshal(list)
}

// decode reads an object, keeping numbers as they are written.
func decode(text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	err := d.Decode(&value)
	list, object := value.(map[string]any)
	switch {
	case errors.Is(err, io.EOF):
		err = errors.New("the file is empty")
	case err != nil && bytes.HasPrefix(text, []byte("\xef\xbb\xbf")):
		err = errors.New("it begins with a byte order mark, which CNI does not take either")
	case err == nil && !object:
		err = errors.New("expected an object")
	}
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("expected one object and nothing after it")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("not a CNI configuration list: %w", err)
	}
	return list, nil
}

// relocate puts the directories in which plugins keep state inside the lab. Those
// of host-local are the same for all hosts: the hosts of a real cluster have one
// each and ranges that differ, here a list without ${SUBNET} must still give each
// pod an address of its own.
func relocate(plugin map[string]any, dir string) {
	defaults := map[string]string{"host-local": "ipam", "tuning": "tuning", "flannel": "flannel"}
	for _, part := range []any{plugin, plugin["ipam"], plugin["delegate"]} {
		conf, ok := part.(map[string]any)
		if !ok {
			continue
		}
		kind, _ := conf["type"].(string)
		base := filepath.Join(dir, defaults[kind])
		switch asked, given := conf["dataDir"].(string); {
		case given && (asked == dir || strings.HasPrefix(asked, dir+"/")):
		case given:
			conf["dataDir"] = filepath.Join(base, filepath.Clean("/"+asked))
		case defaults[kind] != "" && conf["dataDir"] == nil:
			conf["dataDir"] = base
		}
	}
}

// rehouse gives a plugin's host-local the ranges of the host, of the families that
// it gives addresses of.
func rehouse(plugin map[string]any, p place) {
	ipam, ok := plugin["ipam"].(map[string]any)
	if !ok || ipam["type"] != "host-local" {
		return
	}
	var sets []any
	for _, family := range familiesOf(prefixes(ipam)) {
		subnet := p.host.Pods
		if family == topo.IPv6 {
			subnet = topo.Subnet6(p.host.Pods)
		}
		sets = append(sets, []any{map[string]any{"subnet": subnet.String()}})
	}
	ungate(ipam)
	for _, key := range []string{"subnet", "rangeStart", "rangeEnd", "gateway"} {
		delete(ipam, key)
	}
	ipam["ranges"] = sets
	if plugin["isDefaultGateway"] == true {
		return // the plugin bridge makes the route itself
	}
	routes, _ := ipam["routes"].([]any)
	for _, all := range []netip.Prefix{p.site.Pods, topo.Range6(p.site.Pods)} {
		if !gives(sets, topo.FamilyOf(all.Addr())) || covered(routes, all) {
			continue
		}
		routes = append(routes, map[string]any{"dst": all.String()})
	}
	ipam["routes"] = routes
}

// ungate takes the gateways of routes away that are in a range which the host will not
// have: without one a route leads to the gateway of the host's own range.
func ungate(ipam map[string]any) {
	routes, _ := ipam["routes"].([]any)
	for _, raw := range routes {
		route, _ := raw.(map[string]any)
		text, _ := route["gw"].(string)
		gw, err := netip.ParseAddr(text)
		if err == nil && slices.ContainsFunc(prefixes(ipam), func(r netip.Prefix) bool { return r.Contains(gw) }) {
			delete(route, "gw")
		}
	}
}

// gives reports whether sets of ranges have one of the family.
func gives(sets []any, want int) bool {
	for _, f := range familiesOf(prefixes(map[string]any{"type": "host-local", "ranges": sets})) {
		if f == want {
			return true
		}
	}
	return false
}

// covered reports whether one of the routes leads to all of a range.
func covered(routes []any, all netip.Prefix) bool {
	for _, r := range routes {
		route, _ := r.(map[string]any)
		text, _ := route["dst"].(string)
		if dst, err := netip.ParsePrefix(text); err == nil && dst.Bits() <= all.Bits() && dst.Contains(all.Addr()) {
			return true
		}
	}
	return false
}
