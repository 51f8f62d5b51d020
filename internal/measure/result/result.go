// Package result is a result directory: what a run of an experiment leaves, and
// all that a report, a comparison or a resumed run needs.
//
//	experiment.yaml   the experiment with every default filled in
//	networks/         CNI configuration lists that the user brought
//	machine.json      what it was measured on
//	machine-*.json    the same of guests on which parts of it ran
//	samples.jsonl     the trials, one checked line each
//	report.html       the report, once the run is over
//
// It knows where things lie, not what they mean.
package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/config"
	"pathwise.dev/pathwise/internal/measure/machine"
	"pathwise.dev/pathwise/internal/sample"
)

// Names of the files in a result directory.
const (
	ExperimentFile = "experiment.yaml"
	MachineFile    = "machine.json"
	SamplesFile    = "samples.jsonl"
	ReportFile     = "report.html"
	NetworksDir    = "networks"
	ProfilesDir    = "profiles"
)

// Result is what a result directory holds.
type Result struct {
	Dir        string
	Samples    sample.Results
	Machine    map[string]any
	Experiment string

	sum  string
	good int64
}

// Open reads the result in dir. Errors name the file and line.
func Open(dir string) (Result, error) {
	r, err := read(dir)
	if err != nil {
		return Result{}, err
	}
	return r, nil
}

// read returns what it could read also alongside an error.
func read(dir string) (Result, error) {
	r := Result{Dir: dir}
	path := filepath.Join(dir, SamplesFile)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("%s: no result there: expected a directory with %s, as \"pathwise bench --out\" makes it", dir, SamplesFile)
	} else if err != nil {
		return r, fmt.Errorf("open result: %w", err)
	}
	defer f.Close()
	r.Samples, r.sum, r.good, err = sample.Read(path, f)
	if err != nil {
		return r, err
	}
	return r, r.readBeside()
}

func (r *Result) readBeside() error {
	raw, err := os.ReadFile(filepath.Join(r.Dir, ExperimentFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read experiment: %w", err)
	}
	r.Experiment = string(raw)
	path := filepath.Join(r.Dir, MachineFile)
	raw, err = os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("read machine record: %w", err)
	}
	if err := json.Unmarshal(raw, &r.Machine); err != nil {
		return config.JSONError(path, raw, fmt.Errorf("expected the JSON that pathwise bench wrote: %w", err))
	}
	return r.readGuests()
}

// readGuests adds the records of guests to the machine's, as "guest NAME".
func (r *Result) readGuests() error {
	const before, after = "machine-", ".json"
	paths, _ := filepath.Glob(filepath.Join(r.Dir, before+"*"+after)) // the pattern is well formed
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read machine record: %w", err)
		}
		var record map[string]any
		if err := json.Unmarshal(raw, &record); err != nil {
			return config.JSONError(path, raw, fmt.Errorf("expected the JSON that pathwise bench wrote: %w", err))
		}
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), before), after)
		r.Machine["guest "+name] = record
	}
	return nil
}

// Run is a result directory that trials are being added to.
type Run struct {
	Dir string
	Log *sample.Writer
	// Done are the trials of earlier sessions.
	Done []sample.Trial
	Seed uint64
	file *os.File
}

// Guest records the machine that a guest's part of the run was measured on.
func (r *Run) Guest(name string, record machine.Record) error {
	raw, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return fmt.Errorf("encode machine record: %w", err)
	}
	if err := os.WriteFile(filepath.Join(r.Dir, "machine-"+name+".json"), append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("write machine record: %w", err)
	}
	return nil
}

// Plan is what a new result is made of.
type Plan struct {
	Header     sample.Header
	Experiment []byte
	// Networks are the user's configuration lists by file name.
	Networks map[string][]byte
	// Profiles are the files of uperf's profiles, by file name.
	Profiles map[string][]byte
	Machine  machine.Record
}

// least free space, in bytes, that a run is started with.
const least = 64 << 20

// Create makes a new result directory; one that is not empty is refused.
func Create(dir string, p Plan) (*Run, error) {
	if err := CheckSpace(existing(dir)); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create result: %w", err)
	}
	if left, err := os.ReadDir(dir); err != nil {
		return nil, fmt.Errorf("create result: %w", err)
	} else if len(left) > 0 {
		return nil, fmt.Errorf("%s is not empty: name another with --out, or continue the run in it with --resume", dir)
	}
	record, err := json.MarshalIndent(p.Machine, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode machine record: %w", err)
	}
	files := map[string][]byte{ExperimentFile: p.Experiment, MachineFile: append(record, '\n')}
	for name, raw := range p.Networks {
		files[NetworksDir+"/"+name] = raw
	}
	for name, raw := range p.Profiles {
		files[ProfilesDir+"/"+name] = raw
	}
	for name := range files {
		if !filepath.IsLocal(name) {
			return nil, fmt.Errorf("create result: file %q would be outside of it", name)
		}
	}
	for name, raw := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, fmt.Errorf("create result: %w", err)
		}
		if err := os.WriteFile(path, raw, 0o644); err != nil {
			return nil, fmt.Errorf("create result: %w", err)
		}
	}
	f, err := os.OpenFile(filepath.Join(dir, SamplesFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("create result: %w", err)
	}
	log, err := sample.NewWriter(synced{f}, p.Header)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Run{Dir: dir, Log: log, Seed: p.Header.Seed, file: f}, nil
}

// Resume opens a result to add to it. A last line that a kill cut short is
// dropped: its trial is run again.
func Resume(dir string) (*Run, error) {
	r, err := read(dir)
	if err != nil && !errors.Is(err, sample.ErrTruncated) {
		return nil, err
	}
	if r.Samples.Header.Format == "" {
		return nil, fmt.Errorf("%s: the run was interrupted before its first line: remove the directory and start again", dir)
	}
	if r.Samples.Footer != nil {
		return nil, fmt.Errorf("%s: the run is finished: show it with \"pathwise report %s\"", dir, dir)
	}
	if err := CheckSpace(dir); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, SamplesFile), os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open result: %w", err)
	}
	if err := f.Truncate(r.good); err != nil {
		return nil, errors.Join(fmt.Errorf("drop unfinished line: %w", err), f.Close())
	}
	if _, err := f.Seek(r.good, 0); err != nil {
		return nil, errors.Join(fmt.Errorf("open result: %w", err), f.Close())
	}
	return &Run{Dir: dir, Log: sample.Resume(synced{f}, r.sum), Done: r.Samples.Trials, Seed: r.Samples.Header.Seed,
		file: f}, nil
}

// Close closes the samples file.
func (r *Run) Close() error { return r.file.Close() }

// synced makes each line reach the disk before the next trial starts: a trial
// costs seconds, a sync milliseconds.
type synced struct{ f *os.File }

func (s synced) Write(p []byte) (int, error) {
	n, err := s.f.Write(p)
	if err != nil {
		return n, err
	}
	return n, s.f.Sync()
}

// existing is dir, or the nearest directory above it that is there.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// CheckSpace returns an error when the file system of dir is all but full: a
// run would lose what it measures.
func CheckSpace(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("look at free space of %s: %w", dir, err)
	}
	if free := st.Bavail * uint64(st.Bsize); free < least {
		return fmt.Errorf("%s has %d MB free: a run needs %d MB there", dir, free>>20, least>>20)
	}
	return nil
}
