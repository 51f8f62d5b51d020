package pipeline

import (
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"
)

// Value is what a field holds: up to 128 bits, the lowest in Lo.
type Value struct{ Hi, Lo uint64 }

// num is a Value of up to 64 bits.
func num(n uint64) Value { return Value{Lo: n} }

// ones is a Value whose lowest n bits are set.
func ones(n int) Value {
	switch {
	case n >= 128:
		return Value{^uint64(0), ^uint64(0)}
	case n > 64:
		return Value{1<<(n-64) - 1, ^uint64(0)}
	case n == 64:
		return Value{0, ^uint64(0)}
	}
	return Value{0, 1<<n - 1}
}

// And, Or, Xor and Not work bit by bit.
func (v Value) And(w Value) Value { return Value{v.Hi & w.Hi, v.Lo & w.Lo} }

// Or is the bits of either.
func (v Value) Or(w Value) Value { return Value{v.Hi | w.Hi, v.Lo | w.Lo} }

// Xor is the bits that differ.
func (v Value) Xor(w Value) Value { return Value{v.Hi ^ w.Hi, v.Lo ^ w.Lo} }

// Without is the bits of v that w lacks.
func (v Value) Without(w Value) Value { return Value{v.Hi &^ w.Hi, v.Lo &^ w.Lo} }

// Left moves the bits up by n.
func (v Value) Left(n int) Value {
	if n >= 64 {
		return Value{v.Lo << (n - 64), 0}
	}
	return Value{v.Hi<<n | v.Lo>>(64-n), v.Lo << n}
}

// Right moves the bits down by n.
func (v Value) Right(n int) Value {
	if n >= 64 {
		return Value{0, v.Hi >> (n - 64)}
	}
	return Value{v.Hi >> n, v.Lo>>n | v.Hi<<(64-n)}
}

// IsZero reports whether no bit is set.
func (v Value) IsZero() bool { return v == Value{} }

// Bit is the n-th bit, the lowest being 0.
func (v Value) Bit(n int) bool {
	if n < 64 {
		return v.Lo>>n&1 == 1
	}
	return v.Hi>>(n-64)&1 == 1
}

// Ones goes over the bits that are set, from the lowest.
func (v Value) Ones() iter.Seq[int] {
	return func(yield func(int) bool) {
		for at, part := range [2]uint64{v.Lo, v.Hi} {
			for ; part != 0; part &= part - 1 {
				if !yield(64*at + bits.TrailingZeros64(part)) {
					return
				}
			}
		}
	}
}

// hex is how Open vSwitch writes a number of any length: no zeros in front, and 0 for zero.
func (v Value) hex() string {
	switch {
	case v.Hi != 0:
		return fmt.Sprintf("0x%x%016x", v.Hi, v.Lo)
	case v.Lo != 0:
		return fmt.Sprintf("%#x", v.Lo)
	}
	return "0"
}

var (
	errNumber = errors.New("not a number")
	errWide   = errors.New("does not fit")
)

// number reads a number in C's notation, of at most n bits.
func number(s string, n int) (Value, error) {
	s = strings.TrimSpace(s)
	var v Value
	if rest, ok := strings.CutPrefix(strings.ToLower(s), "0x"); ok && len(rest) > 16 {
		rest = strings.TrimLeft(rest, "0")
		if len(rest) > 32 {
			return v, errWide
		}
		rest = strings.Repeat("0", 32-len(rest)) + rest
		hi, err := strconv.ParseUint(rest[:16], 16, 64)
		if err != nil {
			return v, errNumber
		}
		lo, err := strconv.ParseUint(rest[16:], 16, 64)
		if err != nil {
			return v, errNumber
		}
		v = Value{hi, lo}
	} else {
		if strings.Contains(s, "_") {
			return v, errNumber
		}
		base := 0
		if strings.HasPrefix(s, "0b") || strings.HasPrefix(s, "0o") {
			return v, errNumber // not C's
		}
		if neg, ok := strings.CutPrefix(s, "-"); ok {
			m, err := strconv.ParseUint(neg, base, 63)
			if err != nil {
				return v, errNumber
			}
			return Value{^uint64(0), uint64(-int64(m))}.And(ones(n)), nil
		}
		lo, err := strconv.ParseUint(s, base, 64)
		if err != nil {
			return v, errNumber
		}
		v = num(lo)
	}
	if !v.Without(ones(n)).IsZero() {
		return v, errWide
	}
	return v, nil
}

// mac reads an Ethernet address.
func mac(s string) (Value, error) {
	parts := strings.Split(s, ":")
	if len(parts) != 6 {
		return Value{}, errors.New("not an Ethernet address")
	}
	var v uint64
	for _, p := range parts {
		b, err := strconv.ParseUint(p, 16, 8)
		if err != nil {
			return Value{}, errors.New("not an Ethernet address")
		}
		v = v<<8 | b
	}
	return num(v), nil
}

func formatMAC(v Value) string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", byte(v.Lo>>40), byte(v.Lo>>32), byte(v.Lo>>24), byte(v.Lo>>16),
		byte(v.Lo>>8), byte(v.Lo))
}

// ip reads an address of n bits, 32 or 128.
func ip(s string, n int) (Value, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" || a.Is4() != (n == 32) {
		return Value{}, fmt.Errorf("not an IPv%d address", map[bool]int{true: 4, false: 6}[n == 32])
	}
	if n == 32 {
		b := a.As4()
		return num(uint64(b[0])<<24 | uint64(b[1])<<16 | uint64(b[2])<<8 | uint64(b[3])), nil
	}
	var v Value
	for i, b := range a.As16() {
		if i < 8 {
			v.Hi = v.Hi<<8 | uint64(b)
		} else {
			v.Lo = v.Lo<<8 | uint64(b)
		}
	}
	return v, nil
}

func formatIP(v Value, n int) string {
	if n == 32 {
		return fmt.Sprintf("%d.%d.%d.%d", byte(v.Lo>>24), byte(v.Lo>>16), byte(v.Lo>>8), byte(v.Lo))
	}
	var b [16]byte
	for i := range b {
		b[i] = byte(v.Right(8 * (15 - i)).Lo)
	}
	a := netip.AddrFrom16(b)
	// inet_ntop writes addresses that begin with 96 zeros in part like those of IPv4.
	if v.Hi == 0 && v.Lo>>32 == 0 && v.Lo>>16 != 0 {
		return "::" + formatIP(v, 32)
	}
	return a.String()
}

// prefix is the length of a mask that begins with ones and ends with zeros, or -1.
func prefix(mask Value, n int) int {
	rest := ones(n).Xor(mask) // the zeros, which must be the lowest bits
	l := bits.Len64(rest.Hi) + 64
	if rest.Hi == 0 {
		l = bits.Len64(rest.Lo)
	}
	if rest != ones(l) {
		return -1
	}
	return n - l
}
