package detect

import (
	"slices"
	"testing"
	"time"

	"pathwise.dev/pathwise/internal/steer/flow"
)

// countedMost is how many unanswered datagrams a data plane counts.
const countedMost = 127

// TestReplies: answers are missed where many more datagrams go than usually do before one comes.
func TestReplies(t *testing.T) {
	params := Pairs()
	again := func(n int, counts ...int) []int { return slices.Repeat(counts, n) }
	for _, tt := range []struct {
		name   string
		counts []int // one each 50 ms
		want   int   // by which of them answers are missed first, -1 for never
	}{
		{"each is answered, then none", append(again(5, 0), 10, 20), 6},
		{"a few", append(again(5, 0), 3, 4, 4, 4, 4, 4, 4, 4, 4), -1},
		{"what is asked again ever later", append(again(5, 0), 1, 3, 4, 4, 6), 9},
		{"one was, then none", []int{0, 1, 0, 10, 20, 30, 40}, -1},
		{"never", []int{1, 10, 20, 30, 255, 255}, -1},
		{"many go before an answer comes", append(again(5, 10, 20, 5), 30, 50, 70, 79), -1},
		{"and then none", append(again(5, 10, 20, 5), 30, 50, 70, 90), 18},
		{"as much as may be on its way, and ever less", append(again(5, 10, 20, 5),
			40, 42, 42, 44, 44, 44, 44, 46, 46, 46), 22},
		{"as much as may be on its way, and nothing more", append(again(5, 10, 20, 5), again(9, 5)...), -1},
		{"so many that they are not counted", append(again(5, 70, 10), again(9, countedMost)...), 14},
		{"they come again, and are missed again", append(again(5, 0), 10, 20, 0, 1, 30, 60), 6},
		{"it has paused", append(again(5, 0), 8, 0, 8, 0, 9), -1},
	} {
		var r Replies
		got := -1
		for i, n := range tt.counts {
			now := at(float64(50 * i))
			if r.Counted(&params, flow.Unanswered{N: n}, now); got < 0 && r.Missing(&params, now) {
				got = i
			}
		}
		if got != tt.want {
			t.Errorf("%s: %d, expected %d", tt.name, got, tt.want)
		}
	}
}

// TestRepliesInTurn: a flow that is answered many times between two counts misses nothing, though counts grow.
func TestRepliesInTurn(t *testing.T) {
	params := Pairs()
	var r Replies
	for i := range 200 {
		now := at(float64(50 * i))
		if r.Counted(&params, flow.Unanswered{N: min(i, countedMost), Turn: i%2 == 0}, now); r.Missing(&params, now) {
			t.Fatalf("answers are missed after %d", i)
		}
	}
	if r.Answers() < 190 {
		t.Errorf("%d answers", r.Answers())
	}
}

// TestRepliesOfBefore: a count that was read before another one, and comes after it, is no answer.
func TestRepliesOfBefore(t *testing.T) {
	params := Pairs()
	var r Replies
	r.Counted(&params, flow.Unanswered{N: 20}, at(100))
	if r.Counted(&params, flow.Unanswered{N: 10}, at(90)); r.Answers() != 0 {
		t.Error("taken for an answer")
	}
	if r.Counted(&params, flow.Unanswered{}, at(110)); r.Answers() != 1 {
		t.Error("no answer")
	}
}

// TestRepliesNowhere: a flow that no path has answered is asked again after pauses that grow, and once it was answered.
func TestRepliesNowhere(t *testing.T) {
	params := Pairs()
	var r Replies
	now := at(0)
	count := func(counts ...int) bool {
		for _, n := range counts {
			now = now.Add(50 * time.Millisecond)
			r.Counted(&params, flow.Unanswered{N: n}, now)
		}
		return r.Missing(&params, now)
	}
	if count(0, 0, 0, 0, 10, 20) == false {
		t.Fatal("nothing is missed")
	}
	if timer := r.Timer(&params, now); timer != 12500*time.Microsecond {
		t.Errorf("five datagrams go in %v", timer)
	}
	for _, pause := range []time.Duration{params.DetourAgain, 2 * params.DetourAgain} {
		r.Nowhere(&params, now)
		if count(20, 20, 20) {
			t.Error("answers are missed that come nowhere")
		}
		if now = now.Add(pause); !count(20) {
			t.Errorf("nothing is missed after %v", pause)
		}
	}
	r.Nowhere(&params, now)
	if !count(0, 0, 0, 0, 10, 20) {
		t.Error("nothing is missed after it was answered again")
	}
	r.Nowhere(&params, now)
	if now = now.Add(params.DetourAgain); !count(40) {
		t.Error("an answer does not end what pauses have grown to")
	}
}
