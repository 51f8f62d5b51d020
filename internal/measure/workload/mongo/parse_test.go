package mongo

import "testing"

// FuzzParse: what a client printed is refused, or its figures add up, and those of
// several clients can be summed.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"operations":1,"failed":{},"latency":"","client_user":0.5}`))
	f.Add([]byte(`{"operations":1,"failed":null,"latency":null,"client_user":-1}`))
	f.Add([]byte(`{"operations":-1,"failed":{"x":-1}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := parse(raw)
		if err != nil {
			return
		}
		if c.Operations < 1 || c.Latency.Count() != c.Operations {
			t.Errorf("accepted %+v", c)
		}
		sum := newCount()
		sum.add(c)
		if sum.Operations != c.Operations || sum.Latency.Count() != c.Latency.Count() {
			t.Errorf("%+v became %+v", c, sum)
		}
		for kind, n := range c.Failed {
			if n < 0 || sum.Failed[kind] != n {
				t.Errorf("%d failed as %q", n, kind)
			}
		}
	})
}
