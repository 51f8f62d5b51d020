package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/explain"
)

// Endings of a profile's two files.
const (
	recordEnd = ".json"
	stacksEnd = ".folded.gz"
)

// Profile keeps what was seen inside a trial's window: its record, and its stacks
// as folded lines. The record comes last, so that one that is there is whole.
func (r *Run) Profile(p explain.Profile) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("keep profile: %w", err)
		}
	}()
	dir := filepath.Join(r.Dir, ProfilesDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	path := filepath.Join(dir, fmt.Sprintf("%04d", p.Order))
	if len(p.Stacks) > 0 {
		packed, err := explain.Pack(p.Stacks)
		if err == nil {
			err = os.WriteFile(path+stacksEnd, packed, 0o644)
		}
		if err != nil {
			return err
		}
	}
	raw, err := json.MarshalIndent(p.Record, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path+recordEnd, append(raw, '\n'), 0o644)
}

// Profiles reads the profiles that a result directory holds; none is no error.
func Profiles(dir string) ([]explain.Profile, error) {
	var out []explain.Profile
	for _, name := range records(dir) {
		p, err := readProfile(filepath.Join(dir, ProfilesDir, name))
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func readProfile(path string) (p explain.Profile, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return p, fmt.Errorf("read profile: %w", err)
	}
	if err := json.Unmarshal(raw, &p.Record); err != nil {
		return p, config.JSONError(path, raw, fmt.Errorf("expected the JSON that pathwise bench --explain wrote: %w", err))
	}
	stacks := strings.TrimSuffix(path, recordEnd) + stacksEnd
	packed, err := os.ReadFile(stacks)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	} else if err != nil {
		return p, fmt.Errorf("read stacks: %w", err)
	}
	p.Stacks, err = explain.Unpack(stacks, packed)
	return p, err
}

// Explained reports whether trials of the result in dir were looked into.
func Explained(dir string) bool { return len(records(dir)) > 0 }

// records are the names of the records that a result directory holds, in order. The
// directory has the user's profiles of uperf too, whose names are no numbers.
func records(dir string) (out []string) {
	files, err := os.ReadDir(filepath.Join(dir, ProfilesDir))
	if err != nil {
		return nil
	}
	for _, f := range files {
		number, ok := strings.CutSuffix(f.Name(), recordEnd)
		if _, err := strconv.ParseUint(number, 10, 64); ok && err == nil {
			out = append(out, f.Name())
		}
	}
	return out
}
