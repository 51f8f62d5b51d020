package result_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"pathwise.dev/pathwise/internal/measure/result"
)

// FuzzOpen: a result directory from elsewhere is read, or refused with the file and
// line that are wrong.
func FuzzOpen(f *testing.F) {
	whole, run := create(f)
	if err := run.Close(); err != nil {
		f.Fatal(err)
	}
	read := func(name string) []byte {
		raw, err := os.ReadFile(filepath.Join(whole, name))
		if err != nil {
			f.Fatal(err)
		}
		return raw
	}
	f.Add(read(result.SamplesFile), []byte(`{"cpu":{"model":"x"}}`), []byte(`{"kernel":"6.1"}`))
	f.Add(read(result.SamplesFile), []byte("{\n\"a\": x}"), []byte(nil))
	f.Add([]byte(`{"header":{}}`+"\n"), []byte(nil), []byte("[]"))
	dir := f.TempDir()
	place := regexp.MustCompile(`^` + regexp.QuoteMeta(dir) + `/[a-z.-]+:\d+: `)
	f.Fuzz(func(t *testing.T, samples, machine, guest []byte) {
		for name, raw := range map[string][]byte{result.SamplesFile: samples, result.MachineFile: machine,
			"machine-uml.json": guest} {
			path := filepath.Join(dir, name)
			if len(raw) == 0 {
				_ = os.Remove(path)
				continue
			}
			if err := os.WriteFile(path, raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := result.Open(dir); err != nil && len(samples) > 0 && !place.MatchString(err.Error()) {
			t.Errorf("error without a place: %v", err)
		}
	})
}
