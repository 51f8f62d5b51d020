package impair

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// Only says which packets are lost: the zero value is all of them. Its text is tcp, udp or icmp, with
// :PORT at either end or without, or above:BYTES of the IP packet. Fragments after the first have no ports.
type Only struct {
	// Protocol is tcp, udp or icmp, and Port one of either end, 0 for any.
	Protocol string
	Port     uint16
	// Above is how long packets are at most that are not meant, in bytes. It goes alone.
	Above uint16
}

// ParseOnly reads the text of an Only.
func ParseOnly(text string) (o Only, err error) { return o, o.UnmarshalText([]byte(text)) }

// UnmarshalText reads what MarshalText writes.
func (o *Only) UnmarshalText(text []byte) error {
	*o = Only{}
	if len(text) == 0 {
		return nil
	}
	name, number, numbered := strings.Cut(string(text), ":")
	n, err := strconv.ParseUint(number, 10, 16)
	switch {
	case numbered && (err != nil || n == 0):
	case name == "above" && numbered:
		o.Above = uint16(n)
		return nil
	case name == "icmp" && !numbered, name == "tcp", name == "udp":
		o.Protocol, o.Port = name, uint16(n)
		return nil
	}
	return fmt.Errorf("only %q: expected tcp, udp, tcp:PORT, udp:PORT, icmp or above:BYTES, such as tcp:443", text)
}

// MarshalText writes it as "lab impair" has it.
func (o Only) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

func (o Only) String() string {
	switch {
	case o.Above > 0:
		return fmt.Sprintf("above:%d", o.Above)
	case o.Port > 0:
		return fmt.Sprintf("%s:%d", o.Protocol, o.Port)
	}
	return o.Protocol
}

// Offsets in an Ethernet frame without VLAN tags (RFC 791, RFC 8200).
const (
	typeAt    = 12
	headerAt  = 14 // of IP
	lengthAt  = headerAt + 2
	fragAt    = headerAt + 6
	protoAt   = headerAt + 9
	length6At = headerAt + 4
	next6At   = headerAt + 6
	ports6At  = headerAt + header6
	header6   = 40
)

// instructions let the program go on with these packets alone: others go to "next". They need the context in R6,
// and spoil R0 to R5 and R7.
func (o Only) instructions() asm.Instructions {
	if o == (Only{}) {
		return nil
	}
	four, six := o.transport()
	if o.Above > 0 {
		four, six = o.longer()
	}
	four[0] = four[0].WithSymbol("v4")
	out := asm.Instructions{asm.LoadAbs(typeAt, asm.Half), asm.JEq.Imm(asm.R0, unix.ETH_P_IP, "v4"),
		asm.JNE.Imm(asm.R0, unix.ETH_P_IPV6, "next")}
	out = append(append(append(out, six...), asm.Ja.Label("chosen")), four...)
	return append(out, asm.Mov.Imm(asm.R0, 0).WithSymbol("chosen"))
}

// longer finds packets by their length, of IPv4 and IPv6.
func (o Only) longer() (four, six asm.Instructions) {
	return asm.Instructions{asm.LoadAbs(lengthAt, asm.Half), asm.JLE.Imm(asm.R0, int32(o.Above), "next")},
		asm.Instructions{asm.LoadAbs(length6At, asm.Half), asm.JLE.Imm(asm.R0, max(int32(o.Above)-header6, 0), "next")}
}

// transport finds packets by protocol and port, of IPv4 and IPv6.
func (o Only) transport() (four, six asm.Instructions) {
	number := map[string][2]int32{"tcp": {unix.IPPROTO_TCP, unix.IPPROTO_TCP}, "udp": {unix.IPPROTO_UDP, unix.IPPROTO_UDP},
		"icmp": {unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6}}[o.Protocol]
	four = asm.Instructions{asm.LoadAbs(protoAt, asm.Byte), asm.JNE.Imm(asm.R0, number[0], "next")}
	six = asm.Instructions{asm.LoadAbs(next6At, asm.Byte), asm.JNE.Imm(asm.R0, number[1], "next")}
	if o.Port == 0 {
		return four, six
	}
	port := int32(o.Port)
	const offset, ihl, words = 0x1fff, 0xf, 2 // of the fragment; of the header's length, in words of four bytes
	four = append(four,
		asm.LoadAbs(fragAt, asm.Half), asm.And.Imm(asm.R0, offset), asm.JNE.Imm(asm.R0, 0, "next"),
		asm.LoadAbs(headerAt, asm.Byte), asm.And.Imm(asm.R0, ihl), asm.LSh.Imm(asm.R0, words), asm.Mov.Reg(asm.R7, asm.R0),
		asm.LoadInd(asm.R0, asm.R7, headerAt, asm.Half), asm.JEq.Imm(asm.R0, port, "chosen"),
		asm.LoadInd(asm.R0, asm.R7, headerAt+2, asm.Half), asm.JNE.Imm(asm.R0, port, "next"))
	six = append(six,
		asm.LoadAbs(ports6At, asm.Half), asm.JEq.Imm(asm.R0, port, "chosen"),
		asm.LoadAbs(ports6At+2, asm.Half), asm.JNE.Imm(asm.R0, port, "next"))
	return four, six
}
