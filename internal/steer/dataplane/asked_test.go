package dataplane

import (
	"testing"
	"time"
)

// TestAsked: of a flow of datagrams that was answered is counted how many have gone since, by either end, on the
// default network and elsewhere; of one that never was nothing is. Each counts once, also where it passes two programs.
func TestAsked(t *testing.T) {
	t.Run("redirected", func(t *testing.T) { asked(t, "") })
	t.Run("directly routed", func(t *testing.T) { asked(t, "net1") })
}

func asked(t *testing.T, direct string) {
	b := newBed(t)
	b.open(1)
	b.open(2)
	if direct != "" {
		defer b.straight(direct)()
	}
	sends, gets := b.oneWayFlow()
	count := func(step string, want int, answered bool) {
		t.Helper()
		local, remote := ports(sends)
		n, ok, err := b.planes[1].Unanswered("pod-2", local, remote)
		if err != nil || ok != answered || ok && n.N != want {
			t.Errorf("%s: %d unanswered, answered before %v, %v; want %d, %v", step, n.N, ok, err, want, answered)
		}
		f, err := b.planes[1].Flows()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		all, err := f.Asked()
		switch {
		case err != nil:
			t.Fatal(err)
		case answered && (len(all) != 1 || all[0] != Asked{UID: "pod-2", Local: local, Remote: remote, Unanswered: n}):
			t.Errorf("%s: %+v, want %d unanswered", step, all, want)
		}
		for _, a := range all {
			if a.Begins == answered {
				t.Errorf("%s: answered %t, begins %t", step, answered, a.Begins)
			}
		}
		if c, err := f.Sweep(); err != nil || c.Asked != len(all) {
			t.Errorf("%s: %+v of %d, %v", step, c, len(all), err)
		}
	}
	answer := func() {
		t.Helper()
		from := pass(t, sends, gets, 1)
		if _, err := gets.WriteTo([]byte("answer"), from); err != nil {
			t.Fatal(err)
		}
		if err := sends.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := sends.Read(make([]byte, 16)); err != nil {
			t.Fatal(err)
		}
	}
	pass(t, sends, gets, 3)
	count("never answered", 0, false)
	answer()
	count("answered", 0, true)
	pass(t, sends, gets, 5)
	count("five more", 5, true)
	b.move(1, 2)
	pass(t, sends, gets, 4)
	count("four on another path", 9, true)
	answer()
	count("answered there", 0, true)
	pass(t, sends, gets, 300)
	count("more than are counted", int(bpfLimitUNANSWERED_MOST), true)
}
