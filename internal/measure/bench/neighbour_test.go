package bench

import "testing"

func TestParseOverflowsSumsCPUs(t *testing.T) {
	const text = "entries  allocs   table_fulls\n00000002 000030ed 0000000a\n00000002 00003088 00000010\n"
	if n := parseOverflows(text); n != 26 {
		t.Errorf("got %d", n)
	}
	for _, bad := range []string{"", "entries allocs\n1 2\n", "table_fulls\nzz\n"} {
		if n := parseOverflows(bad); n != 0 {
			t.Errorf("%q: got %d", bad, n)
		}
	}
}
