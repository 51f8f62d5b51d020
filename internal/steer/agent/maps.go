package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"pathwise.dev/pathwise/internal/steer/dataplane"
)

// PodMaps is what the data plane of a pod has in its maps. The keys of packets' tags are left
// out.
type PodMaps struct {
	Pod string `json:"pod"`
	UID string `json:"uid"`
	// Memory in bytes of the kernel.
	Memory uint64           `json:"memory"`
	Events dataplane.Events `json:"events"`
	// Flows that were told apart when they were last counted, and for how many there is room.
	Flows int       `json:"flows"`
	Room  int       `json:"room"`
	Peers []PeerMap `json:"peers"`
	// Fault is why something could not be read.
	Fault string `json:"fault,omitempty"`
}

// PeerMap is a row of a peer.
type PeerMap struct {
	Pod string `json:"pod"`
	UID string `json:"uid"`
	// Number of the latest choice.
	Number uint64 `json:"number"`
	// Own and Followed are the path of each bucket, of flows that this pod has opened and of
	// those that the peer has: Paths by their index.
	Own      [dataplane.Buckets]int `json:"own"`
	Followed [dataplane.Buckets]int `json:"followed"`
	Paths    []PathMap              `json:"paths"`
}

// PathMap counts what a peer's path carried.
type PathMap struct {
	Index    int             `json:"index"`
	Network  string          `json:"network"`
	Sent     dataplane.Tally `json:"sent"`
	Received dataplane.Tally `json:"received"`
}

// Maps returns what the data planes of the host's pods have in their maps.
func (sv *server) Maps() []PodMaps {
	out, planes := []PodMaps{}, []*dataplane.Plane{}
	sv.members.Lock()
	for _, l := range sv.members.pods {
		out, planes = append(out, l.maps()), append(planes, l.plane)
	}
	sv.members.Unlock()
	for i, p := range planes {
		var err error
		if out[i].Memory, err = p.Memory(); err != nil { // it may have been closed meanwhile
			out[i].Fault = strings.TrimPrefix(out[i].Fault+"; "+err.Error(), "; ")
		}
	}
	slices.SortFunc(out, func(a, b PodMaps) int { return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.UID, b.UID)) })
	return out
}

func (l *pod) maps() PodMaps {
	m := PodMaps{Pod: l.Name, UID: l.UID, Events: l.plane.Events(), Flows: l.census.Flows, Room: l.census.Room,
		Peers: []PeerMap{}}
	var faults []error
	for uid, p := range l.pairs {
		row, err := p.peerMap(uid)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		m.Peers = append(m.Peers, row)
	}
	slices.SortFunc(m.Peers, func(a, b PeerMap) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.UID, b.UID))
	})
	if err := errors.Join(faults...); err != nil {
		m.Fault = err.Error()
	}
	return m
}

func (p *pair) peerMap(uid string) (row PeerMap, err error) {
	row = PeerMap{Pod: p.remote.Name, UID: uid}
	plane := p.local.plane
	if row.Number, err = plane.Number(uid); err != nil {
		return row, err
	}
	for _, of := range []struct {
		into *[dataplane.Buckets]int
		read func(string) ([dataplane.Buckets]dataplane.Choice, error)
	}{{&row.Own, plane.Choices}, {&row.Followed, plane.Followed}} {
		all, err := of.read(uid)
		if err != nil {
			return row, err
		}
		for bucket, c := range all {
			of.into[bucket] = c.Path
		}
	}
	for _, r := range p.routes {
		sent, received, err := plane.Tallies(uid, r.Index)
		if err != nil {
			return row, err
		}
		row.Paths = append(row.Paths, PathMap{r.Index, r.Network, sent, received})
	}
	return row, nil
}

// Maps asks for what the data planes have in their maps.
func (c *Client) Maps(ctx context.Context) (out []PodMaps, err error) {
	return out, c.get(ctx, "/maps", &out)
}
