package explain

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// heads is how many elements of a folded line stand before the frames.
const heads = 4

// WriteFolded writes stacks as folded lines, which flame graph programs read:
//
//	cpu0;softirq;server;iperf3;entry_SYSCALL_64_after_hwframe;do_syscall_64 12
//
// The first four elements are the core, the context, the place and the process;
// frames follow, the root first; the number of samples is at the end.
func WriteFolded(w io.Writer, stacks []Stack) error { return writeFolded(w, "", stacks) }

// WriteFoldedUnder writes stacks without their cores, under a common root such
// as a network's name: for programs, not for ReadFolded.
func WriteFoldedUnder(w io.Writer, root string, stacks []Stack) error {
	return writeFolded(w, root, stacks)
}

func writeFolded(w io.Writer, root string, stacks []Stack) error {
	b := bufio.NewWriter(w)
	for _, s := range stacks {
		top := root
		if root == "" {
			top = fmt.Sprintf("cpu%d", s.CPU)
		}
		fmt.Fprintf(b, "%s;%s;%s;%s", top, s.Context, s.Place, clean(s.Process))
		for _, f := range s.Frames {
			b.WriteByte(';')
			b.WriteString(clean(f))
		}
		fmt.Fprintf(b, " %d\n", s.Count)
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("write stacks: %w", err)
	}
	return nil
}

// clean makes a name one element of a folded line: processes call themselves what they like.
func clean(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == ';' || r <= ' ' || r == 0x7f || r == '\uFFFD' {
			return '_'
		}
		return r
	}, name)
	if name == "" {
		return "_"
	}
	return name
}

// ReadFolded reads what WriteFolded wrote; name is used in errors.
func ReadFolded(name string, r io.Reader) ([]Stack, error) {
	var out []Stack
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, 1<<20)
	for n := 1; scan.Scan(); n++ {
		s, err := parseFolded(scan.Text())
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		out = append(out, s)
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return out, nil
}

func parseFolded(line string) (Stack, error) {
	text, number, ok := cutLast(line, ' ')
	if !ok {
		return Stack{}, fmt.Errorf("expected a stack, a space and a count, got %.60q", line)
	}
	count, err := strconv.ParseUint(number, 10, 32)
	if err != nil || count == 0 {
		return Stack{}, fmt.Errorf("count %.20q: expected a whole number above 0", number)
	}
	parts := strings.Split(text, ";")
	if len(parts) < heads || slices.Contains(parts, "") {
		return Stack{}, fmt.Errorf("expected cpuN;context;place;process;functions, got %.60q", text)
	}
	cpu, err := strconv.ParseUint(strings.TrimPrefix(parts[0], "cpu"), 10, 15)
	if err != nil || !strings.HasPrefix(parts[0], "cpu") {
		return Stack{}, fmt.Errorf("core %.20q: expected cpu0, cpu1 and so on", parts[0])
	}
	s := Stack{CPU: int(cpu), Context: Context(parts[1]), Place: Place(parts[2]), Process: parts[3], Count: count}
	if !slices.Contains(Contexts(), s.Context) {
		return Stack{}, fmt.Errorf("context %.20q: expected one of %v", parts[1], Contexts())
	}
	if !slices.Contains(Places(), s.Place) {
		return Stack{}, fmt.Errorf("place %.20q: expected one of %v", parts[2], Places())
	}
	if len(parts) > heads {
		s.Frames = parts[heads:]
	}
	return s, nil
}

func cutLast(s string, sep byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// Pack returns stacks as folded lines, compressed by gzip.
func Pack(stacks []Stack) ([]byte, error) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if err := errors.Join(WriteFolded(z, stacks), z.Close()); err != nil {
		return nil, fmt.Errorf("pack stacks: %w", err)
	}
	return out.Bytes(), nil
}

// Unpack reads what Pack returned; name is used in errors.
func Unpack(name string, packed []byte) ([]Stack, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("%s: expected folded stacks, compressed by gzip: %w", name, err)
	}
	return ReadFolded(name, io.LimitReader(z, maxFolded))
}

// maxFolded bounds what a small file may unpack to.
const maxFolded = 256 << 20
