package sample

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Format and Version name the result format in its first line.
const (
	Format  = "pathwise/samples"
	Version = 1
)

// Errors that Read wraps; each comes with the file's line.
var (
	// ErrTruncated: the last line does not end; the run was interrupted while it wrote.
	ErrTruncated = errors.New("truncated")
	// ErrChanged: a line's checksum does not fit its content or the lines before it.
	ErrChanged = errors.New("changed")
	// ErrNewer: the format is newer than this program.
	ErrNewer = errors.New("newer format")
)

// Header is the first line of samples.jsonl.
type Header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Experiment is the experiment's name.
	Experiment string `json:"experiment"`
	// Seed of the random order.
	Seed uint64 `json:"seed"`
	// Planned is the least number of trials of a whole run.
	Planned int `json:"planned"`
	// Raced: repetitions went to what was open, and were looked at while they ran.
	Raced bool `json:"raced,omitempty"`
	// Warnings about the run as a whole, such as a busy machine at its start.
	Warnings []Warning `json:"warnings,omitempty"`
}

// Footer is the last line of a result whose run ended by its stopping rule.
type Footer struct {
	Trials int `json:"trials"`
	// Wall time of the run in seconds, all sessions together.
	Wall float64 `json:"wall"`
	// Warnings about the run as a whole: cells whose interval stayed wide.
	Warnings []Warning `json:"warnings,omitempty"`
}

// Results is what a samples.jsonl holds.
type Results struct {
	Header Header
	Trials []Trial
	// Footer is nil while the run is unfinished.
	Footer *Footer
}

// line is one line of the file: exactly one of the first three fields is set.
type line struct {
	Header *Header `json:"header,omitempty"`
	Trial  *Trial  `json:"trial,omitempty"`
	Footer *Footer `json:"footer,omitempty"`
	// Sum chains the lines: 16 hex digits of SHA-256 over the previous sum
	// and this line without its sum. It finds damage and edits; it is no signature.
	Sum string `json:"sum"`
}

// Writer appends checked lines.
type Writer struct {
	w    io.Writer
	prev string
}

// NewWriter starts a new file with its header line.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	h.Format, h.Version = Format, Version
	out := &Writer{w: w}
	return out, out.write(line{Header: &h})
}

// Resume returns a Writer that appends after what Read returned as sum.
func Resume(w io.Writer, sum string) *Writer { return &Writer{w: w, prev: sum} }

// Trial appends one trial in a single write.
func (w *Writer) Trial(t Trial) error { return w.write(line{Trial: &t}) }

// Footer appends the line that marks a finished run.
func (w *Writer) Footer(f Footer) error { return w.write(line{Footer: &f}) }

func (w *Writer) write(l line) error {
	body, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode sample: %w", err)
	}
	sum := chain(w.prev, body)
	// body ends in `"sum":""}`: the sum is put where its empty place is.
	out := append(body[:len(body)-2], sum+"\"}\n"...)
	if _, err := w.w.Write(out); err != nil {
		return fmt.Errorf("write sample: %w", err)
	}
	w.prev = sum
	return nil
}

func chain(prev string, body []byte) string {
	h := sha256.New()
	io.WriteString(h, prev)
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// maxLine bounds one line of a result: a trial with its histogram is a few kB.
const maxLine = 16 << 20

// Read decodes a samples.jsonl. name is used in errors, which all begin
// "name:line:". It returns what it could read before an error, the checksum
// of the last good line and the offset after it, for Resume.
func Read(name string, r io.Reader) (res Results, sum string, good int64, err error) {
	br := bufio.NewReaderSize(r, 64<<10)
	for n := 1; ; n++ {
		raw, err := readLine(br)
		if errors.Is(err, io.EOF) && len(raw) == 0 {
			if n == 1 {
				return res, sum, good, fmt.Errorf("%s:1: empty file: expected the header of a %s file", name, Format)
			}
			return res, sum, good, nil
		}
		if err != nil {
			return res, sum, good, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		next, err := res.add(n, raw, sum)
		if err != nil {
			return res, sum, good, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		sum = next
		good += int64(len(raw))
	}
}

// readLine returns one line with its newline.
func readLine(br *bufio.Reader) ([]byte, error) {
	var out []byte
	for {
		part, err := br.ReadSlice('\n')
		out = append(out, part...)
		switch {
		case len(out) > maxLine:
			return nil, fmt.Errorf("line is longer than %d bytes: not a %s file", maxLine, Format)
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(out) > 0:
			return nil, fmt.Errorf("%w: the last line does not end; continue the run with --resume", ErrTruncated)
		default:
			return out, err
		}
	}
}

// add checks and stores line n and returns its checksum.
func (res *Results) add(n int, raw []byte, prev string) (string, error) {
	var l line
	dec := json.NewDecoder(bytes.NewReader(raw))
	if err := dec.Decode(&l); err != nil {
		return "", fmt.Errorf("not a line of a %s file: %w", Format, err)
	}
	if n == 1 {
		if l.Header == nil || l.Header.Format != Format {
			return "", fmt.Errorf("key header.format: expected %q", Format)
		}
		if l.Header.Version > Version {
			return "", fmt.Errorf("key header.version: %w: file has %d, this pathwise reads up to %d; use a newer pathwise",
				ErrNewer, l.Header.Version, Version)
		}
	}
	if err := checkSum(raw, l.Sum, prev); err != nil {
		return "", err
	}
	switch {
	case n == 1:
		res.Header = *l.Header
	case l.Trial != nil && res.Footer == nil:
		res.Trials = append(res.Trials, *l.Trial)
	case l.Footer != nil && res.Footer == nil:
		res.Footer = l.Footer
	default:
		return "", errors.New("expected a trial, or one footer at the end")
	}
	return l.Sum, nil
}

func checkSum(raw []byte, sum, prev string) error {
	body, ok := bytes.CutSuffix(raw, []byte(sum+"\"}\n"))
	if !ok || len(sum) != 16 {
		return fmt.Errorf("key sum: expected 16 hex digits at the end of the line")
	}
	if chain(prev, append(body[:len(body):len(body)], `"}`...)) != sum {
		return fmt.Errorf("key sum: %w: the line, or one before it, is not what was measured", ErrChanged)
	}
	return nil
}
