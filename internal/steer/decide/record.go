package decide

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// Format and Version name the record format in its first line.
const (
	Format  = "pathwise/evidence"
	Version = 1
	// longest line that is read, far beyond any pair's paths.
	longest = 1 << 20
)

// Header is the first line of a record file.
type Header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Name    string `json:"name,omitempty"`
	// Unit of the truth and the priors, for people: "bit/s", "ops/s".
	Unit string `json:"unit,omitempty"`
	// Loss is what a switch costs, in seconds at the rate of the path that is
	// left; 0 takes what each record's evidence says.
	Loss float64 `json:"loss_s,omitempty"`
	// Note for people: where the records come from.
	Note string `json:"note,omitempty"`
}

// Record is what was known of a pair at a time, and what the time after it
// would have given on each path.
type Record struct {
	// For is how long the record is valid.
	For time.Duration `json:"for_ns"`
	// Truth is the rate that each path would have given; a path that is
	// missing is not known.
	Truth    map[string]float64 `json:"truth,omitempty"`
	Evidence PairEvidence       `json:"evidence"`
}

// Recording is a file of records.
type Recording struct {
	Header  Header
	Records []Record
	// Truncated: the last line did not end, its writer was stopped; it was left out.
	Truncated bool
}

// ReadRecording reads a record file and checks every line. Errors begin with
// name:line: and name the key.
func ReadRecording(name string, r io.Reader) (Recording, error) {
	var out Recording
	in := bufio.NewReader(r)
	ends := map[string]time.Duration{}
	for line := 1; ; line++ {
		text, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return out, fmt.Errorf("%s:%d: read: %w", name, line, err)
		}
		last := errors.Is(err, io.EOF)
		if len(bytes.TrimSpace(text)) > 0 {
			err := out.line(line, text, ends)
			if err != nil && last && line > 1 && !json.Valid(text) {
				out.Truncated = true
				break
			}
			if err != nil {
				return out, fmt.Errorf("%s:%d: %w", name, line, err)
			}
		}
		if last {
			break
		}
	}
	if out.Header.Format == "" {
		return out, fmt.Errorf("%s:1: format is missing: expected %q", name, Format)
	}
	return out, nil
}

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

// line takes in one line: the header first, then records.
func (rec *Recording) line(n int, text []byte, ends map[string]time.Duration) error {
	if n == 1 {
		if err := decode(text, &rec.Header); err != nil {
			return err
		}
		return rec.Header.check()
	}
	if rec.Header.Format == "" {
		return keyError("format", "is missing: the first line must be the header")
	}
	var r Record
	if err := decode(text, &r); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	pair := r.Evidence.Pair
	if end, ok := ends[pair]; ok && r.Evidence.At < end {
		return keyError("evidence.at_ns", fmt.Sprintf("is %d, before the pair's last record ends at %d", r.Evidence.At, end))
	}
	ends[pair] = r.Evidence.At + r.For
	rec.Records = append(rec.Records, r)
	return nil
}

// decode wants one JSON value, without unknown keys.
func decode(text []byte, to any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return fmt.Errorf("%s is a %s: expected %s", wrong.Field, wrong.Value, wrong.Type)
		}
		if field, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return fmt.Errorf("%s is no key of the format", field)
		}
		return fmt.Errorf("no JSON: %w", err)
	}
	if dec.More() {
		return errors.New("more than one value on the line")
	}
	return nil
}

func (h Header) check() error {
	switch {
	case h.Format != Format:
		return keyError("format", fmt.Sprintf("is %q: expected %q", h.Format, Format))
	case h.Version < 1 || h.Version > Version:
		return keyError("version", fmt.Sprintf("is %d: this program reads 1 to %d", h.Version, Version))
	}
	return checkFigures("", map[string]float64{"loss_s": h.Loss})
}

func (r Record) check() error {
	const longestEpoch = 365 * 24 * time.Hour
	switch {
	case r.For <= 0 || r.For > longestEpoch:
		return keyError("for_ns", fmt.Sprintf("is %d: expected over 0 and up to a year", r.For))
	case r.Evidence.At > 1<<61:
		return keyError("evidence.at_ns", "is too large")
	}
	if err := r.Evidence.Check(); err != nil {
		return fmt.Errorf("evidence.%w", err)
	}
	var networks []string
	for n := range r.Truth {
		networks = append(networks, n)
	}
	slices.Sort(networks)
	for _, n := range networks {
		if v := r.Truth[n]; v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			return keyError("truth."+n, fmt.Sprintf("is %v: expected a rate of 0 or more", v))
		}
		if _, ok := r.Evidence.path(n); !ok {
			return keyError("truth."+n, "names none of the paths")
		}
	}
	return nil
}

// WriteHeader writes the first line of a record file.
func WriteHeader(w io.Writer, h Header) error {
	h.Format, h.Version = Format, Version
	return writeLine(w, h)
}

// WriteRecord writes one record as a line.
func WriteRecord(w io.Writer, r Record) error {
	if err := r.check(); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return writeLine(w, r)
}

// WriteRecording writes a whole file.
func WriteRecording(w io.Writer, rec Recording) error {
	if err := WriteHeader(w, rec.Header); err != nil {
		return err
	}
	for _, r := range rec.Records {
		if err := WriteRecord(w, r); err != nil {
			return err
		}
	}
	return nil
}

func writeLine(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	if _, err := w.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return nil
}
