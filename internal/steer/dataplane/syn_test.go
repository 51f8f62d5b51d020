package dataplane

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"
)

// TestUnansweredSYNs: of a connection that nobody answers the SYN is known, as it was sent, and of one that is
// answered, or of another time, none is.
func TestUnansweredSYNs(t *testing.T) {
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
			unanswered := func(after time.Duration) [][]byte {
				t.Helper()
				out, err := b.planes[1].UnansweredSYNs("pod-2", after)
				if err != nil {
					t.Fatal(err)
				}
				return out
			}
			if got := unanswered(0); len(got) != 0 {
				t.Errorf("%d SYNs of a connection that was answered", len(got))
			}
			dead := map[string]string{"4": "10.90.2.2/32", "6": "fd90:2::2/128"}[family]
			b.run(0, "ip", "route", "add", "blackhole", dead)
			conn, err := b.dial(1, "tcp"+family, fmt.Sprintf(format, 7002), option{value: 1500 * time.Millisecond})
			if err == nil {
				conn.Close()
				t.Fatal("a connection over a network that drops all")
			}
			got := unanswered(0)
			if len(got) != 1 {
				t.Fatalf("%d SYNs, expected that of port 7002", len(got))
			}
			header := map[string]int{"4": 20, "6": 40}[family]
			if syn := got[0]; len(syn) < header+20 || binary.BigEndian.Uint16(syn[header+2:]) != 7002 || syn[header+13] != 2 {
				t.Errorf("it is %x", syn)
			}
			if later := unanswered(time.Duration(1 << 62)); len(later) != 0 {
				t.Errorf("%d SYNs of another time", len(later))
			}
		})
	}
}
