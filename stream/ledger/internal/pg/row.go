package pg

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// Row reads the columns of one binary result row, one after the other. After an error all columns are zero.
type Row struct {
	vals [][]byte
	i    int   // the next column
	err  error // the first; Pipeline.Run returns it
}

// next returns the next column, nil if it is NULL. It must have width bytes, if width is above zero.
func (r *Row) next(width int) []byte {
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

// Bool is false where the column is null.
func (r *Row) Bool() bool {
	v := r.next(1)
	return v != nil && v[0] == 1
}

// Int32 is 0 where the column is null.
func (r *Row) Int32() int32 {
	if v := r.next(4); v != nil {
		return int32(binary.BigEndian.Uint32(v))
	}
	return 0
}

// Int64 is 0 where the column is null.
func (r *Row) Int64() int64 {
	if v := r.next(8); v != nil {
		return int64(binary.BigEndian.Uint64(v))
	}
	return 0
}

// Int64Or returns nil if the column is null.
func (r *Row) Int64Or() *int64 {
	if v := r.next(8); v != nil {
		return new(int64(binary.BigEndian.Uint64(v)))
	}
	return nil
}

// UUID is zero where the column is null.
func (r *Row) UUID() (u [16]byte) {
	copy(u[:], r.next(16))
	return u
}

// Text is empty where the column is null.
func (r *Row) Text() string { return string(r.next(0)) }

// Int64s returns a bigint[]; nil if the column is null.
func (r *Row) Int64s() (all []int64) {
	raw := r.next(0)
	if raw == nil {
		return nil
	}
	if err := types.Scan(pgtype.Int8ArrayOID, pgtype.BinaryFormatCode, raw, &all); err != nil {
		r.err = fmt.Errorf("result column %d: %w", r.i, err)
		return nil
	}
	return all
}

// types knows Postgres' own types; it is only read.
var types = pgtype.NewMap()

// Bytes returns a copy, because the connection reuses its buffer; nil if the column is null.
func (r *Row) Bytes() []byte {
	v := r.next(0)
	if v == nil {
		return nil
	}
	return append([]byte{}, v...)
}

// Time is zero where the column is null, or -infinity.
func (r *Row) Time() time.Time {
	if v := r.next(8); v != nil {
		return goTime(int64(binary.BigEndian.Uint64(v)))
	}
	return time.Time{}
}
