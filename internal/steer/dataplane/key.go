package dataplane

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
)

// Key is a SipHash key, by which the two data planes of a pair of pods tell each
// other's packets from all others.
type Key [16]byte

// Keys are those of a pair on one network. The zero Keys are no secret: for tests, and
// where there is nobody else.
type Keys struct {
	// Send makes the tags of what is sent. What comes may have been made by any of
	// Accept, so that keys can turn over; but the first they may be left out.
	Send   Key
	Accept [4]Key
}

// DeriveKey makes the key of two pods, by their UIDs in any order, on a network, from
// the cluster's: by HMAC-SHA-256 (RFC 2104) over the names, each with its length.
func DeriveKey(cluster []byte, a, b, network string) (k Key) {
	mac := hmac.New(sha256.New, cluster)
	for _, part := range []string{"pathwise mark 2", min(a, b), max(a, b), network} {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(part)))
		mac.Write(n[:]) // never fails
		mac.Write([]byte(part))
	}
	copy(k[:], mac.Sum(nil))
	return k
}

func (k Key) words() bpfKey {
	return bpfKey{K: [2]uint64{binary.LittleEndian.Uint64(k[:]), binary.LittleEndian.Uint64(k[8:])}}
}

// accepted never has a key that everybody knows in the place of one that is left out.
func (k Keys) accepted() (out bpfKeys) {
	for i, key := range k.Accept {
		if key == (Key{}) {
			key = k.Accept[0]
		}
		out.K[i] = key.words()
	}
	return out
}
