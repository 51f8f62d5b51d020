package impair

import (
	"fmt"
	"strconv"
	"strings"
)

// String writes an impairment as "lab impair" has it; "nothing" for none.
func (i Impairment) String() string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	direction := i.Direction
	if direction == "" {
		direction = Out
	}
	if i.Rate > 0 {
		add("rate %s", formatRate(i.Rate))
	}
	if i.Delay > 0 {
		add("delay %v", i.Delay)
	}
	if i.Jitter > 0 {
		add("jitter %v", i.Jitter)
	}
	if i.Reorder > 0 {
		add("reorder %.4g%%", i.Reorder*100)
	}
	if len(out) > 0 {
		out[len(out)-1] += " " + string(direction)
	}
	in, lossOut := i.losses()
	of := ""
	if i.Only != (Only{}) {
		of = " of " + i.Only.String()
	}
	for _, w := range []struct {
		share float64
		which Direction
	}{{in, In}, {lossOut, Out}} {
		if in == lossOut {
			if w.which == Out {
				continue
			}
			w.which = Both
		}
		switch {
		case w.share == 1:
			add("drop %s%s", w.which, of)
		case w.share > 0:
			add("loss %.4g%% %s%s", w.share*100, w.which, of)
		}
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, ", ")
}

// formatRate writes what ParseRate reads.
func formatRate(bits uint64) string {
	for _, unit := range []struct {
		suffix string
		factor float64
	}{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}} {
		if float64(bits) >= unit.factor {
			return strconv.FormatFloat(float64(bits)/unit.factor, 'g', 6, 64) + unit.suffix
		}
	}
	return strconv.FormatUint(bits, 10) + "bit"
}

// ParseRate reads bits per second as tc(8) writes them: 500mbit, 1.5gbit, 64kbit.
func ParseRate(text string) (uint64, error) {
	lower := strings.ToLower(text)
	for _, unit := range []struct {
		suffix string
		factor float64
	}{{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"bit", 1}} {
		cut, ok := strings.CutSuffix(lower, unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(cut, 64)
		if err == nil && n*unit.factor >= MinRate && n*unit.factor <= 1e12 {
			return uint64(n * unit.factor), nil
		}
		break
	}
	return 0, fmt.Errorf("rate %q: expected 64kbit to 1000gbit, such as 500mbit", text)
}
