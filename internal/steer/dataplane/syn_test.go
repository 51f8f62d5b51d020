package dataplane

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestSYNs: the SYNs of a time are known, as they were sent, and which of them were answered, and where.
func TestSYNs(t *testing.T) {
	t.Parallel()
	for _, family := range []string{"4", "6"} {
		t.Run("IPv"+family, func(t *testing.T) {
			b := newBed(t)
			b.open(1)
			b.open(2)
			format := map[string]string{"4": "10.90.2.2:%d", "6": "[fd90:2::2]:%d"}[family]
			served := fmt.Sprintf(format, 7001)
			if err := exchange(b.echo("tcp"+family, served, served), "answered"); err != nil {
				t.Fatal(err)
			}
			const ever = time.Duration(1<<63 - 1)
			syns := func(after, until time.Duration, port uint16) (out []SYN) {
				t.Helper()
				all, err := b.planes[1].SYNs("pod-2", after, until)
				if err != nil {
					t.Fatal(err)
				}
				return slices.DeleteFunc(all, func(s SYN) bool { return s.Remote != port })
			}
			if got := syns(0, ever, 7001); len(got) != 1 || got[0].Answer != AnsweredAtHome {
				t.Errorf("of a connection that was answered: %v", got)
			}
			dead := map[string]string{"4": "10.90.2.2/32", "6": "fd90:2::2/128"}[family]
			b.run(0, "ip", "route", "add", "blackhole", dead)
			conn, err := b.dial(1, "tcp"+family, fmt.Sprintf(format, 7002), option{value: 1500 * time.Millisecond})
			if err == nil {
				conn.Close()
				t.Fatal("a connection over a network that drops all")
			}
			got := syns(0, ever, 7002)
			if len(got) != 1 || got[0].Answer != NoAnswer {
				t.Fatalf("of one that nobody answers: %v", got)
			}
			header := map[string]int{"4": 20, "6": 40}[family]
			syn := got[0].Packet
			if len(syn) < header+20 || binary.BigEndian.Uint16(syn[header+2:]) != 7002 || syn[header+13] != 2 {
				t.Errorf("it is %x", syn)
			}
			if n := len(syns(got[0].Sent, ever, 7002)) + len(syns(0, got[0].Sent-1, 7002)); n != 0 {
				t.Errorf("%d SYNs of another time", n)
			}
		})
	}
}
