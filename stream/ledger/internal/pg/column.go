package pg

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// Column builds one array parameter in Postgres' binary format, element by element. The hot path sends some twenty
// arrays of a thousand elements per batch; building them by hand costs a fraction of what encoding by reflection does.
type Column struct {
	oid uint32 // of an element
	n   int32
	nul bool
	buf []byte
}

// arrayHeader is dimensions, flags, element type, length, lower bound: four bytes each.
const arrayHeader = 20

func newColumn(oid uint32, n, width int) *Column {
	return &Column{oid: oid, buf: make([]byte, arrayHeader, arrayHeader+n*(4+width))}
}

// maxKept is how much memory a column keeps for the next batch.
const maxKept = 1 << 20

// Reset empties the column, for the next batch.
func (c *Column) Reset() {
	c.n, c.nul, c.buf = 0, false, c.buf[:arrayHeader]
	if cap(c.buf) > maxKept {
		c.buf = make([]byte, arrayHeader)
	}
	clear(c.buf)
}

// Len is how many elements there are.
func (c *Column) Len() int { return int(c.n) }

func (c *Column) size(n int) {
	c.n++
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(n))
}

// Null adds a null.
func (c *Column) Null() {
	c.nul = true
	c.n++
	c.buf = append(c.buf, 0xff, 0xff, 0xff, 0xff)
}

// Bool adds a boolean.
func (c *Column) Bool(v bool) {
	c.size(1)
	if v {
		c.buf = append(c.buf, 1)
	} else {
		c.buf = append(c.buf, 0)
	}
}

// Int16 adds a smallint.
func (c *Column) Int16(v int16) {
	c.size(2)
	c.buf = binary.BigEndian.AppendUint16(c.buf, uint16(v))
}

// Int32 adds an integer.
func (c *Column) Int32(v int32) {
	c.size(4)
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(v))
}

// Int64 adds a bigint.
func (c *Column) Int64(v int64) {
	c.size(8)
	c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(v))
}

// UUID adds a uuid.
func (c *Column) UUID(v [16]byte) {
	c.size(16)
	c.buf = append(c.buf, v[:]...)
}

// Text adds a text.
func (c *Column) Text(v string) {
	c.size(len(v))
	c.buf = append(c.buf, v...)
}

// Bytes adds a bytea; nil is null.
func (c *Column) Bytes(v []byte) {
	if v == nil {
		c.Null()
		return
	}
	c.size(len(v))
	c.buf = append(c.buf, v...)
}

// Time adds a timestamptz; see [Time].
func (c *Column) Time(v time.Time) { c.Int64(Time(v)) }

// Param is the finished array.
func (c *Column) Param() []byte {
	be := binary.BigEndian
	be.PutUint32(c.buf[0:], 1)
	if c.nul {
		be.PutUint32(c.buf[4:], 1)
	}
	be.PutUint32(c.buf[8:], c.oid)
	be.PutUint32(c.buf[12:], uint32(c.n))
	be.PutUint32(c.buf[16:], 1)
	return c.buf
}

// Int16Column is an empty smallint[] with room for n.
func Int16Column(n int) *Column { return newColumn(pgtype.Int2OID, n, 2) }

// Int32Column is an empty integer[] with room for n.
func Int32Column(n int) *Column { return newColumn(pgtype.Int4OID, n, 4) }

// Int64Column is an empty bigint[] with room for n.
func Int64Column(n int) *Column { return newColumn(pgtype.Int8OID, n, 8) }

// BoolColumn is an empty boolean[].
func BoolColumn() *Column { return newColumn(pgtype.BoolOID, 0, 1) }

// UUIDColumn is an empty uuid[] with room for n.
func UUIDColumn(n int) *Column { return newColumn(pgtype.UUIDOID, n, 16) }

// TextColumn is an empty text[] with room for n of some length.
func TextColumn(n int) *Column { return newColumn(pgtype.TextOID, n, 24) }

// BytesColumn is an empty bytea[] with room for n empty ones.
func BytesColumn(n int) *Column { return newColumn(pgtype.ByteaOID, n, 0) }

// TimeColumn is an empty timestamptz[].
func TimeColumn() *Column { return newColumn(pgtype.TimestamptzOID, 0, 8) }

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

// Time is t in Postgres' binary form, clamped to what it can hold; the zero time is -infinity.
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

func goTime(us int64) time.Time {
	if us == pgNever {
		return time.Time{}
	}
	return time.Unix(us/1_000_000+unixToPG, us%1_000_000*1_000).UTC()
}
