package ledger

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/schemas"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
)

// viewOf is everything that one subscription has in the ledger, a line each.
var viewOf = `WITH f AS (SELECT id, partition, epoch AS of_fence, released FROM fences WHERE subscription = $1 AND epoch > 0)
SELECT concat_ws(' ', partition, 'fence', 'epoch', of_fence, CASE WHEN released THEN 'released' END) FROM f
UNION ALL SELECT concat_ws(' ', partition, 'progress', next_offset, 'high', high_offset, 'lane', next_lane_seq,
    CASE WHEN isfinite(processed_at) THEN floor(extract(epoch FROM processed_at) * 1000000)::bigint END) FROM f JOIN progress p ON p.fence = f.id
UNION ALL SELECT concat_ws(' ', partition, 'seek', row_number() OVER (PARTITION BY f.id ORDER BY k.id), from_offset, to_offset) FROM f JOIN seeks k ON k.fence = f.id
UNION ALL SELECT concat_ws(' ', partition, 'event', event_id, 'at', log_offset, 'in', window_id, decision || '/' || reason, kind, epoch, value, nullif(version_text, ''), sub,
    entity, 'lanes', lane_seq, '+', actions, 'again', duplicates) FROM f JOIN events e ON e.fence = f.id
UNION ALL SELECT concat_ws(' ', partition, 'aside', log_offset, 'in', window_id, decision || '/' || reason, nullif(event_id, '')) FROM f JOIN rejected_records d ON d.fence = f.id
UNION ALL SELECT concat_ws(' ', partition, 'line', entity || '|' || clock, kind, epoch, value, nullif(version_text, ''), sub, event_key, filtered, parked, skipped) FROM f JOIN ` + linesNow + ` l ON l.fence = f.id
UNION ALL SELECT concat_ws(' ', partition, 'waits', log_offset, 'in', window_id, event_key, epoch, value, nullif(version_text, ''), decision, nullif(stage, ''), filtered, convert_from(packed, 'UTF8')) FROM f JOIN buffer b ON b.fence = f.id
UNION ALL SELECT concat_ws(' ', partition, 'command', k.id, kind, log_offset) FROM f JOIN commands k ON k.fence = f.id WHERE k.ended_at IS NULL
UNION ALL SELECT concat_ws(' ', partition, 'attempt', lane_seq, attempt, 'in', window_id, status) FROM f JOIN attempts a ON a.fence = f.id
UNION ALL SELECT concat_ws(' ', f.partition, 'action', e.lane_seq + n.i, e.event_id, w.name, w.destination, w.on_dead,
    coalesce(x.status, CASE WHEN c.at IS NULL THEN 'pending' ELSE 'done' END), 'attempts', coalesce(x.attempts, (c.at IS NOT NULL)::int),
    CASE WHEN x.status <> 'done' AND x.class IN ('payload_lost', '` + DeadClass + `') THEN x.class END, 'copy', convert_from(x.packed, 'UTF8')) -- null: left out
  FROM f JOIN events e ON e.fence = f.id LEFT JOIN plans p ON p.id = e.plan CROSS JOIN LATERAL ` + OfAll(ActionStates) + `
  LEFT JOIN effects w ON w.id = coalesce(x.effect, p.effects[n.i + 1]) WHERE e.lane_seq IS NOT NULL`

// linesNow is the table of lines with what only events tell of them.
const linesNow = `(SELECT l.fence, l.entity, l.clock, l.kind, l.version_text, l.filtered, l.parked, l.skipped, coalesce(e.epoch, l.epoch) AS epoch,
    coalesce(e.value, l.value) AS value, coalesce(e.sub, l.sub) AS sub, coalesce(e.event_key, l.event_key) AS event_key
  FROM version_lines l JOIN progress p ON p.fence = l.fence LEFT JOIN LATERAL (
    SELECT epoch, value, sub, event_key FROM events WHERE fence = l.fence AND entity = l.entity AND clock = l.clock AND lane_window IS NULL
      AND lane_seq >= p.dirty_lines_from AND lane_seq >= l.as_of AND decision = 'applied' AND reason = 'next' AND version_text = '' ORDER BY lane_seq DESC LIMIT 1) e ON true)`

// operation is something that an owner does, with what makes it run every statement that it has. do is repeated by the next
// owner after a crash: it does what is not done yet.
type operation struct {
	prepare func(s *scene, c *Claim)
	do      func(ctx context.Context, s *scene, n *Namespace, c *Claim) error
}

// scene is a partition of its own.
type scene struct {
	*fixture
	part   int32
	direct *Namespace // past the proxy
}

// id makes a name of the scene's own: dedupe knows one memory for all partitions.
func (s *scene) id(name string) string { return fmt.Sprintf("s%d_%s", s.part, name) }

func (s *scene) seq(offset int64, entity string, value int64) Record {
	return seq(offset, s.id(entity), value)
}

func (s *scene) batch(ctx context.Context, n *Namespace, c *Claim, records ...Record) error {
	if i := slices.IndexFunc(records, func(r Record) bool { return r.Offset >= c.Next.Offset }); i > 0 {
		records = records[i:]
	} else if i < 0 {
		return nil
	}
	_, err := n.Apply(ctx, []Slice{slice(c, records...)})
	return err
}

func operations() map[string]operation {
	ten := func(s *scene) (records []Record) {
		for i := range int64(10) {
			records = append(records, s.seq(i, "e", i+1))
		}
		return records
	}
	prepareTen := func(s *scene, c *Claim) { s.apply(c, ten(s)...) }
	waiting := func(s *scene, c *Claim) {
		unwanted := s.seq(2, "f", 1)
		unwanted.Filtered = true
		s.apply(c, s.seq(0, "e", 1), s.seq(1, "e", 3), unwanted, s.seq(3, "g", 1), s.seq(4, "g", 4))
	}
	return map[string]operation{
		"apply": {waiting, func(ctx context.Context, s *scene, n *Namespace, c *Claim) error {
			conflict, unwanted := s.seq(6, "e", 1), s.seq(7, "h", 1)
			conflict.Hash[0]++
			unwanted.Filtered = true
			word := record(12, s.id("word"), s.id("w"), schemas.Version{Kind: schemas.Monotonic, Text: "b"})
			return s.batch(ctx, n, c, s.seq(5, "e", 1), conflict, unwanted, s.seq(8, "e", 2), s.seq(9, "i", 1), s.seq(10, "i", 3), s.seq(11, "e", 4), word)
		}},
		"expire": {func(s *scene, c *Claim) {
			waiting(s, c)
			s.exec(`UPDATE buffer SET deadline = now() - interval '1 hour' WHERE fence = $1 AND deadline IS NOT NULL`, c.ID)
		}, func(ctx context.Context, _ *scene, n *Namespace, c *Claim) error {
			_, err := n.Expire(ctx, c)
			return err
		}},
		"command": {func(s *scene, c *Claim) {
			waiting(s, c)
			if _, err := TestInbox.Ask(s.t.Context(), s.l, TestInbox.Place(c.ID, 4, s.seq(4, "g", 4).Key), Release, "ann", "now"); err != nil {
				s.t.Fatal(err)
			}
		}, func(ctx context.Context, s *scene, n *Namespace, c *Claim) error {
			asked, err := s.direct.Commands(context.WithoutCancel(ctx), []*Claim{c}, 0)
			if err != nil || len(asked) == 0 {
				return err
			}
			_, err = n.ApplyCommand(ctx, c, asked[0])
			return err
		}},
		"record": {func(s *scene, c *Claim) {
			prepareTen(s, c)
			s.record(Result{Claim: c, LaneSeq: 1, Status: Failed, Attempt: 1, Class: "timeout"})
		}, func(ctx context.Context, _ *scene, n *Namespace, c *Claim) error {
			_, err := n.Record(ctx, []Result{
				{Claim: c, LaneSeq: 1, Status: Done, Attempt: 2}, {Claim: c, LaneSeq: 2, Status: Done, Attempt: 1}, {Claim: c, LaneSeq: 3, Status: Done, Attempt: 1, Code: 202},
				{Claim: c, LaneSeq: 4, Status: Dead, Attempt: 1, Class: "rejected", Packed: []byte("kept")}, {Claim: c, LaneSeq: 5, Status: Failed, Attempt: 1, Class: "timeout"},
			})
			return err
		}},
		"copy": {func(s *scene, c *Claim) {
			prepareTen(s, c)
			s.record(Result{Claim: c, LaneSeq: 1, Status: Failed, Attempt: 1, Class: "timeout"}, Result{Claim: c, LaneSeq: 2, Status: Done, Attempt: 1})
		}, func(ctx context.Context, _ *scene, n *Namespace, c *Claim) error {
			_, _, err := n.Copy(ctx, c, []Copy{{1, []byte("one")}, {2, []byte("two")}, {3, []byte("three")}})
			return err
		}},
		"caught up": {prepareTen, func(ctx context.Context, _ *scene, n *Namespace, c *Claim) error {
			return n.CaughtUp(ctx, LogBegan, []*Claim{c})
		}},
		"release": {prepareTen, func(ctx context.Context, _ *scene, n *Namespace, c *Claim) error { return n.Release(ctx, c) }},
		"claim": {prepareTen, func(ctx context.Context, s *scene, n *Namespace, _ *Claim) error {
			_, err := n.Claim(ctx, ClaimRequest{Partition: partition(s.part), Partitions: manyPartitions, Confirm: func(_ context.Context, p *Position) (Start, error) {
				if p.Offset == 4 {
					return Start{Position: *p}, nil
				}
				return Start{Position: Position{Offset: 4}, Seek: &Seek{From: p.Offset, To: 4}}, nil
			}})
			return err
		}},
	}
}

const manyPartitions = 10_000

var errCrashed = errors.New("the process has ended")

// TestEveryStatement breaks every operation off at each of its statements, once with a process that goes on and once with one
// that ends. Who goes on has done all of it; after the end of a process all of it is done or nothing, and the next owner
// brings it to the same end.
func TestEveryStatement(t *testing.T) {
	t.Parallel()
	f := setup(t)
	p, g := throughProxy(t, f)
	part := int32(0)
	for name, op := range operations() {
		next := func() (*scene, *Claim) {
			part++
			s := &scene{g, part, f.n}
			c := s.take(g.n)
			op.prepare(s, c)
			return s, c
		}
		s, c := next()
		before := s.shown()
		if err := op.do(t.Context(), s, g.n, c); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		after := s.shown()
		if slices.Equal(before, after) && name != "claim" {
			t.Fatalf("%s changes nothing", name)
		}
		points := 0
		for hit := true; hit; points++ {
			for _, crash := range []bool{false, true} {
				s, c := next()
				ctx, cancel := context.WithCancelCause(t.Context())
				p.Cut.Store(&cut{Skip: points, Then: func() {
					if crash {
						cancel(errCrashed)
					}
				}})
				cuts := p.Cuts.Load()
				err := op.do(ctx, s, g.n, c)
				hit = p.Cuts.Load() > cuts
				p.Cut.Store(nil)
				cancel(nil)
				now := s.shown()
				switch {
				case !hit || !crash && (name != "claim" || err == nil):
					if d := cmp.Diff(after, now); d != "" || err != nil {
						t.Errorf("%s, broken at %d: %v %s", name, points, err, d)
					}
					continue
				case !slices.Equal(now, before) && !slices.Equal(now, after):
					t.Errorf("%s, crash at %d: neither as before nor as after it\n%s", name, points, cmp.Diff(after, now))
				}
				if err := op.do(t.Context(), s, f.n, s.take(f.n)); err != nil {
					t.Errorf("%s, crash at %d, the next owner: %v", name, points, err)
				}
				if d := cmp.Diff(after, s.shown()); d != "" {
					t.Errorf("%s, crash at %d, then by the next owner: %s", name, points, d)
				}
			}
		}
		t.Logf("%s: %d statements", name, points-1)
		if least := map[string]int{"apply": 15, "expire": 9, "command": 9, "record": 6, "copy": 5, "caught up": 3, "release": 3, "claim": 12}[name]; points-1 < least {
			t.Errorf("%s has %d statements, want at least %d", name, points-1, least)
		}
	}
}

// take claims the scene's partition where the ledger stands.
func (s *scene) take(n *Namespace) *Claim {
	s.t.Helper()
	c, err := n.Claim(s.t.Context(), ClaimRequest{Partition: partition(s.part), Partitions: manyPartitions, Confirm: at(0)})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

var scenery = regexp.MustCompile(`epoch \d+|[0-9a-f]{8}-[0-9a-f-]{27}|command \d+`)

// shown is what the ledger says of the scene, without what tells it from others.
func (s *scene) shown() []string {
	s.t.Helper()
	rows, err := s.l.read.Query(s.t.Context(), strings.Replace(viewOf, "epoch > 0", "partition = $2", 1), s.n.id, s.part)
	if err != nil {
		s.t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		s.t.Fatal(err)
	}
	for i, l := range lines {
		l = strings.TrimPrefix(l, fmt.Sprintf("%d ", s.part))
		lines[i] = scenery.ReplaceAllString(strings.ReplaceAll(l, s.id(""), ""), "-")
	}
	slices.Sort(lines)
	return lines
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.l.hot.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatal(err)
	}
}
