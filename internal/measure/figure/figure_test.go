package figure

import (
	"math"
	"testing"
)

func TestMet(t *testing.T) {
	most, least := &Bar{Limit: 1}, &Bar{AtLeast: true, Limit: 1}
	for _, tc := range []struct {
		f    Figure
		want bool
	}{
		{Figure{}, true}, {Figure{Bar: most}, false}, {Figure{Bar: least}, false},
		{Figure{Bar: most, N: 1, Value: 1}, true}, {Figure{Bar: most, N: 1, Value: 1.01}, false},
		{Figure{Bar: least, N: 1, Value: 1}, true}, {Figure{Bar: least, N: 1, Value: 0.99}, false},
		{Figure{Bar: most, N: 1, Value: math.NaN()}, false}, {Figure{Bar: least, N: 1, Value: math.NaN()}, false},
	} {
		if got := tc.f.Met(); got != tc.want {
			t.Errorf("%+v, bar %+v: %v", tc.f, tc.f.Bar, got)
		}
	}
	if most.Sign("a", "b") != "b" || least.Sign("a", "b") != "a" {
		t.Error("the signs of bars")
	}
}
