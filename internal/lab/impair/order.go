package impair

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// LineArgument makes the executable a delay line.
const LineArgument = "delay-line"

// dir is where records, sockets and logs lie.
func (m Impairer) dir() string { return filepath.Join(filepath.Dir(m.Pins), "impair") }

// line has the port's delay line do what is planned: it starts one that is not
// there, and ends one that is not wanted.
func (m Impairer) line(p Port, want plan) error {
	o := orders{In: want[intoPod].line, Out: want[outOfPod].line}
	o.Stop = o.In == nil && o.Out == nil
	_, err := m.tell(p, o)
	if !errors.Is(err, errNoLine) || o.Stop {
		if errors.Is(err, errNoLine) {
			return nil
		}
		return err
	}
	if err := m.start(p); err != nil {
		return err
	}
	_, err = m.tell(p, o)
	return err
}

// mostMessage bounds what a line and who orders it say to each other, in bytes.
const mostMessage = 4096

// errNoLine: no delay line runs for the port.
var errNoLine = errors.New("no delay line runs")

// tell gives a line orders and waits until they are done; of a stop, until what
// it held has gone on.
func (m Impairer) tell(p Port, o orders) (a answer, err error) {
	d, err := os.Open(m.dir())
	if errors.Is(err, os.ErrNotExist) {
		return a, errNoLine
	} else if err != nil {
		return a, fmt.Errorf("order delay line: %w", err)
	}
	defer d.Close()
	path := fmt.Sprintf("/proc/self/fd/%d/%s.sock", d.Fd(), p.name()) // see listen
	c, err := net.DialTimeout("unix", path, patience)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
		return a, errNoLine
	} else if err != nil {
		return a, fmt.Errorf("order delay line: %w", err)
	}
	defer c.Close()
	in := json.NewDecoder(io.LimitReader(c, mostMessage))
	err = c.SetDeadline(time.Now().Add(patience))
	if err == nil {
		err = json.NewEncoder(c).Encode(o)
	}
	if err == nil {
		err = in.Decode(&a)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) {
		return a, errNoLine // it has just ended
	}
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err == nil && o.Stop {
		// It keeps the connection until it has ended.
		if _, end := io.Copy(io.Discard, c); errors.Is(end, os.ErrDeadlineExceeded) {
			err = end
		}
	}
	if err != nil {
		return a, fmt.Errorf("order delay line: %w", err)
	}
	return a, nil
}

// start starts the port's line, which stays when this process ends.
func (m Impairer) start(p Port) error {
	if err := os.MkdirAll(m.dir(), 0o700); err != nil {
		return fmt.Errorf("start delay line: %w", err)
	}
	log, err := os.Create(filepath.Join(m.dir(), p.name()+".log"))
	if err != nil {
		return fmt.Errorf("start delay line: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(m.Line[0], append(m.Line[1:len(m.Line):len(m.Line)], p.Netns, p.Dev, p.Host, m.dir())...)
	cmd.Env = append(os.Environ(), m.Mark)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start delay line: %w", err)
	}
	if err := netns.Start(p.Host, cmd); err != nil {
		return fmt.Errorf("start delay line: %w", err)
	}
	up, err := bufio.NewReader(io.LimitReader(out, mostMessage)).ReadString('\n')
	if up == "ready\n" {
		go func() { _ = cmd.Wait() }() // it ends when it is told to, or its port goes
		return nil
	}
	raw, readErr := os.ReadFile(log.Name())
	return errors.Join(fmt.Errorf("start delay line: %w: %s", errors.Join(err, cmd.Wait()),
		strings.TrimSpace(string(raw))), readErr)
}

// Force is an impairment that is in force.
type Force struct {
	Impairment
	// By are the means by which it acts, of ByProgram, ByShaper, ByNetem, ByLine.
	By []string `json:"by"`
	// Index is that of the pod's interface.
	Index int `json:"index"`
	// Ended says that the delay line has ended before it was told to: packets go
	// past it. In and Out are what went over it.
	Ended bool    `json:"ended,omitempty"`
	In    *Counts `json:"line_in,omitempty"`
	Out   *Counts `json:"line_out,omitempty"`
}

// record notes what is in force; nothing leaves no record.
func (m Impairer) record(p Port, f Force) error {
	path := filepath.Join(m.dir(), p.name()+".json")
	if f.Impairment == (Impairment{}) {
		for _, old := range []string{path, filepath.Join(m.dir(), p.name()+".sock"),
			filepath.Join(m.dir(), p.name()+".log")} {
			if err := os.Remove(old); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("remove record: %w", err)
			}
		}
		return nil
	}
	raw, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encode record: %w", err)
	}
	if err := os.MkdirAll(m.dir(), 0o700); err != nil {
		return fmt.Errorf("record impairment: %w", err)
	}
	if err := os.WriteFile(path+".tmp", raw, 0o600); err != nil {
		return fmt.Errorf("record impairment: %w", err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("record impairment: %w", err)
	}
	return nil
}

// InForce tells what Apply has done to the port; false is nothing. Nothing is in
// force on an interface that was made again since.
func (m Impairer) InForce(p Port) (Force, bool, error) {
	raw, err := os.ReadFile(filepath.Join(m.dir(), p.name()+".json"))
	if errors.Is(err, os.ErrNotExist) {
		return Force{}, false, nil
	}
	var f Force
	if err == nil {
		err = json.Unmarshal(raw, &f)
	}
	if err != nil {
		return f, false, fmt.Errorf("read impairment of %s in %s: %w", p.Dev, p.Netns, err)
	}
	if w, err := p.wire(); err != nil || w.near != f.Index {
		return Force{}, false, nil
	}
	if !slices.Contains(f.By, ByLine) {
		return f, true, nil
	}
	a, err := m.tell(p, orders{Ask: true})
	if errors.Is(err, errNoLine) {
		f.Ended = true
		return f, true, nil
	}
	f.In, f.Out = &a.In, &a.Out
	return f, true, err
}
