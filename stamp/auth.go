package stamp

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"hash"
	"net/netip"
)

// MinKey is how many octets a key has at least.
const MinKey = macSize

// Keys are the secrets of authenticated mode (RFC 8762, section 4.4: HMAC-SHA-256, cut
// to 16 octets), each of [MinKey] octets or more. The zero value is unauthenticated
// mode. What is signed by any of them is accepted; what is sent is signed by Current,
// or by the one that SendOptions name, and what is reflected by the key that signed the
// probe. So keys can be changed while both ends run: give each end the new key as a
// previous one first, then as the current one.
type Keys struct {
	Current  []byte
	Previous [][]byte // accepted too
}

// All lists them, the current one first; none in unauthenticated mode.
func (k Keys) All() [][]byte {
	if len(k.Current) == 0 {
		return nil
	}
	return append([][]byte{k.Current}, k.Previous...)
}

// mode is Authenticated where there is a key.
func (k Keys) mode() Mode {
	if len(k.Current) > 0 {
		return Authenticated
	}
	return Unauthenticated
}

// Check returns an error that is ErrKey where a key is too short, or where there is a
// previous one without a current one.
func (k Keys) Check() error {
	if len(k.Current) == 0 && len(k.Previous) > 0 {
		return fmt.Errorf("use a previous key without a current one: %w", ErrKey)
	}
	for _, key := range k.All() {
		if len(key) < macSize {
			return fmt.Errorf("use key of %d octets: %w", len(key), ErrKey)
		}
	}
	return nil
}

// KeyID names a key without telling it: an HMAC of a constant by the key. It may be
// logged. The zero value names none.
type KeyID [8]byte

const keyLabel = "pathwise key name 1"

// IDOf is the name of a key of any length.
func IDOf(key []byte) KeyID {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(keyLabel))
	return KeyID(h.Sum(nil)[:len(KeyID{})])
}

// signer computes the HMACs of one key. It is for one goroutine at a time and
// allocates nothing in use.
type signer struct {
	id            KeyID
	base, binding hash.Hash
	out           [sha256.Size]byte
	head          []byte
}

const bindingLabel = "pathwise STAMP TLV binding 2"

func newSigner(key []byte) *signer {
	derive := hmac.New(sha256.New, key)
	derive.Write([]byte(bindingLabel))
	return &signer{id: IDOf(key), base: hmac.New(sha256.New, key), binding: hmac.New(sha256.New, derive.Sum(nil))}
}

func (s *signer) sum(h hash.Hash, a, b, c []byte) []byte {
	h.Reset()
	h.Write(a)
	h.Write(b)
	h.Write(c)
	return h.Sum(s.out[:0])[:macSize]
}

// signBase writes the HMAC of an authenticated packet's base: RFC 8762,
// section 4.4.
func (s *signer) signBase(p []byte) {
	copy(p[macAt:authBase], s.sum(s.base, p[:macAt], nil, nil))
}

func (s *signer) checkBase(p []byte) bool {
	return hmac.Equal(p[macAt:authBase], s.sum(s.base, p[:macAt], nil, nil))
}

// ofTLVs is the HMAC TLV's value: over the sequence number and the TLVs between
// base and end.
func (s *signer) ofTLVs(p []byte, base, end int) []byte {
	return s.sum(s.base, p[:4], p[base:end], nil)
}

// Direction is a label in the binding, so that no reply can pass for a probe.
type direction byte

const (
	toReflector direction = 'p'
	toSender    direction = 'r'
)

// site is what a probe is sent over: the network, and the addresses of both ends
// there. The zero value is anywhere.
type site struct {
	network          string
	sender, reflects netip.Addr
}

// ofBinding is the binding TLV's value: over the direction, the site, the base
// packet but for its HMAC, and the TLVs up to end.
func (s *signer) ofBinding(d direction, at site, p []byte, end int) []byte {
	s.head = append(s.head[:0], byte(d))
	if at.network != "" {
		from, to := at.sender.As16(), at.reflects.As16()
		s.head = append(append(append(s.head, from[:]...), to[:]...), byte(len(at.network)))
		s.head = append(s.head, at.network...)
	}
	return s.sum(s.binding, s.head, p[:macAt], p[authBase:end])
}

// ring is the keys that are accepted, the current one first.
type ring []*signer

func newRing(k Keys) (ring, error) {
	if err := k.Check(); err != nil {
		return nil, err
	}
	var r ring
	for _, key := range k.All() {
		r = append(r, newSigner(key))
	}
	return r, nil
}

// named finds the key with the name, or else the current one.
func (r ring) named(id KeyID) *signer {
	for _, s := range r {
		if s.id == id {
			return s
		}
	}
	return r[0]
}

// signedBy finds the key that signed a packet of at least the base's length.
func (r ring) signedBy(p []byte) *signer {
	for _, s := range r {
		if s.checkBase(p) {
			return s
		}
	}
	return nil
}

// tlvState is what a look at a packet's TLVs found.
type tlvState struct {
	any       bool // there is a TLV
	malformed bool // the walk ended at one that does not fit, at end
	end       int  // where the last whole TLV ends
	hmac      int  // where the HMAC TLV starts, or 0
	binding   int  // where the binding starts, or 0
	intact    bool // integrity is proven, or there was none to prove
	bound     bool // the binding holds
}

// inspect walks the TLVs of p and checks what protects them. s is nil without a
// key; then an HMAC TLV cannot be verified, and counts as failed.
func inspect(p []byte, m Mode, s *signer, d direction, at site) tlvState {
	st := tlvState{end: m.Base(), intact: true}
	needs, misplaced := false, false
	for {
		t, next, err := nextTLV(p, st.end)
		if err != nil {
			st.malformed = true
			break
		}
		if next == st.end {
			break
		}
		switch {
		case t.Type == TypeHMAC && len(t.Value) == macSize && st.hmac == 0:
			st.hmac = st.end
		case t.Type == TypePadding:
		default:
			// Nothing but padding may follow the HMAC TLV: RFC 8972, section 4.8.
			needs, misplaced = true, misplaced || st.hmac != 0
		}
		if t.Type == TypeBinding && len(t.Value) == macSize && st.binding == 0 {
			st.binding = st.end
		}
		st.any, st.end = true, next
	}
	switch {
	case st.hmac != 0:
		st.intact = s != nil && !misplaced &&
			hmac.Equal(p[st.hmac+tlvHead:st.hmac+tlvHead+macSize], s.ofTLVs(p, m.Base(), st.hmac))
	case m == Authenticated:
		st.intact = !needs && !st.malformed
	}
	if st.intact && st.hmac != 0 && m == Authenticated && st.binding != 0 && st.binding < st.hmac {
		st.bound = hmac.Equal(p[st.binding+tlvHead:st.binding+tlvHead+macSize], s.ofBinding(d, at, p, st.binding))
	}
	return st
}
