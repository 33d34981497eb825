package inbox

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Of the lists that are looked at by their plans: so many events in so many windows, every tenth of which has a dead letter.
var (
	listed        = 300_000
	listedWindows = 20
)

// TestListsReadNoMoreThanAPage: beside very many events and their dead letters in many windows, each page of a list costs what is on it,
// be it the first, one in the middle or the last, of one subscription, of a team and of all. In make soak they are a million.
func TestListsReadNoMoreThanAPage(t *testing.T) {
	t.Parallel()
	if soaking {
		listed = 1_000_000
	}
	f := setup(t)
	f.fill()
	count := &counting{pool: f.slow, t: t}
	f.slow, f.behindReads, f.groupReads = count, 1000, 1000
	middle := func(part float64) time.Time {
		return one[time.Time](f, `SELECT decided_at FROM events WHERE event_id = $1`, fmt.Sprintf("n-%d", listed-int(part*float64(listed))))
	}
	deadCursor := func(fence int32, laneSeq int64) string {
		return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d", fence, laneSeq))
	}
	fences := one[[]int32](f, `SELECT array_agg(id ORDER BY id) FROM fences`)
	last := fences[len(fences)-1]
	type ask struct {
		name string
		most int // blocks
		do   func() (items int, err error)
	}
	var asks []ask
	for of, scope := range map[string]struct{ team, subscription string }{"all": {}, "a team": {team: "acme"}, "a subscription": {"acme", "triage"}} {
		for page, cursor := range map[string]string{
			"first": "", "middle": cursorOf(&Item{DecidedAt: middle(0.5), Fence: fences[0]}), "last": cursorOf(&Item{DecidedAt: middle(0.9999), Fence: fences[0]})} {
			asks = append(asks, ask{"inbox of " + of + ", " + page, 9000, func() (int, error) { // the longer ago the newest came, the more slices of time
				p, err := f.List(t.Context(), Query{Team: scope.team, Subscription: scope.subscription, Cursor: cursor})
				return len(p.Items), err
			}})
		}
		for page, cursor := range map[string]string{"first": "", "middle": deadCursor(fences[len(fences)/2], int64(listed/2)), "last": deadCursor(last, int64(listed-500))} {
			asks = append(asks, ask{"dead letters of " + of + ", " + page, 6000, func() (int, error) {
				p, err := f.DeadLetters(t.Context(), DeadLetterQuery{Team: scope.team, Subscription: scope.subscription, Cursor: cursor})
				return len(p.Items), err
			}})
		}
		asks = append(asks, ask{"dead letters of an entity of " + of, listed / 2, func() (int, error) {
			p, err := f.DeadLetters(t.Context(), DeadLetterQuery{Team: scope.team, Subscription: scope.subscription, Entity: "e1"})
			return len(p.Items), err
		}})
		asks = append(asks, ask{"groups of " + of, 100_000, func() (int, error) {
			list, _, err := f.DeadLetterGroups(t.Context(), DeadLetterQuery{Team: scope.team, Subscription: scope.subscription})
			return len(list), err
		}})
	}
	// A status that three events of all have: those are found that may have it, and not looked for in all.
	f.exec(`UPDATE actions SET status = 'failed', finished_at = NULL, next_at = now(), class = NULL WHERE lane_seq IN (1001, 1011, 1501)`)
	f.exec(`DELETE FROM completions WHERE bucket = $1`, (1000+listed-2000)>>10)
	for status, most := range map[string]int{"failed": 60_000, "received": listed / 2} { // the one that was not tried may stand behind any dead letter
		asks = append(asks, ask{status, most, func() (int, error) {
			p, err := f.List(t.Context(), Query{Team: "acme", Subscription: "triage", Status: status})
			return len(p.Items), err
		}})
	}
	for _, a := range asks {
		count.blocks, count.plans = 0, nil
		items, err := a.do()
		t.Logf("%s: %d items, %d blocks in %d statements", a.name, items, count.blocks, len(count.plans))
		if err != nil || items == 0 || count.blocks > a.most {
			t.Errorf("%s: %d items, %d blocks read: %v\n%s", a.name, items, count.blocks, err, strings.Join(count.plans, "\n"))
		}
	}
	f.exec(`UPDATE events SET decision = 'stale', lane_seq = NULL, actions = 0, plan = NULL WHERE event_id = $1`, fmt.Sprint("n-", listed)) // the newest one, without an action
	count.blocks, count.plans = 0, nil
	if p, err := f.List(t.Context(), Query{}); err != nil || p.Items[0].Status != "stale" || count.blocks > 9000 {
		t.Errorf("beside an event that runs nothing: %s, %d blocks read: %v\n%s", p.Items[0].Status, count.blocks, err, strings.Join(count.plans, "\n"))
	}
	// With a backlog, each dead letter is looked at once for a page: an event that was not tried may stand behind it.
	f.exec(`DELETE FROM completions WHERE bucket >= $1`, listed>>10)
	count.blocks, count.plans = 0, nil
	p, err := f.List(t.Context(), Query{})
	t.Logf("inbox of all, with a backlog: %d blocks in %d statements", count.blocks, len(count.plans))
	if most := listed / 2; err != nil || len(p.Items) != 100 || p.Items[1].Status != "received" || count.blocks > most {
		t.Errorf("%d items, %d blocks read: %v\n%s", len(p.Items), count.blocks, err, strings.Join(count.plans, "\n"))
	}
	count.blocks, count.plans = 0, nil
	for _, q := range []Query{{Decision: gate.Buffered}, {Decision: gate.Parked}, {Entity: "e1", Since: time.Now().Add(time.Hour)}} {
		if p, err := f.List(t.Context(), q); err != nil || len(p.Items) != 0 {
			t.Error(p, err)
		}
	}
	if count.blocks > 300 { // of the buffer, which is empty; a slow run reads more slices of time
		t.Errorf("where nothing waits, and nothing has come, %d blocks are read in %d statements", count.blocks, len(count.plans))
	}
	// Where the backlog stands behind dead heads, each of these is looked at once, too.
	f.exec(`UPDATE events SET entity = 'e9991' WHERE lane_seq >= $1`, listed-2100)
	count.plans, count.rows = nil, 0
	err = f.inScope(t.Context(), "acme", "triage", func(of scope) error {
		count.explain(t.Context(), f.eye, of.sql(oldestOpen), []any{fences})
		return nil
	})
	t.Logf("the oldest open: %d rows", count.rows)
	if err != nil || len(count.plans) != 1 || count.rows > 20*listed {
		t.Errorf("the oldest open: %d rows: %v", count.rows, err)
	}
}

// TestFewAmongManyOpenAreListed: while very many wait for a destination, the few that stand behind a dead one, or are at work, are listed at
// the cost of those that are looked at, and the page says that these are not all.
func TestFewAmongManyOpenAreListed(t *testing.T) {
	t.Parallel()
	const open = 50_000
	f := setup(t)
	f.crowded, f.openReads = 1000, 2*open
	c := f.claim(0)
	f.apply(c, seq(0, "template", 1), seq(1, "parks", 1), seq(2, "works", 1))
	f.die(c, 2, "parks-1", 1)
	f.record(ledger.Result{Claim: c, LaneSeq: 3, Status: ledger.Processing, Attempt: 1, Left: time.Hour})
	f.exec(ledger.OfWindow(f.currentWindow("acme.triage"), `INSERT INTO events_w{w} (window_id, fence, log_offset, event_key, hash, received_at, decided_at, lane_seq, epoch, value, sub, leader_epoch, plan, actions,
			decision, reason, kind, clock, entity, source, event_id, type)
		SELECT {w}, e.fence, 2 + n, gen_random_uuid(), e.hash, e.received_at, now() - interval '1 hour', 3 + n, e.epoch, n, e.sub, e.leader_epoch, e.plan, e.actions,
			e.decision, e.reason, e.kind, e.clock, CASE WHEN n % 500 = 0 AND n > $1 - 1500 THEN 'parks' ELSE 'e' || n END, e.source, 'n-' || n, e.type
		FROM events e, generate_series(1, $1::int) n WHERE e.event_id = 'template-1'`), open)
	f.exec(`UPDATE progress SET next_lane_seq = $1, next_offset = $1, high_offset = $1`, 4+open)
	f.exec(`ANALYZE events, actions, progress`)
	count := &counting{pool: f.slow, t: t}
	f.slow = count
	list := func(status string, want int, more bool) {
		t.Helper()
		count.rows, count.plans = 0, nil
		p, err := f.List(t.Context(), Query{Team: "acme", Subscription: "triage", Status: status})
		t.Logf("%s: %d rows in %d statements", status, count.rows, len(count.plans))
		if err != nil || len(p.Items) != want || p.More != more {
			t.Errorf("%s: %d items, more %v: %v", status, len(p.Items), p.More, err)
		}
	}
	list("parked", 3, false)
	f.openReads = 2000
	for status, want := range map[string]int{"parked": 3, "processing": 1} {
		if list(status, want, true); count.rows > 2*open {
			t.Errorf("%s: %d rows\n%s", status, count.rows, strings.Join(count.plans, "\n"))
		}
	}
	one := func(entity schemas.EntityKey) {
		t.Helper()
		p, err := f.List(t.Context(), Query{Team: "acme", Subscription: "triage", Status: "received", Entity: entity})
		if err != nil || len(p.Items) != 1 || p.More {
			t.Errorf("%s: %d items, more %v: %v", entity, len(p.Items), p.More, err)
		}
	}
	one("e7")
	f.claim(1) // which is idle
	f.openReads = open + 10
	list("processing", 1, false)
	f.openReads = 2000
	// All that is open has a row, as after an outage over a window's turn.
	f.exec(ledger.OfWindow(f.currentWindow("acme.triage"), `INSERT INTO actions_w{w} (window_id, fence, lane_seq, event_key, event_window, effect, created_at)
		SELECT {w}, e.fence, e.lane_seq, e.event_key, {w}, a.effect, e.decided_at FROM events e, actions a WHERE e.event_id LIKE 'n-%' AND a.lane_seq = 3`))
	f.exec(`UPDATE progress SET lane_low = next_lane_seq`)
	f.exec(`ANALYZE actions`)
	list("processing", 1, true)
	one("e7")
}

// TestFindingOneOfManyGapDeaths: a bulk command finds each by its id; going over all of them for each one would be quadratic.
func TestFindingOneOfManyGapDeaths(t *testing.T) {
	t.Parallel()
	const deaths, batch = 10_000, 500
	f := setup(t, func(s *ledger.Spec) { s.Policy.Then, s.Policy.GapWait = gate.ThenDeadLetter, 0 })
	c := f.claim(0)
	for i := int64(0); i < deaths; i += batch {
		var records []ledger.Record
		for n := i; n < i+batch; n++ {
			entity := fmt.Sprint("e", n)
			records = append(records, seq(2*n, entity, 1), seq(2*n+1, entity, 3))
		}
		f.apply(c, records...)
	}
	if n := one[int](f, `SELECT count(*) FROM actions WHERE status = 'dead_letter'`); n != deaths {
		t.Fatalf("%d dead letters", n)
	}
	f.exec(`ANALYZE events, actions`)
	looks, scans := &counting{pool: f.Inbox.look, t: t}, &counting{pool: f.Inbox.slow, t: t}
	f.Inbox.look, f.Inbox.slow = looks, scans
	if ref, err := f.FindAction(t.Context(), actionID("e777-3")); err != nil || ref.Status != ledger.Dead || looks.blocks+scans.blocks > 100 {
		t.Errorf("%+v %v, %d blocks read\n%s", ref, err, looks.blocks+scans.blocks, strings.Join(append(looks.plans, scans.plans...), "\n"))
	}
}

// TestListOfFreshEvents: a list of events that have just come, more than autovacuum has seen to, reads little more than its page, and does so
// while more come.
func TestListOfFreshEvents(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "template", 1))
	window := f.currentWindow("acme.triage")
	f.exec(ledger.OfWindow(window, `ALTER TABLE events_w{w} SET (autovacuum_enabled = off)`)) // which comes once a minute
	come := func(n int) {
		t.Helper()
		f.exec(ledger.OfWindow(window, `WITH e AS MATERIALIZED (SELECT * FROM events WHERE event_id = 'template-1'), last AS (SELECT max(log_offset) AS log_end FROM events)
			INSERT INTO events_w{w} (window_id, fence, log_offset, event_key, hash, received_at, decided_at, lane_seq, epoch, value, sub, leader_epoch, plan, actions,
				decision, reason, kind, clock, entity, source, event_id, type)
			SELECT {w}, e.fence, log_end + n, gen_random_uuid(), e.hash, e.received_at, now(), log_end + n + 1, e.epoch, n, e.sub, e.leader_epoch, e.plan, e.actions,
				e.decision, e.reason, e.kind, e.clock, 'e' || n % 20000, e.source, 'n-' || log_end + n, e.type
			FROM e, last, generate_series(1, $1::int) n`), n)
	}
	for range 10 {
		come(10_000)
	}
	count := &counting{pool: f.slow, t: t}
	f.slow = count
	for range 3 {
		come(10_000)
		count.blocks, count.plans = 0, nil
		p, err := f.List(t.Context(), Query{})
		t.Logf("%d items, %d blocks in %d statements", len(p.Items), count.blocks, len(count.plans))
		if err != nil || len(p.Items) != 100 || count.blocks > 9000 { // the table has 3,600, and was read eight times over
			t.Errorf("%d items, %d blocks read: %v\n%s", len(p.Items), count.blocks, err, strings.Join(count.plans, "\n"))
		}
		time.Sleep(summarizeEvery)
	}
}

// fill fills the ledger: events of three partitions in the windows of one subscription, a millisecond apart, and beside them another
// subscription with windows of its own. The newest was decided just now.
func (f *fixture) fill() {
	f.t.Helper()
	var fences []int32
	for part := range int32(3) {
		c := f.claim(part)
		fences = append(fences, c.ID)
		f.apply(c, seq(0, fmt.Sprint("template-", part), 1))
		if part == 0 {
			f.die(c, 1, "template-0-1", 1)
		}
	}
	f.namespace(func(s *ledger.Spec) { s.Name = "acme.other" })
	for range listedWindows - 1 {
		f.exec(`UPDATE windows SET opened_at = opened_at - interval '100 days' WHERE state = 'current'`)
		if _, err := f.l.Sweep(f.t.Context(), ledger.SweepConfig{}); err != nil {
			f.t.Fatal(err)
		}
	}
	windows := one[[]int32](f, `SELECT array_agg(w.id ORDER BY w.id) FROM windows w JOIN subscriptions s ON s.id = w.subscription WHERE s.name = 'acme.triage' AND w.state <> 'ahead'`)
	each := listed / listedWindows
	windows = windows[len(windows)-listedWindows:]
	for i, w := range windows {
		f.exec(ledger.OfWindow(w, `WITH e AS MATERIALIZED (SELECT * FROM events WHERE event_id = 'template-0-1')
			INSERT INTO events_w{w} (window_id, fence, log_offset, event_key, hash, received_at, decided_at, lane_seq, epoch, value, sub, leader_epoch, plan, actions,
				decision, reason, kind, clock, entity, source, event_id, type)
			SELECT {w}, ($1::int[])[1 + n % 3], 1000 + n, md5(n::text)::uuid, e.hash, e.received_at, now() - ($4::int - n) * interval '1 millisecond', 1000 + n, e.epoch, n, e.sub, e.leader_epoch, e.plan, e.actions,
				e.decision, e.reason, e.kind, e.clock, 'e' || n % 20000, e.source, 'n-' || n, e.type
			FROM e, generate_series($2::int, $3::int) n`), fences, i*each+1, (i+1)*each, listed)
		f.exec(ledger.OfWindow(w, `WITH a AS MATERIALIZED (SELECT * FROM actions WHERE status = 'dead_letter' AND lane_seq = 1)
			INSERT INTO actions_w{w} (window_id, fence, lane_seq, event_key, action_id, event_window, effect, created_at, first_at, finished_at, attempts, open, status, class, code, error, deaths)
			SELECT {w}, ($1::int[])[1 + n % 3], 1000 + n, md5(n::text)::uuid, lpad(to_hex(n), 32, 'a')::uuid, {w}, a.effect, now(), now(), now(), 1, true, 'dead_letter', 'class-' || n % 7, 400, 'no', 1
			FROM a, generate_series($2::int, $3::int, 10) n`), fences, i*each+1, (i+1)*each)
		f.exec(ledger.OfWindow(w, `INSERT INTO completions_w{w} (window_id, fence, bucket, finished_at, code, lanes, latency_us)
			SELECT {w}, ($1::int[])[1 + n % 3], (1000 + n) >> 10, now(), 200, array_agg(((1000 + n) & 1023)::smallint), array_agg(1000)
			FROM generate_series($2::int, $3::int) n WHERE n % 10 <> 1 GROUP BY 2, 3`), fences, i*each+1, (i+1)*each)
	}
	f.exec(`UPDATE progress SET lane_low = $1 - 4000, next_lane_seq = $1, next_offset = $1, high_offset = $1`, listed+2000)
	f.exec(`ANALYZE events, actions, completions, fences, progress`)
	f.exec(`SELECT brin_summarize_new_values(format('events_w%s_decided', id)::regclass) FROM windows WHERE state <> 'ahead'`) // as autovacuum does
}

// counting counts the blocks that the statements of a pool read, and the rows that the nodes of their plans have made and thrown away, and keeps
// their plans.
type counting struct {
	pool
	t      *testing.T
	blocks int
	rows   int
	plans  []string
}

// planNode is a node of a plan, with those below it.
type planNode struct {
	Hit     int `json:"Shared Hit Blocks"`
	Read    int `json:"Shared Read Blocks"`
	Rows    int `json:"Actual Rows"` // of a loop
	Removed int `json:"Rows Removed by Join Filter"`
	Loops   int `json:"Actual Loops"`
	Plans   []planNode
}

func (n planNode) rows() int {
	sum := (n.Rows + n.Removed) * n.Loops
	for _, below := range n.Plans {
		sum += below.rows()
	}
	return sum
}

func (c *counting) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	c.explain(ctx, c.pool, sql, args)
	return c.pool.Query(ctx, sql, args...)
}

func (c *counting) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	c.explain(ctx, c.pool, sql, args)
	return c.pool.QueryRow(ctx, sql, args...)
}

func (c *counting) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := c.pool.Begin(ctx)
	return countingTx{tx, c}, err
}

type countingTx struct {
	pgx.Tx
	c *counting
}

func (tx countingTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	tx.c.explain(ctx, tx.Tx, sql, args)
	return tx.Tx.Query(ctx, sql, args...)
}

func (c *counting) explain(ctx context.Context, on interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, sql string, args []any) {
	c.t.Helper()
	var plan []struct{ Plan planNode }
	var text string
	err := on.QueryRow(ctx, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+sql, args...).Scan(&text)
	if err == nil {
		err = json.Unmarshal([]byte(text), &plan)
	}
	if err != nil {
		c.t.Fatalf("%s: %v", sql, err)
	}
	c.blocks += plan[0].Plan.Hit + plan[0].Plan.Read
	c.rows += plan[0].Plan.rows()
	c.plans = append(c.plans, fmt.Sprintf("%d blocks: %s", plan[0].Plan.Hit+plan[0].Plan.Read, strings.SplitN(strings.TrimSpace(sql), "\n", 2)[0]))
}
