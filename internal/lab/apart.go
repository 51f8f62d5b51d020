package lab

import (
	"context"
	"fmt"

	"pathwise.dev/pathwise/internal/topo"
)

// tellPodsApart wants each pod to be reached at an address of its own: plugins that give two
// pods the same one have traffic end at the wrong pod, or at the sender's own.
func (l *Lab) tellPodsApart(context.Context) error { return podsApart(l.rec.pods()) }

func podsApart(pods []topo.Pod) error {
	type place struct{ network, address string }
	taken := map[place]topo.Pod{}
	for _, p := range pods {
		for i, a := range p.Attachments {
			at := place{a.Network, a.Addr.String()}
			if i == 0 && p.Service.IsValid() { // where ports are published, the address is the host's
				at.address = p.Service.String()
			}
			if other, ok := taken[at]; ok && other.Netns != p.Netns {
				return fmt.Errorf("pods %s and %s have both got the address %v on %s: each needs one of its own",
					other.Name, p.Name, a.Addr, a.Network)
			}
			taken[at] = p
		}
	}
	return nil
}
