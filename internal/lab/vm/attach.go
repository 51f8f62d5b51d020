package vm

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"pathwise.dev/pathwise/internal/lab/netns"
	"pathwise.dev/pathwise/internal/lab/network"
	"pathwise.dev/pathwise/internal/topo"
)

// Streams that a program in a machine has on the host.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Kinds of frames: what a program reads and writes, and how it ended. A frame is its
// kind, the length of its content in four bytes, and the content.
const (
	frameStdin  byte = 'i' // empty at its end
	frameStdout byte = 'o'
	frameStderr byte = 'e'
	frameExit   byte = 'x' // the exit code, four bytes
	frameError  byte = '!' // why it could not be started
)

const mostFrame = 1 << 20

// order is what is to be run, and where.
type order struct {
	Netns string   `json:"netns"`
	Argv  []string `json:"argv"`
}

// Attach runs a program in a namespace of the virtual machine that the host is, with
// its streams here, and returns its exit code.
func Attach(ctx context.Context, h topo.Host, ns string, argv []string, s Streams) (int, error) {
	_, addr := addresses(h.Index)
	conn, err := dial(ctx, h.Control, netip.AddrPortFrom(addr.Addr(), port))
	if err != nil {
		return 0, fmt.Errorf("reach virtual machine: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	raw, err := json.Marshal(order{ns, argv})
	if err != nil {
		return 0, fmt.Errorf("encode request: %w", err)
	}
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: vm\r\nContent-Length: %d\r\n\r\n%s", attachPath, len(raw),
		raw); err != nil {
		return 0, fmt.Errorf("ask virtual machine: %w", err)
	}
	if s.Stdin != nil {
		// Goes on until there is no more to read or nobody to write to.
		go func() { _ = sendAll(&sender{w: conn}, frameStdin, s.Stdin, true) }()
	}
	code, err := receive(bufio.NewReader(conn), s)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return code, err
}

// receive writes what the program writes until it has ended.
func receive(r io.Reader, s Streams) (int, error) {
	for {
		kind, content, err := readFrame(r)
		if err != nil {
			return 0, fmt.Errorf("read from virtual machine: %w", err)
		}
		switch kind {
		case frameStdout:
			_, err = s.Stdout.Write(content)
		case frameStderr:
			_, err = s.Stderr.Write(content)
		case frameExit:
			if len(content) != 4 {
				return 0, errors.New("read from virtual machine: bad exit code")
			}
			return int(binary.BigEndian.Uint32(content)), nil
		case frameError:
			return 0, errors.New(string(content))
		default:
			err = fmt.Errorf("read from virtual machine: unknown frame %q", kind)
		}
		if err != nil {
			return 0, err
		}
	}
}

func readFrame(r io.Reader) (byte, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > mostFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes: expected %d at most", n, mostFrame)
	}
	content := make([]byte, n)
	_, err := io.ReadFull(r, content)
	return head[0], content, err
}

// sender writes frames, one at a time.
type sender struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *sender) send(kind byte, content []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.w.Write(append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(content))), content...))
	return err
}

// sendAll sends what r gives, and at its end an empty frame where that has a meaning.
func sendAll(s *sender, kind byte, r io.Reader, tell bool) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if err := s.send(kind, buf[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			if tell {
				return s.send(kind, nil)
			}
			return nil
		}
	}
}

// attach is the machine's side of Attach.
func attach(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostBody)).Decode(&o); err != nil || len(o.Argv) == 0 {
		http.Error(w, "expected a program", http.StatusBadRequest)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	out := &sender{w: conn}
	code, err := runAttached(o, buffered.Reader, out, conn)
	// Errors of sending are the client's, which has gone.
	if err != nil {
		_ = out.send(frameError, []byte(err.Error()))
		return
	}
	_ = out.send(frameExit, binary.BigEndian.AppendUint32(nil, uint32(code)))
}

// runAttached runs the program to its end, or until the client has gone.
func runAttached(o order, in *bufio.Reader, out *sender, conn net.Conn) (int, error) {
	path, err := network.FindProgram(o.Argv[0])
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(path, o.Argv[1:]...)
	cmd.Env = os.Environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 0, fmt.Errorf("make pipe: %w", err)
	}
	cmd.Stdout, cmd.Stderr = frames{out, frameStdout}, frames{out, frameStderr}
	if err := netns.Start(o.Netns, cmd); err != nil {
		return 0, fmt.Errorf("start %s: %w", o.Argv[0], err)
	}
	done := make(chan struct{})
	go func() {
		feed(in, stdin)
		select {
		case <-done:
		default: // the client has gone
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	}()
	err = cmd.Wait()
	close(done)
	_ = conn.SetReadDeadline(time.Now()) // ends feed
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code, nil
	}
	return 0, err
}

// feed gives the program what the client sends, until there is no client.
func feed(in io.Reader, stdin io.WriteCloser) {
	defer stdin.Close()
	for {
		kind, content, err := readFrame(in)
		if err != nil {
			return
		}
		if kind == frameStdin && len(content) == 0 {
			stdin.Close() // the program has all; the client stays to listen
			continue
		}
		_, _ = stdin.Write(content) // the program may read no more
	}
}

// frames is a stream of the program's.
type frames struct {
	out  *sender
	kind byte
}

func (f frames) Write(p []byte) (int, error) {
	if err := f.out.send(f.kind, p); err != nil {
		return 0, err
	}
	return len(p), nil
}
