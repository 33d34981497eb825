package pg

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgtype"
)

// What an array sends is what pgx reads of an array of its type, also when it is used again.
func TestArraysAreWhatPgxReads(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 1, 2, 3, 4000, time.UTC)
	var (
		bools  Bools
		shorts Int16s
		ints   Int32s
		longs  Int64s
		ids    UUIDs
		texts  Texts
		blobs  Blobs
		times  Times
	)
	fill := func() {
		bools.Add(true)
		bools.Add(false)
		shorts.Add(-7)
		ints.Add(1 << 30)
		longs.AddOrNull(-1 << 40)
		longs.AddOrNull(0)
		ids.Grow(2)
		ids.AddOrNull([16]byte{1, 15: 2})
		ids.AddOrNull([16]byte{})
		texts.Add("")
		texts.AddOrNull("")
		texts.AddOrNull("ä")
		blobs.Add([]byte{})
		blobs.Add(nil)
		blobs.Add([]byte{0, 255})
		times.Add(at)
		times.AddOrNull(time.Time{})
	}
	long, id, empty, text := int64(-1<<40), [16]byte{1, 15: 2}, "", "ä"
	for round := range 3 {
		for _, a := range []Array{&bools, &shorts, &ints, &longs, &ids, &texts, &blobs, &times} {
			a.Reset()
			if n, got := a.Len(), read[any](t, a, anyOID(a)); n != 0 || len(got) != 0 {
				t.Errorf("round %d: %s, reset: %d, %v", round, a.Type(), n, got)
			}
		}
		fill()
		equal(t, []bool{true, false}, read[bool](t, &bools, pgtype.BoolArrayOID))
		equal(t, []int16{-7}, read[int16](t, &shorts, pgtype.Int2ArrayOID))
		equal(t, []int32{1 << 30}, read[int32](t, &ints, pgtype.Int4ArrayOID))
		equal(t, []*int64{&long, nil}, read[*int64](t, &longs, pgtype.Int8ArrayOID))
		equal(t, []*[16]byte{&id, nil}, read[*[16]byte](t, &ids, pgtype.UUIDArrayOID))
		equal(t, []*string{&empty, nil, &text}, read[*string](t, &texts, pgtype.TextArrayOID))
		equal(t, [][]byte{{}, nil, {0, 255}}, read[[]byte](t, &blobs, pgtype.ByteaArrayOID))
		got := read[*time.Time](t, &times, pgtype.TimestamptzArrayOID)
		if len(got) != 2 || got[0] == nil || !got[0].Equal(at) || got[1] != nil {
			t.Errorf("times %v", got)
		}
	}
}

func anyOID(a Array) uint32 {
	return map[string]uint32{"boolean": pgtype.BoolArrayOID, "smallint": pgtype.Int2ArrayOID, "int": pgtype.Int4ArrayOID, "bigint": pgtype.Int8ArrayOID,
		"uuid": pgtype.UUIDArrayOID, "text": pgtype.TextArrayOID, "bytea": pgtype.ByteaArrayOID, "timestamptz": pgtype.TimestamptzArrayOID}[a.Type()]
}

func read[T any](t *testing.T, a Array, oid uint32) (got []T) {
	t.Helper()
	if err := pgtype.NewMap().Scan(oid, pgtype.BinaryFormatCode, a.Param(), &got); err != nil {
		t.Fatalf("%s: %v", a.Type(), err)
	}
	return got
}

func equal[T any](t *testing.T, want, got []T) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
