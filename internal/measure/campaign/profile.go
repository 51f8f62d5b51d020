package campaign

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"pathwise.dev/pathwise/internal/measure/experiment"
	"pathwise.dev/pathwise/internal/measure/result"
	"pathwise.dev/pathwise/internal/measure/workload/uperf"
)

// takeProfiles reads the files of uperf's profiles, and returns the experiment as
// it is kept in a result, with them next to it. Their variables have the values that the
// run begins with, or trials after --resume could ask another question.
func takeProfiles(exp experiment.Experiment, getenv func(string) string) (
	experiment.Experiment, map[string][]byte, error) {
	files := map[string][]byte{}
	exp.Entries = slices.Clone(exp.Entries)
	for i := range exp.Entries {
		e := &exp.Entries[i]
		if e.Profile == "" {
			continue
		}
		raw, err := os.ReadFile(e.Profile)
		if err != nil {
			return exp, nil, fmt.Errorf("read profile: %w", err)
		}
		name := filepath.Base(e.Profile)
		if other, ok := files[name]; ok && !bytes.Equal(other, uperf.Filled(raw, getenv)) {
			return exp, nil, fmt.Errorf("two profiles are called %s: results could not tell them apart", name)
		}
		files[name] = uperf.Filled(raw, getenv)
		e.Profile = filepath.Join(result.ProfilesDir, name)
	}
	return exp, files, nil
}
