package report

import (
	"math"
	"testing"

	"pathwise.dev/pathwise/internal/measure/rank"
	"pathwise.dev/pathwise/internal/stat"
)

func TestHuman(t *testing.T) {
	for _, c := range []struct {
		v    float64
		unit string
		want string
	}{
		{9.412e9, "bit/s", "9.41 Gbit/s"}, {999.6e6, "bit/s", "1.00 Gbit/s"}, {999.4e6, "bit/s", "999 Mbit/s"},
		{0, "bit/s", "0 bit/s"}, {1.2e13, "bit/s", "12.0 Tbit/s"}, {12.34e-6, "s", "12.3 us"}, {0.9996e-3, "s", "1.00 ms"},
		{1.5, "s", "1.50 s"}, {0, "s", "0 s"}, {31234, "1/s", "31234 1/s"}, {0.0123, "ratio", "1.23 %"},
		{0.5, "CPU-s/GB", "0.500 CPU-s/GB"},
		{math.NaN(), "bit/s", "- bit/s"}, {0.9996, "1/GB", "1.00 1/GB"},
	} {
		if got := human(c.v, c.unit); got != c.want {
			t.Errorf("human(%g, %s) = %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}

func TestInterval(t *testing.T) {
	s := scale{"Gbit/s", 1e9}
	for _, c := range []struct {
		low, mid, high float64
		want           string
	}{
		{9.3e9, 9.412e9, 9.524e9, "9.41 ± 0.11"}, {9.409e9, 9.412e9, 9.415e9, "9.412 ± 0.003"},
		{math.Inf(-1), 9.412e9, math.Inf(1), "9.41"}, {-1e9, 1e9, 3e9, "1.00 ± 2.00"}, {0, 0, 0, "0 ± 0"},
		{math.Inf(-1), math.NaN(), math.Inf(1), "-"},
	} {
		if got := s.pm(stat.Interval{Center: c.mid, Low: c.low, High: c.high}); got != c.want {
			t.Errorf("%g [%g, %g] = %q, want %q", c.mid, c.low, c.high, got, c.want)
		}
	}
}

func TestSmallTexts(t *testing.T) {
	for got, want := range map[string]string{
		signed(-0.04, 1): "0.0", signed(0.06, 1): "+0.1", signed(-3, 0): "-3", percent(0.93): "-7.0 %", percent(1): "0.0 %",
		pvalue(0.0001): "<0.001", pvalue(0.04): "0.040", ratio(123.4): "123", duration(9450): "2 h 37 min",
		duration(61): "1 min 1 s", duration(4.2): "4.2 s", listed([]string{"a", "b", "c"}, " = ", 2): "a = b +1",
		rankText(rank.Row{Rank: 2, RankLow: 1, RankHigh: 4}): "2 (1-4)", rankText(rank.Row{Baseline: true}): "baseline",
		escapeMarkdown("a|b_c<d>"): `a\|b\_c&lt;d>`,
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTieLetters(t *testing.T) {
	var r rank.Ranking
	for i := 1; i <= 28; i++ {
		r.Rows = append(r.Rows, rank.Row{Tie: i}, rank.Row{Tie: i})
	}
	r.Rows = append(r.Rows, rank.Row{Tie: 29}, rank.Row{})
	for i, want := range map[int]string{0: "a", 51: "z", 52: "aa", 55: "ab", 56: "", 57: ""} {
		if got := tieLetter(r, r.Rows[i]); got != want {
			t.Errorf("row %d has the letter %q, want %q", i, got, want)
		}
	}
}
