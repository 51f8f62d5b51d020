package network

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// Route says who makes routes between the hosts' pods of a user's CNI
// configuration list: nobody, or the lab.
type Route string

// Routes between hosts.
const (
	// RouteNone: the list's plugins bring pods to one another, or nothing does.
	RouteNone Route = ""
	// RouteStatic: each host has a route to the pods of each other one.
	RouteStatic Route = "static"
	// RouteBGP: hosts learn of one another's pods by BGP, from BIRD.
	RouteBGP Route = "bgp"
)

// ParseRoute returns the route called s.
func ParseRoute(s string) (Route, error) {
	if r := Route(s); r == RouteStatic || r == RouteBGP {
		return r, nil
	}
	return "", fmt.Errorf("unknown route %q: expected static or bgp", s)
}

// List is how a user names a CNI configuration list: cni:FILE, or
// cni:FILE?route=static.
type List struct {
	Path  string
	Route Route
}

// ParseList reads what the catalogue is asked for; ok is false where that is no list.
func ParseList(find string) (l List, ok bool, err error) {
	rest, ok := strings.CutPrefix(find, "cni:")
	if !ok {
		return List{}, false, nil
	}
	path, query, asked := strings.Cut(rest, "?")
	l.Path = path
	if path == "" {
		return l, true, fmt.Errorf("%q names no file: expected cni:FILE", find)
	}
	if !asked {
		return l, true, nil
	}
	values, err := url.ParseQuery(query)
	if err != nil || len(values) != 1 || len(values["route"]) != 1 {
		return l, true, fmt.Errorf("%q: %q is no option of a list: expected route=static or route=bgp", find, query)
	}
	if l.Route, err = ParseRoute(values.Get("route")); err != nil {
		return l, true, fmt.Errorf("%q: %w", find, err)
	}
	return l, true, nil
}

// String is what the catalogue is asked for.
func (l List) String() string {
	if l.Route == RouteNone {
		return "cni:" + l.Path
	}
	return "cni:" + l.Path + "?route=" + string(l.Route)
}

// Name is what results call the list where the user gives it no name.
func (l List) Name() string {
	base := filepath.Base(l.Path)
	name := "cni-" + strings.TrimSuffix(base, filepath.Ext(base))
	if l.Route != RouteNone {
		name += "-" + string(l.Route)
	}
	return name
}
