package drill

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Names of the files in a result of drills.
const (
	ExperimentFile = "experiment.yaml"
	MachineFile    = "machine.json"
	LogFile        = "drills.jsonl"
	FiguresFile    = "figures.json"
)

var errFormat = errors.New("unknown format")

// Header is the first line of drills.jsonl.
type Header struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	Name    string    `json:"name"`
	Seed    uint64    `json:"seed"`
	Started time.Time `json:"started"`
	// Load average when the run started: figures of a busy machine are worse.
	Load float64 `json:"load_average"`
}

// format and version of drills.jsonl.
const (
	format  = "pathwise/drills"
	version = 1
)

// Log is drills.jsonl while samples are being added.
type Log struct {
	file *os.File
	Header
	// Done are the samples of earlier runs.
	Done []Sample
}

// Create begins a result in dir, which must be empty or new.
func Create(dir string, h Header, experiment []byte, machine any) (*Log, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create result: %w", err)
	}
	if found, err := os.ReadDir(dir); err != nil {
		return nil, fmt.Errorf("create result: %w", err)
	} else if len(found) > 0 {
		return nil, fmt.Errorf("create result in %s: %w: choose another --out, or go on with --resume", dir, errNotEmpty)
	}
	raw, err := json.MarshalIndent(machine, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode machine: %w", err)
	}
	for name, text := range map[string][]byte{ExperimentFile: experiment, MachineFile: append(raw, '\n')} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return nil, fmt.Errorf("create result: %w", err)
		}
	}
	h.Format, h.Version = format, version
	f, err := os.Create(filepath.Join(dir, LogFile))
	if err != nil {
		return nil, fmt.Errorf("create result: %w", err)
	}
	l := &Log{file: f, Header: h}
	return l, l.lines(h)
}

var errNotEmpty = errors.New("it is not empty")

// Result is a result of drills as it is on disk.
type Result struct {
	Header
	Samples []Sample
	// Experiment is the text of the file of drills.
	Experiment []byte
	// whole is how many bytes of the log are whole lines.
	whole int64
}

// Open reads a result. A line that a kill cut short is left out.
func Open(dir string) (Result, error) {
	var r Result
	path := filepath.Join(dir, LogFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		return r, fmt.Errorf("open result: %w", err)
	}
	whole := bytes.LastIndexByte(raw, '\n') + 1
	r.whole = int64(whole)
	if r.Header, r.Samples, err = Read(path, bytes.NewReader(raw[:whole])); err != nil {
		return r, err
	}
	if r.Experiment, err = os.ReadFile(filepath.Join(dir, ExperimentFile)); err != nil {
		return r, fmt.Errorf("open result: %w", err)
	}
	return r, nil
}

// Resume opens a result to add to it. A line that a kill cut short is dropped.
func Resume(dir string) (*Log, error) {
	r, err := Open(dir)
	if err != nil {
		return nil, err
	}
	l := &Log{Header: r.Header, Done: r.Samples}
	if l.file, err = os.OpenFile(filepath.Join(dir, LogFile), os.O_WRONLY, 0o644); err != nil {
		return nil, fmt.Errorf("open result: %w", err)
	}
	if err := l.file.Truncate(r.whole); err != nil {
		return nil, errors.Join(fmt.Errorf("open result: %w", err), l.file.Close())
	}
	_, err = l.file.Seek(0, io.SeekEnd)
	return l, err
}

// Write adds the samples of one repetition, all or none.
func (l *Log) Write(samples []Sample) error {
	all := make([]any, len(samples))
	for i, s := range samples {
		all[i] = s
	}
	return l.lines(all...)
}

func (l *Log) lines(values ...any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, v := range values {
		if err := enc.Encode(v); err != nil {
			return fmt.Errorf("encode sample: %w", err)
		}
	}
	if _, err := l.file.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write samples: %w", err)
	}
	return nil
}

// Close closes the file.
func (l *Log) Close() error { return l.file.Close() }

// Read reads drills.jsonl; name is used in errors.
func Read(name string, r io.Reader) (h Header, samples []Sample, err error) {
	in := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := readLine(in)
		if len(bytes.TrimSpace(line)) == 0 {
			if errors.Is(err, io.EOF) {
				break
			}
			return h, nil, fmt.Errorf("%s:%d: expected a JSON object: %w", name, n, errors.Join(err, errFormat))
		}
		if n == 1 {
			if err := strict(line, &h); err != nil {
				return h, nil, fmt.Errorf("%s:1: %w", name, err)
			}
			if h.Format != format || h.Version != version {
				return h, nil, fmt.Errorf("%s:1: format %q version %d: expected %q version %d", name, h.Format, h.Version, format,
					version)
			}
			continue
		}
		var s Sample
		if err := strict(line, &s); err != nil {
			return h, nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		samples = append(samples, s)
	}
	if h.Format == "" {
		return h, nil, fmt.Errorf("%s:1: the header is missing: expected format %q", name, format)
	}
	return h, samples, nil
}

// longest line of a result, in bytes: a sample's is some kB.
const longest = 16 << 20

// readLine reads up to and with the next line break, and no more than longest.
func readLine(in *bufio.Reader) ([]byte, error) {
	var out []byte
	for {
		part, err := in.ReadSlice('\n')
		out = append(out, part...)
		if len(out) > longest {
			return nil, fmt.Errorf("line is longer than %d bytes", longest)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return out, err
		}
	}
}

func strict(line []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}
