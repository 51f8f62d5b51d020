package drill

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"pathwise.dev/pathwise/internal/measure/figure"
	"pathwise.dev/pathwise/internal/measure/workload"
)

// Figures returns the figures of every drill of the file from its samples.
func Figures(f File, samples []Sample) ([]Figure, error) {
	var out []Figure
	for _, e := range f.Drills {
		k, err := findKind(e.Drill)
		if err != nil {
			return nil, err
		}
		var own []Sample
		for _, s := range samples {
			if s.Drill == e.Name {
				own = append(own, s)
			}
		}
		if len(own) == 0 {
			continue
		}
		figures := k.figures(e.Options, own)
		if n, first := failures(own); n > 0 {
			figures = append(figures, Figure{Figure: figure.Figure{Name: "variants that failed", Unit: "count",
				Value: float64(n), Low: float64(n), High: float64(n), N: len(own), Bar: atMost(0), Note: first}})
		}
		by := congestions(own)
		for i, fig := range figures {
			fig.Drill = e.Name
			if i == 0 && by != "" {
				if f.Congestion == "" {
					by += ", as the kernel allows pods no " + workload.Congestion + " (net.ipv4.tcp_allowed_congestion_control)"
				}
				fig.Note = strings.TrimPrefix(fig.Note+"; TCP's congestion control was "+by, "; ")
			}
			out = append(out, fig)
		}
	}
	return out, nil
}

// Table prints figures against their bars.
func Table(w io.Writer, figures []Figure) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "DRILL\tFIGURE\tVALUE\t95 %\tSPREAD\tN\tBAR\t")
	last := ""
	met, bars := 0, 0
	var notes []string
	for _, f := range figures {
		drill := f.Drill
		if drill == last {
			drill = ""
		}
		last = f.Drill
		bar := "-"
		if f.Bar != nil {
			bars++
			verdict := "NOT MET"
			if f.Met() {
				verdict = "met"
				met++
			}
			bar = fmt.Sprintf("%s %s: %s", f.Bar.Sign(">=", "<="), Quantity(f.Bar.Limit, f.Unit), verdict)
		}
		interval, spread := "", ""
		if f.N > 1 && f.Low != f.High {
			interval = Quantity(f.Low, f.Unit) + " .. " + Quantity(f.High, f.Unit)
		}
		if f.N > 1 && f.Least != f.Most {
			spread = Quantity(f.Least, f.Unit) + " .. " + Quantity(f.Most, f.Unit)
		}
		value := Quantity(f.Value, f.Unit)
		if f.N == 0 {
			value = "-"
		}
		mark := ""
		if f.Note != "" {
			notes = append(notes, f.Note)
			mark = fmt.Sprintf(" [%d]", len(notes))
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t\n", drill, f.Name+mark, value, interval, spread, f.N, bar)
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	for i, n := range notes {
		fmt.Fprintf(w, "[%d] %s\n", i+1, n)
	}
	_, err := fmt.Fprintf(w, "\n%d of %d bars met\n", met, bars)
	return err
}

// Quantity writes a value with its unit.
func Quantity(v float64, unit string) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case unit == "s":
		return seconds(v)
	case unit == "bit/s":
		return scaled(v, "bit/s")
	case unit == "B":
		return fmt.Sprintf("%.1f MiB", v/(1<<20))
	case unit == "share":
		return fmt.Sprintf("%.2f %%", v*100)
	case unit == "change":
		return fmt.Sprintf("%+.2f %%", v*100)
	case unit == "ratio":
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.4g", v)
}

func seconds(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a < 1e-3:
		return fmt.Sprintf("%.2f us", v*1e6)
	case a < 1:
		return fmt.Sprintf("%.1f ms", v*1e3)
	}
	return fmt.Sprintf("%.2f s", v)
}

func scaled(v float64, unit string) string {
	for _, s := range []struct {
		by     float64
		prefix string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if v >= s.by {
			return fmt.Sprintf("%.3g %s%s", v/s.by, s.prefix, unit)
		}
	}
	return fmt.Sprintf("%.3g %s", v, unit)
}
