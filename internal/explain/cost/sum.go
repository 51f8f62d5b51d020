package cost

import "time"

// Sum is the time of several machines as one's, at the time of the last of their snapshots.
func Sum(machines map[string]Snapshot) (out Snapshot) {
	var at time.Time
	for _, s := range machines {
		if s.At.After(at) {
			at = s.At
		}
		out.User, out.System = out.User+s.User, out.System+s.System
		out.SoftIRQ, out.IRQ = out.SoftIRQ+s.SoftIRQ, out.IRQ+s.IRQ
		out.Steal, out.Idle, out.Cores = out.Steal+s.Steal, out.Idle+s.Idle, out.Cores+s.Cores
		if len(machines) == 1 {
			out.PerCore = s.PerCore
		}
	}
	out.At = at
	return out
}
