package agent

import (
	"bytes"
	"testing"
)

func someNotice() notice {
	n := notice{kind: noticeMoved, status: statusDone, network: 3, from: podID{1, 2, 3}, to: podID{15: 9},
		names: 0xdeadbeef, number: 1 << 60}
	for b := range n.choices {
		n.choices[b] = uint8(b % 5)
	}
	n.choices[7] = noChoice
	return n
}

func TestNotice(t *testing.T) {
	n := someNotice()
	raw := n.encode()
	if len(raw) != noticeSize {
		t.Fatalf("%d octets, want %d", len(raw), noticeSize)
	}
	got, err := decodeNotice(raw)
	if err != nil || got != n {
		t.Errorf("got %+v, %v\nwant %+v", got, err, n)
	}
}

func TestBadNotices(t *testing.T) {
	change := func(i int, to byte) []byte {
		raw := someNotice().encode()
		raw[i] = to
		return raw
	}
	good := someNotice().encode()
	for name, raw := range map[string][]byte{
		"nothing": nil, "short": good[:noticeSize-1], "long": append(bytes.Clone(good), 0),
		"another version": change(0, noticeVersion+1), "no kind": change(1, 0),
		"an unknown kind": change(1, byte(noticeTried)+1), "an unknown status": change(2, byte(statusLooking)+1),
	} {
		if n, err := decodeNotice(raw); err == nil {
			t.Errorf("%s: decoded as %+v", name, n)
		}
	}
}

func FuzzNotice(f *testing.F) {
	f.Add(someNotice().encode())
	f.Add(notice{kind: noticeOpen}.encode())
	f.Add(notice{kind: noticeFailed, status: statusUnknown, network: 255}.encode())
	f.Add([]byte{})
	f.Add(make([]byte, noticeSize))
	f.Add(bytes.Repeat([]byte{0xff}, noticeSize+1))
	f.Fuzz(func(t *testing.T, raw []byte) {
		n, err := decodeNotice(raw)
		if err != nil {
			return
		}
		if again := n.encode(); !bytes.Equal(again, raw) {
			t.Errorf("decoded and encoded again: %x became %x", raw, again)
		}
	})
}
