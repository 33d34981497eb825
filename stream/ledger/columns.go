package ledger

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// column builds one array parameter in Postgres' binary format, element by element. The hot path sends some twenty
// arrays of a thousand elements per batch; building them by hand costs a fraction of what encoding by reflection does.
type column struct {
	oid uint32 // of an element
	n   int32
	nul bool
	buf []byte
}

// arrayHeader is dimensions, flags, element type, length, lower bound: four bytes each.
const arrayHeader = 20

func newColumn(oid uint32, n, width int) *column {
	return &column{oid: oid, buf: make([]byte, arrayHeader, arrayHeader+n*(4+width))}
}

// maxKept is how much memory a column keeps for the next batch.
const maxKept = 1 << 20

// reset empties the column, for the next batch.
func (c *column) reset() {
	c.n, c.nul, c.buf = 0, false, c.buf[:arrayHeader]
	if cap(c.buf) > maxKept {
		c.buf = make([]byte, arrayHeader)
	}
	clear(c.buf)
}

func (c *column) size(n int) {
	c.n++
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(n))
}

func (c *column) null() {
	c.nul = true
	c.n++
	c.buf = append(c.buf, 0xff, 0xff, 0xff, 0xff)
}

func (c *column) bool(v bool) {
	c.size(1)
	if v {
		c.buf = append(c.buf, 1)
	} else {
		c.buf = append(c.buf, 0)
	}
}

func (c *column) int16(v int16) {
	c.size(2)
	c.buf = binary.BigEndian.AppendUint16(c.buf, uint16(v))
}

func (c *column) int32(v int32) {
	c.size(4)
	c.buf = binary.BigEndian.AppendUint32(c.buf, uint32(v))
}

func (c *column) int64(v int64) {
	c.size(8)
	c.buf = binary.BigEndian.AppendUint64(c.buf, uint64(v))
}

func (c *column) uuid(v [16]byte) {
	c.size(16)
	c.buf = append(c.buf, v[:]...)
}

func (c *column) text(v string) {
	c.size(len(v))
	c.buf = append(c.buf, v...)
}

func (c *column) bytes(v []byte) {
	if v == nil {
		c.null()
		return
	}
	c.size(len(v))
	c.buf = append(c.buf, v...)
}

func (c *column) time(v time.Time) { c.int64(pgTime(v)) }

// param is the finished array.
func (c *column) param() []byte {
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

func int16Column(n int) *column { return newColumn(pgtype.Int2OID, n, 2) }
func int32Column(n int) *column { return newColumn(pgtype.Int4OID, n, 4) }
func int64Column(n int) *column { return newColumn(pgtype.Int8OID, n, 8) }
func boolColumn() *column       { return newColumn(pgtype.BoolOID, 0, 1) }
func uuidColumn(n int) *column  { return newColumn(pgtype.UUIDOID, n, 16) }
func textColumn(n int) *column  { return newColumn(pgtype.TextOID, n, 24) }
func bytesColumn(n int) *column { return newColumn(pgtype.ByteaOID, n, 0) }
func timeColumn() *column       { return newColumn(pgtype.TimestamptzOID, 0, 8) }

func boolParam(v bool) []byte {
	if v {
		return []byte{1}
	}
	return []byte{0}
}
func int32Param(v int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(v)) }
func int64Param(v int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

const (
	pgNever  = math.MinInt64 // -infinity
	pgMinUS  = -211813488000000000
	pgMaxUS  = 9223371331200000000 - 1
	unixToPG = 946684800
)

// pgTime is t in Postgres' binary form, clamped to what it can hold; the zero time is -infinity.
func pgTime(t time.Time) int64 {
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

// row reads the columns of one binary result row in order. Its first mistake sticks.
type row struct {
	vals [][]byte
	i    int
	err  error
}

func (r *row) next(width int) []byte {
	if r.err != nil || r.i >= len(r.vals) {
		if r.err == nil {
			r.err = fmt.Errorf("result row has only %d columns", len(r.vals))
		}
		return nil
	}
	v := r.vals[r.i]
	r.i++
	if width > 0 && v != nil && len(v) != width {
		r.err = fmt.Errorf("result column %d has %d bytes, not %d", r.i, len(v), width)
		return nil
	}
	return v
}

func (r *row) bool() bool {
	v := r.next(1)
	return v != nil && v[0] == 1
}

func (r *row) int32() int32 {
	if v := r.next(4); v != nil {
		return int32(binary.BigEndian.Uint32(v))
	}
	return 0
}

func (r *row) int64() int64 {
	if v := r.next(8); v != nil {
		return int64(binary.BigEndian.Uint64(v))
	}
	return 0
}

func (r *row) int64Or() *int64 {
	if v := r.next(8); v != nil {
		return new(int64(binary.BigEndian.Uint64(v)))
	}
	return nil
}

func (r *row) uuid() (u [16]byte) {
	copy(u[:], r.next(16))
	return u
}

func (r *row) text() string { return string(r.next(0)) }

// bytes is a copy: the connection reuses its buffer. Null is nil.
func (r *row) bytes() []byte {
	v := r.next(0)
	if v == nil {
		return nil
	}
	return append([]byte{}, v...)
}

func (r *row) time() time.Time {
	if v := r.next(8); v != nil {
		return goTime(int64(binary.BigEndian.Uint64(v)))
	}
	return time.Time{}
}
