package dataplane

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"pathwise.dev/pathwise/internal/lab/netns"
)

// BenchmarkRoundTrip is what the programs cost in place, caches and all: a byte
// there and back over TCP, both ends on one processor, each way against the same
// without programs, by turns. "nothing" are programs that do nothing: what the hooks
// take. Run it with -benchtime 30x or so.
func BenchmarkRoundTrip(b *testing.B) {
	bed := newBed(b)
	compare(b, bed.ways(), bed.trips)
}

// BenchmarkStream is the same of a TCP stream in large pieces, its ends on a processor
// each: the time, in ns, that 64 KiB take.
func BenchmarkStream(b *testing.B) {
	bed := newBed(b)
	bed.fit()
	compare(b, bed.ways(), bed.streams)
}

// fit gives all networks the least MTU.
func (b *bed) fit() {
	b.t.Helper()
	for pod := 1; pod <= 2; pod++ {
		b.run(pod, "ip", "link", "set", "eth0", "mtu", "1450")
	}
}

// way is what is compared: with something in place, to an address, against the way
// without.
type way struct {
	name, without string
	to            netip.Addr
	begin         func() (end func())
}

func (b *bed) ways() []way {
	bare := func() func() { return func() {} }
	return []way{
		{"bare", "", stable(1).Remote, bare},
		{"nothing", "bare", stable(1).Remote, b.idle},
		{"stranger", "bare", stable(1).Remote, func() func() { return b.trip(0, false) }},
		{"known", "bare", stable(1).Remote, func() func() { return b.trip(0, true) }},
		{"path", "", netip.MustParseAddr("10.91.0.2"), bare},
		{"steered", "path", stable(1).Remote, func() func() { return b.trip(1, true) }},
		{"direct", "path", stable(1).Remote, b.direct},
	}
}

// compare measures the ways by turns and reports the median of each, or of what it
// takes more than the one without.
func compare(b *testing.B, ways []way, measure func(netip.Addr) float64) {
	b.Helper()
	took := map[string][]float64{}
	for b.Loop() {
		for _, w := range ways {
			end := w.begin()
			took[w.name] = append(took[w.name], measure(w.to))
			end()
		}
	}
	for _, w := range ways {
		all := slices.Clone(took[w.name])
		for i := range all {
			if w.without != "" {
				all[i] -= took[w.without][i]
			}
		}
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], w.name+"-ns")
	}
	b.ReportMetric(0, "ns/op")
}

// trip opens both planes, which know each other or only some other pod, and has
// new flows take the path.
func (b *bed) trip(path int, known bool) (end func()) {
	b.t.Helper()
	for pod := 1; pod <= 2; pod++ {
		peer := b.peer(pod)
		peer.Paths[0].NextHop = b.mac(3-pod, "net1")
		if !known {
			peer.Pairs = []Pair{{stable(pod).Local, netip.MustParseAddr("10.90.9.9")}}
		}
		p, err := Open(b.config(pod))
		if err == nil {
			err = p.SetPeer(peer)
		}
		if err != nil {
			b.t.Fatal(err)
		}
		b.planes[pod] = p
		b.move(pod, path)
	}
	return func() {
		for pod, p := range b.planes {
			if err := p.Remove(); err != nil {
				b.t.Error(err)
			}
			delete(b.planes, pod)
		}
	}
}

// direct is trip over path 1 with a direct route there.
func (b *bed) direct() (end func()) {
	b.t.Helper()
	leave := b.trip(1, true)
	back := b.straight("net1")
	return func() {
		back()
		leave()
	}
}

func (b *bed) mac(pod int, dev string) (mac net.HardwareAddr) {
	b.t.Helper()
	err := netns.Do(b.pods[pod], func() error {
		i, err := net.InterfaceByName(dev)
		if err == nil {
			mac = i.HardwareAddr
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return mac
}

// idle attaches programs that do nothing to both pods' eth0.
func (b *bed) idle() (end func()) {
	b.t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}}) // TCX_NEXT
	if err != nil {
		b.t.Fatal(err)
	}
	defer prog.Close()
	var links []link.Link
	for pod := 1; pod <= 2; pod++ {
		err := netns.Do(b.pods[pod], func() error {
			dev, err := net.InterfaceByName("eth0")
			for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
				if err != nil {
					break
				}
				var l link.Link
				if l, err = link.AttachTCX(link.TCXOptions{Interface: dev.Index, Program: prog, Attach: at}); err == nil {
					links = append(links, l)
				}
			}
			return err
		})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	return func() {
		for _, l := range links {
			l.Close()
		}
	}
}

// trips is the median time, in ns, of a round trip of a byte to an address of pod 2.
func (b *bed) trips(to netip.Addr) float64 {
	b.t.Helper()
	const warm, rounds = 2000, 8000
	client, server := b.connect(to)
	defer client.Close()
	done := make(chan error, 1)
	go func() {
		defer server.Close()
		pin()
		buf := make([]byte, 1)
		for {
			if n, err := unix.Read(int(server.Fd()), buf); n != 1 {
				done <- err
				return
			}
			if _, err := unix.Write(int(server.Fd()), buf); err != nil {
				done <- err
				return
			}
		}
	}()
	took := make([]float64, 0, rounds)
	pinned := make(chan error)
	go func() {
		pin()
		buf, fd := make([]byte, 1), int(client.Fd())
		for i := range warm + rounds {
			begin := time.Now()
			if _, err := unix.Write(fd, buf); err != nil {
				pinned <- err
				return
			}
			if n, err := unix.Read(fd, buf); n != 1 {
				pinned <- fmt.Errorf("read %d: %w", n, err)
				return
			}
			if i >= warm {
				took = append(took, float64(time.Since(begin)))
			}
		}
		pinned <- unix.Shutdown(fd, unix.SHUT_WR)
	}()
	for _, c := range []chan error{done, pinned} {
		if err := <-c; err != nil {

			b.t.Fatal(err)
		}
	}
	slices.Sort(took)
	return took[rounds/2]
}

// streams is the time, in ns, that 64 KiB take to an address of pod 2.
func (b *bed) streams(to netip.Addr) float64 {
	b.t.Helper()
	const warm, lasts = 50 * time.Millisecond, 150 * time.Millisecond
	client, server := b.connect(to)
	done := make(chan float64)
	go func() {
		pinTo(0)
		defer server.Close()
		buf, begin, got := make([]byte, 128<<10), time.Now(), 0
		for time.Since(begin) < warm {
			_, _ = unix.Read(int(server.Fd()), buf)
		}
		begin = time.Now()
		for time.Since(begin) < lasts {
			n, err := unix.Read(int(server.Fd()), buf)
			if n <= 0 || err != nil {
				break
			}
			got += n
		}
		done <- float64(time.Since(begin)) * (64 << 10) / float64(got)
	}()
	go func() {
		pin()
		defer client.Close()
		buf := make([]byte, 128<<10)
		for {
			if _, err := unix.Write(int(client.Fd()), buf); err != nil {
				return
			}
		}
	}()
	return <-done
}

// pin puts the goroutine on the last processor; its thread ends with it.
func pin() { pinTo(runtime.NumCPU() - 1) }

func pinTo(cpu int) {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	_ = unix.SchedSetaffinity(0, &set) // without, the figures are only noisier
}

// connect is a TCP connection from pod 1 to an address of pod 2, its ends blocking.
func (b *bed) connect(to netip.Addr) (client, server *os.File) {
	b.t.Helper()
	var l net.Listener
	var c net.Conn
	err := netns.Do(b.pods[2], func() (err error) {
		var plain net.ListenConfig
		plain.SetMultipathTCP(false)
		l, err = plain.Listen(b.t.Context(), "tcp4", netip.AddrPortFrom(to, 0).String())
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	defer l.Close()
	err = netns.Do(b.pods[1], func() (err error) {
		c, err = net.Dial("tcp4", l.Addr().String())
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		b.t.Fatal(err)
	}
	file := func(c net.Conn) *os.File {
		defer c.Close()
		f, err := c.(*net.TCPConn).File()
		if err == nil {
			err = unix.SetNonblock(int(f.Fd()), false)
		}
		if err != nil {
			b.t.Fatal(err)
		}
		return f
	}
	return file(c), file(s)
}
