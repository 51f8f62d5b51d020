package limit

import (
	"os"

	"pathwise.dev/pathwise/internal/explain"
	"pathwise.dev/pathwise/internal/explain/cost"
)

// Host is what the machine has done until a moment, for those in a guest on it: the
// guest itself does not see what else runs there.
type Host struct {
	at cost.Snapshot
	// used is by programs that are no children of this one, which boots the guest.
	used map[int]ticks
}

// ReadHost reads the machine.
func ReadHost() (Host, error) {
	at, err := cost.Read()
	if err != nil {
		return Host{}, err
	}
	all, err := processes()
	if len(all) == 0 {
		return Host{}, err
	}
	return Host{at: at, used: strangers(all, os.Getpid())}, nil
}

// strangers is the CPU time of programs that do not descend from root.
func strangers(all map[int]process, root int) map[int]ticks {
	out := map[int]ticks{}
	for pid, p := range all {
		ours := pid == root
		for up, n := p.parent, 0; up > 0 && !ours && n < len(all); up, n = all[up].parent, n+1 {
			ours = up == root
		}
		if !ours && p.program {
			out[pid] = p.used
		}
	}
	return out
}

// Until is which shares of the machine others took from h to z, and nobody.
func (h Host) Until(z Host) *explain.Host {
	all := z.at.At.Sub(h.at.At).Seconds() * float64(z.at.Cores)
	if all <= 0 {
		return nil
	}
	return &explain.Host{Others: spent(h.used, z.used) / all, Idle: cost.Between(h.at, z.at).Idle / all}
}
