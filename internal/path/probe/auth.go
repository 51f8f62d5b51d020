package probe

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"hash"
)

// Keys are the secrets of authenticated mode. What is signed by either is
// accepted; what is sent is signed by Current, and what is reflected by the key
// that signed the probe. To rotate, give every host the new key as Previous,
// then every host as Current with the old one as Previous, then drop the old.
type Keys struct {
	Current, Previous []byte
}

// mode is Authenticated where there is a key.
func (k Keys) mode() Mode {
	if len(k.Current) > 0 {
		return Authenticated
	}
	return Open
}

// signer computes the HMACs of one key. It is for one goroutine at a time and
// allocates nothing in use.
type signer struct {
	base, binding hash.Hash
	out           [sha256.Size]byte
}

const bindingLabel = "pathwise STAMP TLV binding 1"

func newSigner(key []byte) *signer {
	derive := hmac.New(sha256.New, key)
	derive.Write([]byte(bindingLabel))
	return &signer{base: hmac.New(sha256.New, key), binding: hmac.New(sha256.New, derive.Sum(nil))}
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

// ofBinding is the binding TLV's value: over the direction, the base packet but
// for its HMAC, and the TLVs up to end.
func (s *signer) ofBinding(d direction, p []byte, end int) []byte {
	s.out[0] = byte(d)
	return s.sum(s.binding, s.out[:1], p[:macAt], p[authBase:end])
}

// ring is one or two keys.
type ring []*signer

func newRing(k Keys) (ring, error) {
	var r ring
	for _, key := range [][]byte{k.Current, k.Previous} {
		if len(key) == 0 {
			break
		}
		if len(key) < macSize {
			return nil, fmt.Errorf("use key of %d octets: %w", len(key), ErrKey)
		}
		r = append(r, newSigner(key))
	}
	if len(r) == 0 && len(k.Previous) > 0 {
		return nil, fmt.Errorf("use a previous key without a current one: %w", ErrKey)
	}
	return r, nil
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
func inspect(p []byte, m Mode, s *signer, d direction) tlvState {
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
		st.bound = hmac.Equal(p[st.binding+tlvHead:st.binding+tlvHead+macSize], s.ofBinding(d, p, st.binding))
	}
	return st
}
