package explain

import "strings"

// part is how many samples of a core that was not idle were whose. A core that sleeps
// is sampled less often than one at work, so /proc/stat says how long it slept.
type part struct{ all, lab, others float64 }

// parts are those of each core.
type parts []part

// add counts a stack.
func (p *parts) add(s Stack) {
	for len(*p) <= s.CPU {
		*p = append(*p, part{})
	}
	c, n := &(*p)[s.CPU], float64(s.Count)
	if s.Context == Free {
		return
	}
	c.all += n
	switch {
	case s.Place != Outside && s.Place != Underlay:
		c.lab += n
	case s.Place == Outside && !s.kernelThread():
		c.others += n
	}
}

// shares are the lab's of each core, other programs' of all cores, and theirs of
// those that the lab ran on.
func (p parts) shares(machine Modes, cores []Modes) (lab []float64, others, contended float64) {
	var all, sum, ran float64
	for i, c := range p {
		busy := machine.Busy()
		if i < len(cores) {
			busy = cores[i].Busy()
		}
		lab = append(lab, busy*per(c.lab, c.all))
		others += c.others
		all += c.all
		ran += c.lab
		sum += c.lab * busy * per(c.others, c.all)
	}
	return lab, machine.Busy() * per(others, all), per(sum, ran)
}

// kernelThread reports whether a thread of the kernel itself ran, outside a softirq.
// Such a thread is in no pod's namespace even where it works for one: that of
// WireGuard's encryption, of a timer, of a work queue.
func (s Stack) kernelThread() bool {
	if s.Context != System || len(s.Frames) == 0 {
		return false
	}
	for _, f := range s.Frames[:min(3, len(s.Frames))] {
		if name := plain(f); name == "kthread" || strings.HasPrefix(name, "ret_from_fork") {
			return true
		}
	}
	return false
}
