package topo

import "strconv"

// Rmem is what the receive buffer of a TCP socket in a pod begins with, in bytes, MinRmem
// to MaxRmem: the second value of the sysctl net.ipv4.tcp_rmem. Autotuning goes on from
// there. A stream that begins with Linux's 128 KiB keeps one of two speeds, a factor of two
// apart: left to the kernel that is noise between connections.
type Rmem int

// Limits and the buffer that is left to the kernel.
const (
	RmemAuto Rmem = 0
	MinRmem  Rmem = 1 << 14
	MaxRmem  Rmem = 1 << 25
)

// Word is how files call it, such as auto, 512k or 4m.
func (r Rmem) Word() string {
	switch {
	case r == RmemAuto:
		return "auto"
	case r%(1<<20) == 0:
		return strconv.Itoa(int(r>>20)) + "m"
	case r%(1<<10) == 0:
		return strconv.Itoa(int(r>>10)) + "k"
	}
	return strconv.Itoa(int(r))
}

// MarshalYAML writes it as files have it.
func (r Rmem) MarshalYAML() (any, error) { return r.Word(), nil }
