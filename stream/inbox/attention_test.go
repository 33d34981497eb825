package inbox

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// counts is what waits, as one look counts it.
func (f *fixture) counts() ([]AttentionCount, error) {
	var t Tally
	err := f.tally(f.t.Context(), &t)
	return t.Counts(), err
}

// counted is what waits, as "subscription kind": how much.
func (f *fixture) counted() map[string]int64 {
	f.t.Helper()
	counts, err := f.counts()
	if err != nil {
		f.t.Fatal(err)
	}
	out := map[string]int64{}
	for _, c := range counts {
		if c.More {
			f.t.Errorf("%+v is said to be more", c)
		}
		out[c.Team+"."+c.Subscription+" "+string(c.Kind)] = c.Count
	}
	return out
}

// listed is what waits, as "kind topic/partition@offset entity (reason)".
func (f *fixture) listed(limit int) (out []string) {
	f.t.Helper()
	counts, err := f.counts()
	if err != nil {
		f.t.Fatal(err)
	}
	all, err := f.Attention(f.t.Context(), counts, limit)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, a := range all {
		if a.Since.IsZero() || a.Events < 1 || a.Team != "acme" {
			f.t.Errorf("%+v", a)
		}
		out = append(out, fmt.Sprintf("%s %d@%d %s %d (%s)", a.Kind, a.Partition, a.Offset, a.Entity, a.Events, a.Reason))
	}
	return out
}

// stand makes one thing of each kind wait on partition 0: a line with two events over a cap, a held event, a conflict, what cannot be
// decided, a dead letter, one of a loop, and on partition 1 a gap that nobody ends.
func stand(f *fixture) *ledger.Claim {
	c := f.claim(0)
	twin := record(4, "twin", "held", schemas.Version{Kind: schemas.Sequence, Value: 1})
	f.apply(c, seq(0, "e", 1), seq(1, "e", 3), seq(2, "e", 4), seq(3, "held", 1), twin, seq(6, "same", 1))
	c = f.claim(0)
	again := seq(7, "same", 1)
	again.Hash[0]++
	a := f.apply(c, again, aside(8, gate.ReasonUndecodable), seq(9, "dead", 1))
	f.die(c, a.Actions[0].LaneSeq, "dead-1", 1)
	a = f.apply(c, seq(10, "loop", 1))
	f.record(ledger.Result{Claim: c, LaneSeq: a.Actions[0].LaneSeq, ID: actionID("loop-1"), Status: ledger.Dead, Attempt: 1, Class: "loop", Error: "31 in an hour", Guarded: true})
	c1 := f.claim(1)
	f.apply(c1, seq(0, "late", 1), seq(1, "late", 3))
	f.exec(`UPDATE buffer SET deadline = now() - interval '1 hour' WHERE fence = $1`, c1.ID)
	return c
}

// Everything in the ledger that waits for an operator is counted and listed, once, and what has been dealt with is not.
func TestAttentionOfTheLedger(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *ledger.Spec) { s.Policy.Equal, s.Policy.MaxPerEntity = gate.EqualHold, 1 })
	c := stand(f)
	f.turnWindow() // what waits is in a closed window as well
	want := map[string]int64{"acme.triage parked": 1, "acme.triage held": 1, "acme.triage overdue_gap": 1, "acme.triage conflict": 1,
		"acme.triage quarantined_record": 1, "acme.triage dead_letter": 1, "acme.triage loop": 1}
	if d := cmp.Diff(want, f.counted()); d != "" {
		t.Error(d)
	}
	rows := []string{"parked 0@1 e 2 (overflow)", "held 0@4 held 1 (equal_held)", "overdue_gap 1@1 late 1 (gap)", "conflict 0@7 same 1 (body_differs)",
		"quarantined_record 0@8  1 (undecodable)", "dead_letter 0@9 dead 1 ()", "loop 0@10 loop 1 ()"}
	if d := cmp.Diff(rows, f.listed(10)); d != "" {
		t.Error(d)
	}

	for _, offset := range []int64{7, 8} {
		if err := f.Discard(t.Context(), f.place(offset), "jo", "seen"); err != nil {
			t.Fatal(err)
		}
		item := f.place(offset)
		if item.Status != "discarded" || item.Redriven != nil || item.Discarded == nil || item.Discarded.By != "jo" || item.Discarded.Reason != "seen" {
			t.Errorf("%+v %+v", item, item.Discarded)
		}
		if err := f.Discard(t.Context(), item, "jo", "again"); schemas.KindOf(err) != schemas.Conflict {
			t.Errorf("a second time: %v", err)
		}
	}
	if raw, err := f.redrive(f.place(8), true); raw != "" || schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "discarded") {
		t.Errorf("what was discarded is redriven: %q %v", raw, err)
	}
	if raw, err := f.redrive(f.place(8), false); raw != "raw 8" || err != nil {
		t.Errorf("and again, as asked: %q %v", raw, err)
	}
	if item := f.place(8); item.Status != "redriven" || item.Discarded != nil {
		t.Errorf("%+v", item)
	}
	f.askAction("dead-1", ledger.Discard, ledger.CommandDetail{})
	f.applyLaneCommands(c)
	delete(want, "acme.triage conflict")
	delete(want, "acme.triage quarantined_record")
	delete(want, "acme.triage dead_letter")
	if d := cmp.Diff(want, f.counted()); d != "" {
		t.Error(d)
	}
}

// The limit of a list is about version lines: one with more events than that hides no other.
func TestAttentionListsLinesNotEvents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind AttentionKind
		cap  int
		want []string // of the busy entity and the other one
	}{
		{AttentionParked, 1, []string{"parked 0@1 busy 25 (overflow)", "parked 0@27 other 2 (overflow)"}},
		{AttentionOverdue, 100, []string{"overdue_gap 0@1 busy 25 (gap)", "overdue_gap 0@27 other 2 (gap)"}},
	} {
		f := setup(t, func(s *ledger.Spec) { s.Policy.MaxPerEntity = c.cap })
		cl := f.claim(0)
		records := []ledger.Record{seq(0, "busy", 1)}
		for n := range int64(25) {
			records = append(records, seq(1+n, "busy", 3+n))
		}
		f.apply(cl, append(records, seq(26, "other", 1), seq(27, "other", 3), seq(28, "other", 4))...)
		if c.kind == AttentionOverdue {
			f.exec(`UPDATE buffer SET deadline = now() - interval '1 hour'`)
		}
		for limit := 1; limit <= 20; limit += 19 {
			if d := cmp.Diff(c.want[:min(limit, 2)], f.listed(limit)); d != "" {
				t.Errorf("%s, at most %d: %s", c.kind, limit, d)
			}
		}
		if got := f.counted()["acme.triage "+string(c.kind)]; got != 2 {
			t.Errorf("%d lines of %s are counted", got, c.kind)
		}
	}
}

// A conflict that was discarded stays so when a rewind has it decided again.
func TestDiscardOutlivesARewind(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "same", 1))
	other := seq(1, "same", 1)
	other.Hash[0]++
	f.apply(c, other)
	if err := f.Discard(t.Context(), f.place(1), "jo", "seen"); err != nil {
		t.Fatal(err)
	}
	f.exec(`UPDATE progress SET next_offset = 0`)
	c = f.claim(0)
	f.apply(c, seq(0, "same", 1), other)
	if item := f.place(1); item.Status != "discarded" || item.Decision != gate.Conflict {
		t.Errorf("%+v", item)
	}
	if got := f.counted(); len(got) != 0 {
		t.Error(got)
	}
}

// attentionDone is how many rows of each table are done, or wait for nobody, while the plans are looked at.
const attentionDone = 20_000

// However much is done, what waits is found by the whole keys of indexes that have nothing else, and no more is read for it.
func TestAttentionReadsNothingThatIsDone(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *ledger.Spec) { s.Policy.Equal, s.Policy.MaxPerEntity = gate.EqualHold, 1 })
	stand(f)
	before := f.blocks()
	w := one[int32](f, `SELECT max(id) FROM windows WHERE state = 'current'`)
	fence := one[int32](f, `SELECT min(id) FROM fences`)
	f.exec(ledger.OfWindow(w, `INSERT INTO rejected_records_w{w} SELECT window_id, fence, 1000 + n, leader_epoch, event_key, hash, first_hash, received_at, decided_at,
		'filtered', 'type', kind, epoch, value, sub, clock, entity, source, event_id, type, version_text, NULL, NULL, NULL, NULL, NULL, false
		FROM rejected_records_w{w}, generate_series(1, $1::int) n WHERE decision = 'conflict'`), attentionDone)
	f.exec(ledger.OfWindow(w, `INSERT INTO actions_w{w} (window_id, fence, lane_seq, event_key, event_window, effect, created_at, finished_at, attempts, open, status)
		SELECT {w}, $2, 100000 + n, event_key, {w}, effect, now(), now(), 2, false, 'done' FROM actions_w{w}, generate_series(1, $1::int) n WHERE status = 'dead_letter' AND class = 'rejected'`), attentionDone, fence)
	f.exec(`INSERT INTO buffer SELECT fence, 1000 + n, window_id, leader_epoch, append_time, received_at, now() + interval '1 day', buffered_at, gen_random_uuid(), hash,
		epoch, value, sub, first, deleted, filtered, unmatched, backfill, repeats, decision, stage, payload, kind, 'e' || n, clock, source, event_id, type, version_text, ''
		FROM buffer, generate_series(1, $1::int) n WHERE decision = 'buffered'`, attentionDone)
	if after := f.blocks(); after > before+100 {
		t.Errorf("%d blocks were read beside %d done rows, %d without", after, attentionDone, before)
	}
	f.exec(`ANALYZE rejected_records, actions, buffer, events, version_lines`)
	if after := f.blocks(); after > before+100 {
		t.Errorf("%d blocks were read beside %d analyzed rows, %d without", after, attentionDone, before)
	}
}

// blocks explains and runs the questions as they are asked, and gives how many blocks they read in all. It fails where a plan reads a table
// from end to end.
func (f *fixture) blocks() (sum int) {
	f.t.Helper()
	all, err := attendance{f.slow}.subscriptions(f.t.Context(), 0)
	if err != nil || len(all) != 1 {
		f.t.Fatal(all, err)
	}
	s := all[0]
	type question struct {
		sql  string
		args []any
	}
	questions := map[string]question{"count": {attentionCount, []any{s.ID, attentionReads, overdueAfter.Microseconds()}}, "dead": {attentionDead, []any{s.ID, attentionReads, false, attentionReads}},
		"facts of the dead": {deadFacts, []any{s.ID, deadFactsReads, ledger.FlaggedDeaths}}}
	for kind, sql := range attentionRows {
		questions[string(kind)] = question{sql, s.args(kind, attentionReads)}
	}
	for name, q := range questions {
		var text string
		err := attendance{f.slow}.attend(f.t.Context(), s, func(tx pgx.Tx, s attended) error {
			return tx.QueryRow(f.t.Context(), "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+ledger.OfWindows(s.Windows, q.sql), q.args...).Scan(&text)
		})
		if err != nil {
			f.t.Fatalf("%s: %v", name, err)
		}
		for _, bad := range []string{`"Seq Scan"`, "Bitmap", "Hash Join", "Merge Join"} {
			if strings.Contains(text, bad) {
				f.t.Errorf("%s: %s in\n%s", name, bad, text)
			}
		}
		var plan []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}
		if err := json.Unmarshal([]byte(text), &plan); err != nil {
			f.t.Fatal(err)
		}
		sum += plan[0].Plan.Hit + plan[0].Plan.Read
	}
	return sum
}
