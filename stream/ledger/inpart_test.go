package ledger

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// parkMany parks n more events on the version line of e, behind e-3, which waits for e-2: e-4 and on. Their offsets are far ahead.
func (f *fixture) parkMany(n int) {
	f.t.Helper()
	w := f.n.windows.Load().current
	for _, sql := range []string{
		`INSERT INTO events_w{w} (window_id, fence, log_offset, event_key, hash, received_at, decided_at, epoch, value, sub, leader_epoch, plan, actions,
			decision, reason, kind, clock, entity, source, event_id, type, parked_at)
		SELECT {w}, e.fence, (1::bigint << 40) + n, lpad(to_hex(n), 32, '0')::uuid, e.hash, now(), now(), 0, n, 0, 0, e.plan, 0,
			e.decision, e.reason, e.kind, '', e.entity, e.source, 'e-' || n, e.type, now()
		FROM (SELECT * FROM events WHERE event_id = 'e-3') e, generate_series($1::int, $2::int) n`,
		`INSERT INTO buffer (fence, log_offset, window_id, leader_epoch, append_time, received_at, event_key, hash, epoch, value, sub, deleted, filtered,
			decision, payload, kind, entity, clock, source, event_id, type, packed)
		SELECT b.fence, (1::bigint << 40) + n, {w}, 0, now(), now(), lpad(to_hex(n), 32, '0')::uuid, b.hash, 0, n, 0, false, false,
			'parked', b.payload, b.kind, b.entity, '', b.source, 'e-' || n, b.type, b.packed
		FROM (SELECT * FROM buffer WHERE event_id = 'e-3') b, generate_series($1::int, $2::int) n`,
	} {
		for from := 4; from < 4+n; from += 50_000 {
			if _, err := f.l.read.Exec(f.t.Context(), OfWindow(w, sql), from, min(from+50_000, 4+n)-1); err != nil {
				f.t.Fatal(err)
			}
		}
	}
}

// bufferSome has the statistics know of what waits with a deadline alone.
func (f *fixture) bufferSome() {
	f.t.Helper()
	admin(f.t, f.cfg.URL.Reveal(), fmt.Sprintf(`INSERT INTO %[1]s.buffer (fence, log_offset, window_id, leader_epoch, append_time, received_at, deadline, event_key, hash, epoch, value, sub,
			deleted, filtered, decision, payload, kind, entity, clock, source, event_id, type, packed)
		SELECT b.fence, (1::bigint << 50) + n, b.window_id, 0, now(), now(), now() + interval '1 hour', lpad(to_hex((1::bigint << 50) + n), 32, '0')::uuid, b.hash, 0, n, 0,
			false, false, 'buffered', b.payload, b.kind, 'b' || n, '', b.source, 'b-' || n, b.type, b.packed
		FROM (SELECT * FROM %[1]s.buffer WHERE event_id = 'e-3') b, generate_series(1, 1000) n; ANALYZE %[1]s.buffer`, f.cfg.Schema))
}

// manyOf is e-value as parkMany has parked it, redelivered.
func manyOf(offset int64, value uint64) Record {
	r := seq(offset, "e", int64(value))
	r.Key, r.Hash = schemas.EventKey{}, schemas.HashBody([]byte("e-3"))
	binary.BigEndian.PutUint64(r.Key[8:], value)
	return r
}

// given returns how many waiting events the gate is given for a batch, which is rolled back.
func (f *fixture) given(w *partitionBatch) (n int) {
	f.t.Helper()
	conn, err := f.l.hot.Acquire(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Release()
	w.scratch = scratches.Get().(*scratch)
	defer w.giveBack()
	tx := &batchTx{n: f.n, win: f.n.windows.Load(), parts: []*partitionBatch{w}, byFence: map[int32]*partitionBatch{}, p: &pg.Pipeline{Conn: conn},
		seen: w.seen, seenAt: map[schemas.EventKey]int32{}, also: newAlsoKeys()}
	for _, step := range []func(context.Context) error{tx.lock, tx.read} {
		if err := step(f.t.Context()); err != nil {
			f.t.Fatal(err)
		}
	}
	for _, waiting := range w.state.Waiting {
		n += len(waiting)
	}
	if _, err := conn.Exec(f.t.Context(), `ROLLBACK`); err != nil {
		f.t.Fatal(err)
	}
	return n
}

// plansOfParked: with any statistics, what is read of a line is found by the index that has it in order.
func (f *fixture) plansOfParked(c *Claim) {
	f.t.Helper()
	fences, entities, clocks := []int32{c.ID}, []string{"e"}, []string{""}
	for what, n := range map[string]int{
		"a glance":    f.blocks(f.l.hot, bufferRead.SQL, fences, entities, clocks, 64),
		"nothing":     f.blocks(f.l.hot, bufferRead.SQL, fences, []string{"nobody"}, clocks, 64),
		"the lowest":  f.blocks(f.l.hot, parkedLowest.SQL, fences, entities, clocks, 20),
		"the highest": f.blocks(f.l.hot, parkedHighest.SQL, fences, entities, clocks),
		"keys":        f.blocks(f.l.hot, parkedKeys.SQL, fences, [][16]byte{manyOf(0, 5_000).Key}),
	} {
		if n > 90 {
			f.t.Errorf("%s: %d blocks are read", what, n)
		}
	}
}

// However many events are parked on a line, a batch and a step of a release read a few, and decide as if they had read all.
func TestManyParkedEventsAreReadInPart(t *testing.T) {
	t.Parallel()
	const many, step = 10_000, 20
	f := setup(t, func(s *Spec) { s.Policy.Then, s.Policy.GapWait, s.Policy.MaxReleases = gate.ThenPark, 0, step })
	f.neverVacuumed()
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), seq(1, "e", 3))
	f.bufferSome()
	f.parkMany(many)
	c = f.claim(0)
	f.plansOfParked(c)
	admin(f.t, f.cfg.URL.Reveal(), fmt.Sprintf(`DELETE FROM %[1]s.buffer WHERE decision = 'buffered'`, f.cfg.Schema))
	f.plansOfParked(c)
	admin(f.t, f.cfg.URL.Reveal(), fmt.Sprintf(`ANALYZE %[1]s.buffer, %[1]s.events`, f.cfg.Schema))
	f.plansOfParked(c)
	if n := f.given(&partitionBatch{Slice: slice(c, manyOf(2, 5_000), seq(3, "e", many+4))}); n > 2*step+4 {
		t.Errorf("%d events are read for a batch of two", n)
	}
	a := f.apply(c, manyOf(2, 5_000), seq(3, "e", many+4), seq(4, "other", 1))
	if got := decisions(a); !slices.Equal(got, []string{"0:duplicate/seen", "1:parked/behind_park", "2:applied/first"}) {
		t.Error(got)
	}
	a = f.apply(c, seq(5, "e", 2))
	released, want := len(a.Actions)-1, int64(2)
	for range 3 {
		for _, action := range a.Actions {
			if action.EventID != fmt.Sprintf("e-%d", want) {
				t.Fatalf("%s runs, not e-%d", action.EventID, want)
			}
			want++
		}
		f.deadlines(c)
		if n := f.given(&partitionBatch{Slice: Slice{Claim: c}, expire: true}); n > 2*step+4 {
			t.Errorf("%d events are read for a step of a release", n)
		}
		a = f.expire(c)
		released += len(a.Actions)
	}
	if left := one[int](f, `SELECT count(*) FROM buffer`); released != 4*step || left != many+2-released {
		t.Errorf("%d are released, %d wait", released, left)
	}
	if len(c.cache.lines) != 1 { // other
		t.Errorf("%d lines are cached", len(c.cache.lines))
	}
}

// Where a part of a line is not enough, the batch is tried again with the line whole: all that waits runs, in order, and what has come is the last.
func TestLinesThatAreNeededWhole(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		then  func(*Spec)
		comes schemas.Version
	}{
		"another kind":          {func(*Spec) {}, schemas.Version{Kind: schemas.Timestamp, Value: 5}},
		"the order is arrival":  {func(s *Spec) { s.Policy.Order = gate.OrderArrival }, schemas.Version{Kind: schemas.Sequence, Value: 40}},
		"given up with the old": {func(s *Spec) { s.Policy.Then = gate.ThenDeadLetter }, schemas.Version{Kind: schemas.Sequence, Epoch: 2, Value: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t, func(s *Spec) { s.Policy.Then, s.Policy.GapWait, s.Policy.MaxReleases = gate.ThenPark, 0, 2 })
			c := f.claim(0)
			records := []Record{seq(0, "e", 1)}
			for v := int64(3); v <= 20; v++ {
				records = append(records, seq(v, "e", v))
			}
			f.apply(c, records...)
			f.n = f.namespace(func(s *Spec) { s.Policy.GapWait, s.Policy.MaxReleases = 0, 2; test.then(s) })
			c = f.claim(0)
			if n := f.given(&partitionBatch{Slice: slice(c, record(100, "new", "e", test.comes))}); n != 7 {
				t.Errorf("%d events are read at first", n)
			}
			var ran []string
			say := func(a Applied) {
				for _, o := range a.Outcomes {
					switch {
					case o.Decision == gate.Parked:
					case o.Record >= 0:
						ran = append(ran, "new")
					default:
						ran = append(ran, fmt.Sprint(o.Released.Version.Value))
					}
				}
			}
			say(f.apply(c, record(100, "new", "e", test.comes)))
			for len(f.deadlines(c)) > 0 {
				say(f.expire(c))
			}
			want := []string{"3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20", "new"}
			if !slices.Equal(ran, want) && !slices.Equal(ran, append(want[:18:18], fmt.Sprint(test.comes.Value))) { // where it waited, it is named by its value
				t.Error(ran)
			}
			if n := one[int](f, `SELECT count(*) FROM buffer`); n != 0 {
				t.Errorf("%d still wait", n)
			}
		})
	}
}
