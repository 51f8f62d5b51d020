package explain

import "fmt"

// modes lists the modes that count.
func modes(m Modes) string {
	return fmt.Sprintf("user %s, system %s, softirq %s", percent(m.User), percent(m.System), percent(m.SoftIRQ))
}

// percent shows a share.
func percent(share float64) string {
	if p := 100 * share; p > 0 && p < 9.5 {
		return fmt.Sprintf("%.1f %%", p)
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// figure shows three digits.
func figure(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// size shows bytes.
func size(b float64) string {
	if b >= 1e6 {
		return fmt.Sprintf("%.3g MB", b/1e6)
	}
	if b >= 1000 {
		return fmt.Sprintf("%.3g kB", b/1000)
	}
	return fmt.Sprintf("%.0f B", b)
}

// rate shows bit/s.
func rate(r float64) string {
	if r >= 1e9 {
		return fmt.Sprintf("%.3g Gbit/s", r/1e9)
	}
	return fmt.Sprintf("%.3g Mbit/s", r/1e6)
}

// duration shows seconds.
func duration(s float64) string {
	switch {
	case s >= 1:
		return fmt.Sprintf("%.3g s", s)
	case s >= 1e-3:
		return fmt.Sprintf("%.3g ms", 1e3*s)
	}
	return fmt.Sprintf("%.3g us", 1e6*s)
}
