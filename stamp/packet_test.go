package stamp

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
	"time"
)

// TestLayout holds packets against RFC 8762's figures, octet by octet.
func TestLayout(t *testing.T) {
	test := TestPacket{Seq: 0x01020304, Time: 0x1112131415161718, Error: 0x2122, SSID: 0x3132}
	reply := ReflectedPacket{
		Seq: 0x41424344, Time: 0x5152535455565758, Error: 0x6162, SSID: 0x3132, Received: 0x7172737475767778,
		Sender: test, TTL: 0x81,
	}
	zeros := func(n int) string { return hex.EncodeToString(make([]byte, n)) }
	for _, tt := range []struct {
		name string
		mode Mode
		put  func(Mode, []byte)
		want string
	}{
		{"test open", Unauthenticated, test.Put, "01020304" + "1112131415161718" + "2122" + "3132" + zeros(28)},
		{"test authenticated", Authenticated, test.Put,
			"01020304" + zeros(12) + "1112131415161718" + "2122" + "3132" + zeros(68) + zeros(16)},
		{"reply open", Unauthenticated, reply.Put, "41424344" + "5152535455565758" + "6162" + "3132" +
			"7172737475767778" + "01020304" + "1112131415161718" + "2122" + zeros(2) + "81" + zeros(3)},
		{"reply authenticated", Authenticated, reply.Put, "41424344" + zeros(12) + "5152535455565758" + "6162" + "3132" +
			zeros(4) + "7172737475767778" + zeros(8) + "01020304" + zeros(12) + "1112131415161718" + "2122" + zeros(6) +
			"81" + zeros(15) + zeros(16)},
	} {
		b := bytes.Repeat([]byte{0xff}, tt.mode.Base()+1)
		tt.put(tt.mode, b)
		if got := hex.EncodeToString(b[:tt.mode.Base()]); got != tt.want {
			t.Errorf("%s:\n%s, expected\n%s", tt.name, got, tt.want)
		}
		if b[tt.mode.Base()] != 0xff {
			t.Errorf("%s: wrote beyond the base packet", tt.name)
		}
		if p, err := ParseTest(tt.mode, b); err != nil || tt.name[:4] == "test" && p != test {
			t.Errorf("%s: read as %+v, %v", tt.name, p, err)
		}
		if p, err := ParseReflected(tt.mode, b); err != nil || tt.name[:5] == "reply" && p != reply {
			t.Errorf("%s: read as %+v, %v", tt.name, p, err)
		}
		for n := range tt.mode.Base() {
			if _, err := ParseTest(tt.mode, b[:n]); !errors.Is(err, ErrShort) {
				t.Errorf("%s cut to %d: %v", tt.name, n, err)
			}
			if _, err := ParseReflected(tt.mode, b[:n]); !errors.Is(err, ErrShort) {
				t.Errorf("%s cut to %d: %v", tt.name, n, err)
			}
		}
	}
}

func TestTimestamps(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, tt := range []struct {
		format Format
		time   string
		want   Timestamp
	}{
		{NTP, "1900-01-01T00:00:00Z", 0},
		{NTP, "1970-01-01T00:00:00.5Z", ntpEpoch<<32 | 1<<31},
		{NTP, "2026-11-22T01:28:07.123456789Z", 0xeeacc427<<32 | 0x1f9add37},
		{NTP, "2036-02-07T06:28:15.999999999Z", 0xffffffff<<32 | 0xfffffffb},
		{NTP, "2036-02-07T06:28:16Z", 0}, // the era ends
		{PTP, "1970-01-01T00:00:00.5Z", 500000000},
		{PTP, "2026-11-22T01:28:07.123456789Z", 0x6a2145a7<<32 | 123456789},
		{PTP, "2106-02-07T06:28:16Z", 0},
	} {
		want := at(tt.time)
		got := tt.format.Encode(want)
		if d := got - tt.want; d != 0 && tt.want != 0 && want.Year() != 2026 {
			t.Errorf("%s: %#x, expected %#x", tt.time, uint64(got), uint64(tt.want))
		}
		for _, near := range []time.Duration{0, 10 * 365 * 24 * time.Hour, -10 * 365 * 24 * time.Hour} {
			back, err := tt.format.Decode(got, want.Add(near))
			if err != nil || !back.Equal(want) {
				t.Errorf("%s: came back as %s, %v", tt.time, back, err)
			}
		}
	}
	if _, err := PTP.Decode(1000000000, time.Now()); !errors.Is(err, ErrTimestamp) {
		t.Errorf("a PTP timestamp of 1000000000 ns: %v", err)
	}
}

func TestErrorEstimates(t *testing.T) {
	for _, tt := range []struct {
		sync  bool
		f     Format
		by    time.Duration
		least time.Duration
	}{
		{false, NTP, 0, 0}, {true, NTP, time.Microsecond, time.Microsecond}, {true, PTP, time.Millisecond, time.Millisecond},
		{false, PTP, time.Hour, time.Hour}, {true, NTP, -time.Second, 0},
	} {
		e := EstimateError(tt.sync, tt.f, tt.by)
		if e.Synchronized() != tt.sync || e.Format() != tt.f || e&0xff == 0 {
			t.Errorf("%+v: %#x", tt, e)
		}
		if got := e.Bound(); got < tt.least || got > tt.least+tt.least/100+2 {
			t.Errorf("%+v: bound %s", tt, got)
		}
	}
	if b := ErrorEstimate(0xffff).Bound(); b <= 0 {
		t.Errorf("the largest bound is %s", b)
	}
}

func TestTLVs(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []TLV
		err      error
	}{
		{"none", "", nil, nil},
		{"padding of TWAMP-Light", "000000000000", nil, nil},
		{"two", "80f00002aabb" + "0001000100", []TLV{{0x80, 240, []byte{0xaa, 0xbb}}, {0, 1, []byte{0}}}, nil},
		{"zeros after one", "80f00000" + "0000000000", []TLV{{0x80, 240, []byte{}}}, nil},
		{"head cut", "80f000", nil, ErrTLV},
		{"value cut", "80f00003aabb", nil, ErrTLV},
		{"one, then cut", "80f00000" + "80f0", []TLV{{0x80, 240, []byte{}}}, ErrTLV},
		{"longest length", "80f0ffff" + "00", nil, ErrTLV},
	} {
		in, _ := hex.DecodeString(tt.in)
		got, err := ParseTLVs(nil, in)
		if !errors.Is(err, tt.err) || len(got) != len(tt.want) {
			t.Errorf("%s: %v, %v", tt.name, got, err)
			continue
		}
		var back []byte
		for i, x := range got {
			if x.Flags != tt.want[i].Flags || x.Type != tt.want[i].Type || !bytes.Equal(x.Value, tt.want[i].Value) {
				t.Errorf("%s: %v", tt.name, x)
			}
			back = x.Append(back)
		}
		if !bytes.HasPrefix(in, back) {
			t.Errorf("%s: written as %x", tt.name, back)
		}
	}
}

func TestValues(t *testing.T) {
	var b [12]byte
	c := ClassOfService{Reply: 0b101011, Received: 0b110100, ECN: 2, Refused: true}
	c.put(b[:4])
	if hex.EncodeToString(b[:4]) != "af490000" {
		t.Errorf("class of service %x", b[:4])
	}
	if got, err := ParseClassOfService(b[:4]); got != c || err != nil {
		t.Errorf("came back as %+v, %v", got, err)
	}
	d := DirectMeasurement{1, 2, 3}
	d.put(b[:])
	if got, err := ParseDirectMeasurement(b[:]); got != d || err != nil {
		t.Errorf("came back as %+v, %v", got, err)
	}
	if _, err := ParseClassOfService(b[:5]); !errors.Is(err, ErrTLV) {
		t.Error(err)
	}
	if _, err := ParseDirectMeasurement(b[:11]); !errors.Is(err, ErrTLV) {
		t.Error(err)
	}
}

// TestHMAC holds an authenticated packet against a MAC computed elsewhere:
// openssl dgst -sha256 -mac HMAC -macopt key:0123456789abcdef of 96 zeros.
func TestHMAC(t *testing.T) {
	p := make([]byte, authBase)
	newSigner([]byte("0123456789abcdef")).signBase(p)
	if got := hex.EncodeToString(p[macAt:]); got != opensslMAC {
		t.Errorf("%s, expected %s", got, opensslMAC)
	}
}

const opensslMAC = "610f8da5b334cb9433123b8cb1d2599b"

func TestKeys(t *testing.T) {
	long := []byte("0123456789abcdef")
	for _, tt := range []struct {
		k  Keys
		ok bool
	}{
		{Keys{}, true}, {Keys{Current: long}, true}, {Keys{long, [][]byte{long}}, true}, {Keys{Current: long[:15]}, false},
		{Keys{long, [][]byte{long[:1]}}, false}, {Keys{long, [][]byte{long, nil}}, false},
		{Keys{Previous: [][]byte{long}}, false},
	} {
		if _, err := newRing(tt.k); (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrKey) {
			t.Errorf("%q: %v", tt.k, err)
		}
	}
}
