package pg

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// Array is one array parameter in Postgres' binary format, built element by element. The hot path sends some twenty
// arrays of a thousand elements per batch; building them by hand costs a fraction of what encoding by reflection does. The
// types below are arrays of one type each; their zero values are empty and ready to use.
type Array interface {
	Len() int      // elements so far
	Param() []byte // the finished array
	Reset()        // empties it, for the next batch
	Type() string  // of an element, as SQL spells it
}

// array is what arrays of all types have in common.
type array struct {
	n       int32
	hasNull bool
	buf     []byte // nil: empty
}

// arrayHeader is dimensions, flags, element type, length, lower bound: four bytes each.
const arrayHeader = 20

// maxKept is how much memory an array keeps for the next batch.
const maxKept = 1 << 20

func (a *array) Len() int { return int(a.n) }

func (a *array) Reset() {
	if cap(a.buf) > maxKept {
		a.buf = nil
	}
	a.n, a.hasNull, a.buf = 0, false, a.buf[:0]
}

// size begins an element of n bytes; -1 is a null.
func (a *array) size(n int) {
	if len(a.buf) == 0 {
		a.header()
	}
	a.n++
	a.buf = binary.BigEndian.AppendUint32(a.buf, uint32(n))
}

// header makes room for the header, which param fills in.
func (a *array) header() {
	var none [arrayHeader]byte
	a.buf = append(a.buf[:0], none[:]...)
}

// Null adds a null.
func (a *array) Null() {
	a.size(-1)
	a.hasNull = true
}

// param fills in the header, for elements of a type, and returns the array.
func (a *array) param(oid uint32) []byte {
	if len(a.buf) == 0 {
		a.header()
	}
	be := binary.BigEndian
	be.PutUint32(a.buf[0:], 1)
	if a.hasNull {
		be.PutUint32(a.buf[4:], 1)
	}
	be.PutUint32(a.buf[8:], oid)
	be.PutUint32(a.buf[12:], uint32(a.n))
	be.PutUint32(a.buf[16:], 1)
	return a.buf
}

// Bools is a boolean[].
type Bools struct{ array }

// Add adds a boolean.
func (a *Bools) Add(v bool) {
	a.size(1)
	if v {
		a.buf = append(a.buf, 1)
	} else {
		a.buf = append(a.buf, 0)
	}
}

// Param is the finished array.
func (a *Bools) Param() []byte { return a.param(pgtype.BoolOID) }

// Type is boolean.
func (a *Bools) Type() string { return "boolean" }

// Int16s is a smallint[].
type Int16s struct{ array }

// Add adds a smallint.
func (a *Int16s) Add(v int16) {
	a.size(2)
	a.buf = binary.BigEndian.AppendUint16(a.buf, uint16(v))
}

// Param is the finished array.
func (a *Int16s) Param() []byte { return a.param(pgtype.Int2OID) }

// Type is smallint.
func (a *Int16s) Type() string { return "smallint" }

// Int32s is an int[].
type Int32s struct{ array }

// Add adds an int.
func (a *Int32s) Add(v int32) {
	a.size(4)
	a.buf = binary.BigEndian.AppendUint32(a.buf, uint32(v))
}

// Param is the finished array.
func (a *Int32s) Param() []byte { return a.param(pgtype.Int4OID) }

// Type is int.
func (a *Int32s) Type() string { return "int" }

// Int64s is a bigint[].
type Int64s struct{ array }

// Add adds a bigint.
func (a *Int64s) Add(v int64) {
	a.size(8)
	a.buf = binary.BigEndian.AppendUint64(a.buf, uint64(v))
}

// AddOrNull adds a bigint; 0 is null.
func (a *Int64s) AddOrNull(v int64) {
	if v == 0 {
		a.Null()
		return
	}
	a.Add(v)
}

// Param is the finished array.
func (a *Int64s) Param() []byte { return a.param(pgtype.Int8OID) }

// Type is bigint.
func (a *Int64s) Type() string { return "bigint" }

// UUIDs is a uuid[].
type UUIDs struct{ array }

// Add adds a uuid.
func (a *UUIDs) Add(v [16]byte) {
	a.size(16)
	a.buf = append(a.buf, v[:]...)
}

// AddOrNull adds a uuid; the zero UUID is null.
func (a *UUIDs) AddOrNull(v [16]byte) {
	if v == ([16]byte{}) {
		a.Null()
		return
	}
	a.Add(v)
}

// Grow makes room for n more.
func (a *UUIDs) Grow(n int) { a.buf = slices.Grow(a.buf, arrayHeader+20*n) }

// Param is the finished array.
func (a *UUIDs) Param() []byte { return a.param(pgtype.UUIDOID) }

// Type is uuid.
func (a *UUIDs) Type() string { return "uuid" }

// Texts is a text[].
type Texts struct{ array }

// Add adds a text.
func (a *Texts) Add(v string) {
	a.size(len(v))
	a.buf = append(a.buf, v...)
}

// AddOrNull adds a text; an empty text is null.
func (a *Texts) AddOrNull(v string) {
	if v == "" {
		a.Null()
		return
	}
	a.Add(v)
}

// Param is the finished array.
func (a *Texts) Param() []byte { return a.param(pgtype.TextOID) }

// Type is text.
func (a *Texts) Type() string { return "text" }

// Blobs is a bytea[].
type Blobs struct{ array }

// Add adds a bytea; nil is null.
func (a *Blobs) Add(v []byte) {
	if v == nil {
		a.Null()
		return
	}
	a.size(len(v))
	a.buf = append(a.buf, v...)
}

// Param is the finished array.
func (a *Blobs) Param() []byte { return a.param(pgtype.ByteaOID) }

// Type is bytea.
func (a *Blobs) Type() string { return "bytea" }

// Times is a timestamptz[].
type Times struct{ array }

// Add adds a timestamptz; see [Time].
func (a *Times) Add(v time.Time) {
	a.size(8)
	a.buf = binary.BigEndian.AppendUint64(a.buf, uint64(Time(v)))
}

// AddOrNull adds a timestamptz; the zero time is null.
func (a *Times) AddOrNull(v time.Time) {
	if v.IsZero() {
		a.Null()
		return
	}
	a.Add(v)
}

// Param is the finished array.
func (a *Times) Param() []byte { return a.param(pgtype.TimestamptzOID) }

// Type is timestamptz.
func (a *Times) Type() string { return "timestamptz" }

// BoolParam is a boolean.
func BoolParam(v bool) []byte {
	if v {
		return []byte{1}
	}
	return []byte{0}
}

// Int32Param is an integer.
func Int32Param(v int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(v)) }

// Int64Param is a bigint.
func Int64Param(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

const (
	pgNever  = math.MinInt64 // -infinity
	pgMinUS  = -211813488000000000
	pgMaxUS  = 9223371331200000000 - 1
	unixToPG = 946684800
)

// Time returns t in Postgres' binary form, microseconds since 2000, clamped to what that can hold; the zero time is -infinity.
func Time(t time.Time) int64 {
	if t.IsZero() {
		return pgNever
	}
	sec := t.Unix() - unixToPG
	if sec > pgMaxUS/1_000_000-1 {
		return pgMaxUS
	}
	if sec < pgMinUS/1_000_000+1 {
		return pgMinUS
	}
	return sec*1_000_000 + int64(t.Nanosecond())/1_000
}

// goTime is the reverse of Time.
func goTime(us int64) time.Time {
	if us == pgNever {
		return time.Time{}
	}
	return time.Unix(us/1_000_000+unixToPG, us%1_000_000*1_000).UTC()
}
