package stream

import "encoding/binary"

// The content of a stream: the first and the last eight bytes of every block
// carry the block's offset in the stream, the rest is filler that is not looked
// at. So a lost, repeated or exchanged piece is found at a cost of two words a
// block, which a byte-by-byte check would not have next to the copy.
const (
	blockSize = 4096
	markSize  = 8
)

// marks calls fn for each piece of a mark that lies in a buffer which begins at
// offset off of the stream: the piece's place in the buffer, and its bytes. It
// stops when fn says so.
func marks(size int, off int64, fn func(at int, want []byte) bool) {
	var mark [markSize]byte
	end := off + int64(size)
	for block := off &^ (blockSize - 1); block < end; block += blockSize {
		binary.BigEndian.PutUint64(mark[:], uint64(block)+1) // never all zero
		for _, begin := range [2]int64{block, block + blockSize - markSize} {
			from, to := max(begin, off), min(begin+markSize, end)
			if from < to && !fn(int(from-off), mark[from-begin:to-begin]) {
				return
			}
		}
	}
}

// stamp writes the marks of buf, which begins at offset off of the stream.
func stamp(buf []byte, off int64) {
	marks(len(buf), off, func(at int, want []byte) bool {
		copy(buf[at:], want)
		return true
	})
}

// check returns the offset in the stream of the first wrong mark, -1 if there is none.
func check(buf []byte, off int64) int64 {
	wrong := int64(-1)
	marks(len(buf), off, func(at int, want []byte) bool {
		if string(buf[at:at+len(want)]) != string(want) {
			wrong = off + int64(at)
			return false
		}
		return true
	})
	return wrong
}

// number writes the low bytes of an operation's number into its message.
func number(buf []byte, n uint64) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	copy(buf, b[8-min(8, len(buf)):])
}

// numbered reports whether the message carries the operation's number.
func numbered(buf []byte, n uint64) bool {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], n)
	k := min(8, len(buf))
	return string(buf[:k]) == string(b[8-k:])
}
