package limit

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"pathwise.dev/pathwise/internal/explain"
	"pathwise.dev/pathwise/internal/lab/sockdiag"
)

// flowKey names one end of a connection.
type flowKey struct {
	pod int
	id  uint64
}

// seen is one end of a connection as it was seen.
type seen struct {
	pod         int
	begin, last time.Time
	// first is zero where it was opened in the window.
	first, now sockdiag.Socket
	// send and receive are the largest that its buffers were.
	send, receive uint32
}

// look reads the pods' connections: the first time those that are there already.
func (w *Watch) look(first bool) {
	for i, p := range w.pods {
		at := time.Now()
		err := sockdiag.Each(p.Name, func(s sockdiag.Socket) {
			key := flowKey{i, s.ID}
			f := w.flows[key]
			if f == nil {
				f = &seen{pod: i, begin: w.began}
				if first {
					f.begin, f.first = at, s
				}
				w.flows[key] = f
			}
			f.now, f.last = s, at
			f.send, f.receive = max(f.send, s.SendBuffer), max(f.receive, s.ReceiveBuffer)
		})
		if err != nil {
			w.unread("connections", err)
		}
	}
}

// mostFlows are kept of a trial, those with most bytes.
const mostFlows = 64

// carried is what connections did in the window, those that sent most first.
func (w *Watch) carried() (out []explain.Flow) {
	for _, f := range w.flows {
		if e, ok := f.flow(w.pods, w.peer(f)); ok {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b explain.Flow) int {
		switch {
		case a.Bytes > b.Bytes:
			return -1
		case a.Bytes < b.Bytes:
			return 1
		}
		return 0
	})
	return out[:min(len(out), mostFlows)]
}

// peer is a connection's other end, told by its ports: addresses may be translated
// on the way. nil where it is not seen.
func (w *Watch) peer(f *seen) *seen {
	for _, o := range w.flows {
		if o != f && o.now.Local.Port() == f.now.Remote.Port() && o.now.Remote.Port() == f.now.Local.Port() {
			return o
		}
	}
	return nil
}

// flow is what one end did as a sender; ok where it sent anything.
func (f *seen) flow(pods []pod, peer *seen) (e explain.Flow, ok bool) {
	a, z := f.first, f.now
	e = explain.Flow{
		Place: pods[f.pod].Place, Seconds: f.last.Sub(f.begin).Seconds(), Bytes: z.BytesAcked - a.BytesAcked,
		Busy: (z.Busy - a.Busy).Seconds(), ByWindow: (z.ByWindow - a.ByWindow).Seconds(),
		ByBuffer: (z.ByBuffer - a.ByBuffer).Seconds(), Segments: uint64(z.SegmentsOut - a.SegmentsOut),
		Again: uint64(z.Retransmits - a.Retransmits), RTT: z.SRTT.Seconds(), MinRTT: z.MinRTT.Seconds(),
		Send: float64(f.send), SendMost: most(f.send, pods[f.pod].send),
		Congestion: float64(z.Window) * float64(z.SegmentSize),
	}
	// The kernel's "no limit" is the largest of an unsigned long.
	if z.MaxPacing > 0 && z.MaxPacing < math.MaxUint32 {
		e.Pacing = 8 * float64(z.MaxPacing)
	}
	if peer != nil {
		e.Receive, e.ReceiveMost = float64(peer.receive), most(peer.receive, pods[peer.pod].receive)
	}
	return e, e.Bytes > 0 && e.Seconds > 0
}

// most is what a buffer may grow to: the kernel lets it grow up to the limit unless
// the program has set its size, as it has where the buffer is smaller than those
// that it begins with (tcp(7), tcp_rmem and tcp_wmem).
func most(size uint32, limits [2]float64) float64 {
	if s := float64(size); s < limits[0] || limits[1] == 0 {
		return s
	}
	return limits[1]
}

// readBuffer reads what buffers of the thread's namespace begin with and may grow to:
// tcp_rmem or tcp_wmem.
func readBuffer(name string) (out [2]float64, err error) {
	raw, err := os.ReadFile("/proc/sys/net/ipv4/" + name)
	if err != nil {
		return out, fmt.Errorf("read %s: %w", name, err)
	}
	f := strings.Fields(string(raw))
	if len(f) != 3 {
		return out, fmt.Errorf("read %s: expected three figures, got %.40q", name, raw)
	}
	for i := range out {
		n, err := strconv.ParseUint(f[i+1], 10, 32)
		if err != nil {
			return out, fmt.Errorf("read %s: %w", name, err)
		}
		out[i] = float64(n)
	}
	return out, nil
}

// datagrams is what a namespace's UDP has counted so far.
type datagrams struct{ received, noRoom uint64 }

// openDatagrams opens the thread's namespace's counters, to be read again from anywhere. A kernel may lack IPv6.
func openDatagrams() (out []*os.File) {
	for _, name := range []string{"snmp", "snmp6"} {
		if f, err := os.Open("/proc/thread-self/net/" + name); err == nil {
			out = append(out, f)
		}
	}
	return out
}

func (w *Watch) readDatagrams(p pod) (sum datagrams) {
	for _, f := range p.files {
		_, err := f.Seek(0, io.SeekStart)
		var raw []byte
		if err == nil {
			raw, err = io.ReadAll(f)
		}
		var d datagrams
		if err == nil {
			d, err = parseDatagrams(raw)
		}
		if err != nil {
			w.unread("datagrams", err)
		}
		sum.received, sum.noRoom = sum.received+d.received, sum.noRoom+d.noRoom
	}
	return sum
}

// parseDatagrams reads the text of /proc/net/snmp, in which a line of names comes
// before one of figures, or of snmp6, which has a name and a figure in each line.
func parseDatagrams(raw []byte) (d datagrams, err error) {
	var names []string
	scan := bufio.NewScanner(bytes.NewReader(raw))
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		f := strings.Fields(scan.Text())
		switch {
		case len(f) == 2:
			err = d.add(strings.Replace(f[0], "Udp6", "", 1), f[1], strings.HasPrefix(f[0], "Udp6"))
		case len(f) < 2 || f[0] != "Udp:":
		case names == nil:
			names = f
		case len(names) != len(f):
			err = fmt.Errorf("read UDP counters: %d names, %d figures", len(names), len(f))
		default:
			for i := 1; i < len(f) && err == nil; i++ {
				err = d.add(names[i], f[i], true)
			}
		}
		if err != nil {
			return d, err
		}
	}
	return d, scan.Err()
}

func (d *datagrams) add(name, figure string, udp bool) error {
	into := map[string]*uint64{"InDatagrams": &d.received, "RcvbufErrors": &d.noRoom}[name]
	if into == nil || !udp {
		return nil
	}
	n, err := strconv.ParseUint(figure, 10, 64)
	if err != nil {
		return fmt.Errorf("read UDP counters: %s: %w", name, err)
	}
	*into += n
	return nil
}
