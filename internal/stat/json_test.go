package stat

import (
	"encoding/json"
	"testing"
)

// FuzzInterval: an interval of a result file is refused, or comes back as it was.
func FuzzInterval(f *testing.F) {
	f.Add([]byte(`{"center":1,"low":null,"high":2.5,"n":3,"level":0.95,"method":"t","warnings":[]}`))
	f.Add([]byte(`{"center":null}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var i, again Interval
		if json.Unmarshal(raw, &i) != nil {
			return
		}
		once, err := json.Marshal(i)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if err := json.Unmarshal(once, &again); err != nil {
			t.Fatal(err)
		}
		if twice, err := json.Marshal(again); err != nil || string(once) != string(twice) {
			t.Errorf("%s came back as %s: %v", once, twice, err)
		}
	})
}
