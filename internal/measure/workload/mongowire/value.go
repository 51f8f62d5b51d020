package mongowire

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// class is what a value is compared with: MongoDB compares only values of a
// class, and all numbers are one.
type class byte

const (
	classOther class = iota // equal only to the same bytes
	classNull
	classNumber
	classString
	classObjectID
	classBool
	classDate
)

func classOf(t bsoncore.Type) class {
	switch t {
	case bsoncore.TypeNull, bsoncore.TypeUndefined:
		return classNull
	case bsoncore.TypeInt32, bsoncore.TypeInt64, bsoncore.TypeDouble:
		return classNumber
	case bsoncore.TypeString:
		return classString
	case bsoncore.TypeObjectID:
		return classObjectID
	case bsoncore.TypeBoolean:
		return classBool
	case bsoncore.TypeDateTime:
		return classDate
	default:
		return classOther
	}
}

// compare orders two values of a class; ordered is false where they have no order.
func compare(a, b bsoncore.Value) (order int, ordered bool) {
	c := classOf(a.Type)
	if c != classOf(b.Type) {
		return 0, false
	}
	switch c {
	case classNull:
		return 0, true
	case classNumber:
		return compareNumbers(a, b)
	case classDate:
		return cmp.Compare(int64(binary.LittleEndian.Uint64(a.Data)), int64(binary.LittleEndian.Uint64(b.Data))), true
	case classString:
		return bytes.Compare(a.Data[4:], b.Data[4:]), true
	case classObjectID, classBool:
		return bytes.Compare(a.Data, b.Data), true
	default:
		if a.Type == b.Type && bytes.Equal(a.Data, b.Data) {
			return 0, true
		}
		return 0, false
	}
}

// compareNumbers orders numbers of any type by their exact values. NaN equals
// itself and has no order with others.
func compareNumbers(a, b bsoncore.Value) (int, bool) {
	x, xWhole, xf := number(a)
	y, yWhole, yf := number(b)
	switch {
	case math.IsNaN(xf) || math.IsNaN(yf):
		return 0, math.IsNaN(xf) && math.IsNaN(yf)
	case xWhole && yWhole:
		return cmp.Compare(x, y), true
	default:
		// One of them has a fraction or is beyond int64, where a double is exact
		// and the other one, if whole, rounds to the right side of it.
		return cmp.Compare(xf, yf), true
	}
}

// number is a number's value: as an integer where it is whole and fits, and as a double.
func number(v bsoncore.Value) (whole int64, isWhole bool, double float64) {
	switch v.Type {
	case bsoncore.TypeInt32:
		n := int64(int32(binary.LittleEndian.Uint32(v.Data)))
		return n, true, float64(n)
	case bsoncore.TypeInt64:
		n := int64(binary.LittleEndian.Uint64(v.Data))
		return n, true, float64(n)
	case bsoncore.TypeDouble:
		f := math.Float64frombits(binary.LittleEndian.Uint64(v.Data))
		if f >= -1<<63 && f < 1<<63 && f == math.Trunc(f) {
			return int64(f), true, f
		}
		return 0, false, f
	default:
		return 0, false, math.NaN()
	}
}

// integer is a parameter that must be a whole number, such as a limit.
func integer(v bsoncore.Value) (int64, bool) {
	n, whole, _ := number(v)
	return n, whole
}

// truthy is how MongoDB reads a flag: false, 0 and null are no.
func truthy(v bsoncore.Value) bool {
	switch classOf(v.Type) {
	case classBool:
		return v.Data[0] != 0
	case classNumber:
		n, whole, f := number(v)
		return !whole && f != 0 || n != 0
	case classNull:
		return false
	default:
		return true
	}
}

// key is a value as the key of a unique index: equal values have the same one.
func key(v bsoncore.Value) string {
	if c := classOf(v.Type); c == classNumber {
		n, whole, f := number(v)
		if whole {
			return string(binary.LittleEndian.AppendUint64([]byte{byte(c), 0}, uint64(n)))
		}
		return string(binary.LittleEndian.AppendUint64([]byte{byte(c), 1}, math.Float64bits(f)))
	}
	return string(append([]byte{byte(classOther), byte(v.Type)}, v.Data...))
}
