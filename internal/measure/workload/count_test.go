package workload

import (
	"encoding/json"
	"testing"
)

func FuzzParseCount(f *testing.F) {
	f.Add([]byte(`{"operations":1,"latency":""}`))
	f.Add([]byte(`{"operations":-1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := ParseCount(raw)
		if err == nil && (c.Operations < 1 || c.Latency.Count() != c.Operations) {
			t.Errorf("accepted %+v", c)
		}
		if err == nil && !json.Valid(raw) {
			t.Error("accepted what is no JSON")
		}
	})
}
