package ledger

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/window"
)

// otherLedger is a ledger in which another subscription has had ids of all kinds before.
func otherLedger(t *testing.T) *fixture {
	t.Helper()
	cfg := schemaFor(t)
	g := &fixture{t: t, cfg: cfg, l: open(t, cfg)}
	g.n = g.namespace(func(s *Spec) { s.Name = "acme.other" })
	for range 3 {
		g.turnWindow()
	}
	c := g.claim(0)
	g.apply(c, seq(0, "other", 1), seq(1, "other", 2))
	g.replaying()
	g.exec(`UPDATE replay_parts SET ended_at = now(), failure = 'cancelled'`)
	g.askApproval(asksFor(g, "other-1"))
	return g
}

// movable is a ledger in which acme.triage has something of each kind: done, failed, dead, waiting, buffered, stale, rejected, repeated by a second
// key, over three windows; its last owner was killed.
func movable(t *testing.T) *fixture {
	t.Helper()
	f := setup(t, movableSpec)
	f.namespace(func(s *Spec) { s.Name = "acme.older" }) // so that ids of the subscriptions differ
	f.turnOwnWindow()
	c, d := f.claim(0), f.claim(1)
	repeats := also(seq(3, "c", 2), 7)
	f.apply(c, seq(0, "a", 1), seq(1, "a", 2), also(seq(2, "c", 1), 7), repeats, seq(4, "gap", 1), seq(5, "gap", 3))
	f.apply(d, seq(0, "d", 1), seq(1, "e", 1))
	f.record(Result{Claim: c, LaneSeq: 1, ID: actionID("a-1"), Status: Done, Attempt: 1, Code: 200})
	f.die(d, 1, "d-1", 1)
	f.turnOwnWindow()
	conflict := seq(6, "a", 1)
	conflict.Hash = schemas.HashBody([]byte("another body"))
	f.apply(c, conflict, seq(7, "f", 1))
	f.apply(d, seq(2, "d", 2), seq(3, "g", 1))
	f.record(Result{Claim: d, LaneSeq: 3, ID: actionID("e-1"), Status: Failed, Attempt: 1, Class: "timeout", NextIn: time.Hour, Packed: []byte("packed e-1")})
	f.askAction("d-1", Discard, CommandDetail{})
	f.askApproval(asksFor(f, "g-1"))
	f.replayingAs(ReplayReprocess)
	f.exec(`UPDATE replay_parts SET ended_at = now(), failure = 'cancelled'`)
	f.exec(`UPDATE replays SET cancelled_at = now(), cancelled_by = 'jo', cancelled_reason = 'enough'`)
	f.exec(`INSERT INTO sayings VALUES ($1, '/acme/github', 'a', 'run', gen_random_uuid(), now(), now() + interval '1 day')`, f.n.id)
	f.exec(`INSERT INTO counters VALUES ('budget teams.acme.subscriptions.triage.budget.runs', now(), 5, 9, 1, 1, now() + interval '1 day'), ('budget teams.acme.budget.runs', now(), 5, 9, 1, 1, now() + interval '1 day')`)
	f.exec(`INSERT INTO subscription_pauses (subscription, paused_by, reason) VALUES ('acme.triage', 'jo', 'it is moved')`)
	return f
}

func movableSpec(s *Spec) {
	s.Policy.Also = 10 * time.Minute
	s.Actions = append(oneAction(), ActionSpec{Name: "tell", Destination: "acme/slack", OnDead: Continue})
}

// turnOwnWindow turns that of the fixture's subscription.
func (f *fixture) turnOwnWindow() {
	f.t.Helper()
	f.exec(`UPDATE windows SET opened_at = opened_at - interval '100 days' WHERE state = 'current' AND subscription = $1`, f.n.id)
	if swept, err := f.l.Sweep(f.t.Context(), SweepConfig{}); err != nil || len(swept.Opened) != 1 {
		f.t.Fatal(swept, err)
	}
}

// refs are the columns whose numbers differ from one ledger to the next. What they say is in the other columns of content.
const refs = `'{id,subscription,fence,effect,plan,was_plan,effects,window_id,event_window,lane_window,seen_in,token,move_began,was}'::text[]`

// content is all that a ledger has of acme.triage, by table, without the numbers that only this ledger has: in their place stands what they mean.
func (f *fixture) content() map[string]string {
	f.t.Helper()
	all := map[string]string{}
	const of = `(SELECT id FROM subscriptions WHERE name = 'acme.triage')`
	names := map[string]string{
		"fence":        `(SELECT topic || partition FROM fences WHERE id = t.fence)`,
		"was_plan":     planOf("was_plan"),
		"plan":         planOf("plan"),
		"effects":      `(SELECT string_agg(x.name || x.destination, ',' ORDER BY u.n) FROM unnest(t.effects) WITH ORDINALITY u (e, n) JOIN effects x ON x.id = u.e)`,
		"effect":       `(SELECT name || destination || on_dead FROM effects WHERE id = t.effect)`,
		"window_id":    rankOf("window_id"),
		"event_window": rankOf("event_window"),
		"lane_window":  rankOf("lane_window"),
		"seen_in":      rankOf("seen_in"),
	}
	for _, t := range slices.Concat(numberedTables, plainTables, lastTables) {
		where := map[string]string{ofSubscription: `subscription = ANY (ARRAY` + of + `)`, ofFence: `fence = ANY (ARRAY(SELECT id FROM fences WHERE subscription = ANY (ARRAY` + of + `)))`}[t.of]
		switch t.name {
		case "subscriptions":
			where = `name = 'acme.triage'`
		case "subscription_pauses":
			where = `subscription = 'acme.triage'`
		case "counters":
			where = `name LIKE '%triage%'`
		}
		all[t.name] = f.rows(t.name, where, names)
	}
	for _, name := range window.Tables {
		all[name] = f.rows(name, `window_id = ANY (ARRAY(SELECT id FROM windows WHERE subscription = ANY (ARRAY`+of+`)))`, names)
	}
	return all
}

// planOf is what a plan lists.
func planOf(column string) string {
	return `(SELECT string_agg(x.name || x.destination, ',' ORDER BY u.n) FROM plans p, unnest(p.effects) WITH ORDINALITY u (e, n) JOIN effects x ON x.id = u.e WHERE p.id = t.` + column + `)`
}

// rankOf is the place of a window among those of its subscription, for which its number stands.
func rankOf(column string) string {
	return `(SELECT CASE WHEN t.` + column + ` > 0 THEN (SELECT count(*) FROM windows o WHERE o.subscription = w.subscription AND o.id <= w.id) END FROM windows w WHERE w.id = t.` + column + `)`
}

func (f *fixture) rows(table, where string, names map[string]string) string {
	f.t.Helper()
	extra := "''"
	for _, column := range slices.Sorted(maps.Keys(names)) {
		if one[bool](f, `SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = $1::regclass AND attname = $2)`, table, column) {
			extra += ` || ' ` + column + `=' || coalesce(` + names[column] + `::text, '-')`
		}
	}
	strip := refs
	switch {
	case table == "fences":
		strip += ` - 'epoch'` // each move fences the owners
	case strings.HasPrefix(table, "replay_"): // an event's has to stay
		strip += ` - 'replay'`
		extra += ` || ' of ' || (SELECT planned_at::text FROM replays WHERE id = t.replay)`
	}
	return one[string](f, `SELECT coalesce(string_agg(j, E'\n' ORDER BY j), '') FROM (SELECT (to_jsonb(t) - `+strip+`)::text || `+extra+` AS j FROM `+table+` t WHERE `+where+`) x`)
}

func (f *fixture) move(to *fixture) Move {
	return Move{Subscription: "acme.triage", From: f.l, To: to.l, FromName: "postgres of old.yaml", ToName: "postgres of new.yaml", settle: 1}
}

func (f *fixture) moveTo(to *fixture) MovePlan {
	f.t.Helper()
	p, err := f.move(to).Run(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

// runnable returns why the subscription may not run in the ledger; empty if it may.
func (f *fixture) runnable() string {
	_, err := f.l.Namespace(f.t.Context(), f.movedSpec())
	if err != nil {
		return err.Error()
	}
	return ""
}

func (f *fixture) movedSpec() Spec {
	spec := Spec{Name: "acme.triage", Owner: "test", Actions: oneAction(), Policy: policy(), Window: 24 * time.Hour}
	movableSpec(&spec)
	return spec
}

// TestMove: all that a ledger has of a subscription is in the other one, and it goes on there as it would have here; the old ledger has nothing
// left and says where it is.
func TestMove(t *testing.T) {
	t.Parallel()
	f, g := movable(t), otherLedger(t)
	before := f.content()
	for table, rows := range before {
		if rows == "" && table != "begins" && table != "seeks" && table != "seek_requests" && table != "stops" && table != "results" && !strings.HasPrefix(table, "replay_") && table != "backfills" {
			t.Errorf("the test has no %s", table)
		}
	}
	deadOf := func(f *fixture) (list []string) {
		return f.texts(`SELECT status || ' ' || action_id || ' ' || attempts || ' ' || error FROM actions WHERE status = 'dead_letter' ORDER BY 1`)
	}
	dead, replay := deadOf(f), one[int64](f, `SELECT id FROM replays`)
	p := f.moveTo(g)
	if p.State != MoveNew || len(p.Rows) == 0 {
		t.Errorf("%+v", p)
	}
	if d := cmp.Diff(before, g.content()); d != "" {
		t.Errorf("the new ledger has (-) what the old one had, and (+):\n%s", d)
	}
	for table, rows := range f.content() {
		if rows != "" {
			t.Errorf("the old ledger still has of %s: %s", table, rows)
		}
	}
	if d := cmp.Diff(dead, deadOf(g)); d != "" || len(dead) != 1 {
		t.Error(dead, d)
	}
	if was := one[string](g, `SELECT (r.id = was) || ' ' || was FROM replays r JOIN subscriptions s ON s.id = r.subscription WHERE s.name = 'acme.triage'`); was != fmt.Sprintf("false %d", replay) {
		t.Errorf("a replay that has another number: %s", was)
	}
	if got := f.runnable(); !strings.HasPrefix(got, "register subscription acme.triage: it was moved to postgres of new.yaml on ") || !strings.Contains(got, "run it with the file that names that ledger") {
		t.Errorf("in the old ledger: %q", got)
	}
	if again := f.moveTo(g); again.State != MoveDone {
		t.Errorf("again: %+v", again)
	}

	n, err := g.l.Namespace(t.Context(), g.movedSpec())
	if err != nil {
		t.Fatal(err)
	}
	g.n = n
	c, d := g.claim(0), g.claim(1)
	if c.Next.Offset != 8 || !c.Unclean || c.Epoch <= 1 {
		t.Errorf("%+v unclean %v epoch %d", c.Next, c.Unclean, c.Epoch)
	}
	open, _, err := g.n.Open(t.Context(), d, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, a := range open {
		list = append(list, fmt.Sprintf("%d:%s:%s:%s:%d", a.LaneSeq, a.EventID, a.Name, a.Status, a.Attempts))
	}
	if d := cmp.Diff([]string{"1:d-1:run:dead_letter:1", "2:d-1:tell:pending:0", "3:e-1:run:failed:1", "4:e-1:tell:pending:0", "5:d-2:run:pending:0", "6:d-2:tell:pending:0",
		"7:g-1:run:pending:0", "8:g-1:tell:pending:0"}, list); d != "" {
		t.Error(d)
	}
	if asked := g.commands(d); len(asked) != 1 || asked[0].Kind != Discard {
		t.Errorf("asked: %+v", asked)
	}
	// What was seen is seen, by either key and from any window; what is older is stale; the filler releases what waited.
	var got []string
	for _, r := range []Record{seq(8, "a", 1), also(seq(9, "c", 3), 7), seq(10, "gap", 2), seq(11, "gap", 3)} {
		if r.Entity == "a" {
			r.Hash = schemas.HashBody([]byte("a-1"))
		}
		a := g.apply(c, r)
		c.Next = Position{Offset: r.Offset + 1, LeaderEpoch: r.LeaderEpoch}
		for _, o := range a.Outcomes {
			got = append(got, string(o.Decision)+"/"+string(o.Reason))
		}
	}
	want := []string{string(gate.Duplicate) + "/seen", string(gate.Duplicate) + "/key", "applied/next", "applied/released", string(gate.Duplicate) + "/seen"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestMoveKnowsEveryTable: each table of a ledger is one that goes along or one that stays, and each reference to a table that others name by ids is one
// that is rewritten.
func TestMoveKnowsEveryTable(t *testing.T) {
	t.Parallel()
	f := setup(t)
	known := slices.Clone(keptTables)
	moved := slices.Clone(window.Tables)
	for _, m := range slices.Concat(numberedTables, plainTables, lastTables) {
		moved = append(moved, m.name)
	}
	known = append(known, moved...)
	slices.Sort(known)
	tables := f.texts(`SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND relname !~ '_w[0-9]+$' ORDER BY relname COLLATE "C"`)
	if d := cmp.Diff(tables, known); d != "" {
		t.Errorf("(-) what there is, (+) what Move knows:\n%s", d)
	}
	keys := f.texts(`SELECT conrelid::regclass || ' ' || a.attname || ' ' || format_type(a.atttypid, NULL) || ' ' || confrelid::regclass FROM pg_constraint
		JOIN pg_attribute a ON a.attrelid = conrelid AND a.attnum = conkey[1] WHERE contype = 'f' AND connamespace = current_schema()::regnamespace`)
	referring := 0
	for _, r := range keys {
		w := strings.Fields(r)
		if slices.Contains(moved, w[0]) {
			referring++
		}
		if of := reference(w[0], w[1], w[2]); slices.Contains(moved, w[0]) && of != w[3] {
			t.Errorf("%s.%s refers to %s, and is taken for %q", w[0], w[1], w[3], of)
		}
	}
	if referring == 0 {
		t.Errorf("none of the tables that go along refers to another: %q", keys)
	}
	// Columns with ids that no constraint names.
	for _, c := range f.texts(`SELECT attrelid::regclass || ' ' || attname || ' ' || format_type(atttypid, NULL) FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
		WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p') AND relname !~ '_w[0-9]+$' AND attname ~ '(window|fence|plan|effect|replay$|seen_in|subscription|window_id)' AND NOT attisdropped ORDER BY 1`) {
		w := strings.Fields(c)
		if !slices.Contains(moved, w[0]) || reference(w[0], w[1], w[2]) != "" || w[2] == "text" || strings.HasPrefix(w[2], "timestamp") || c == "events replay integer" || c == "plans effects integer[]" {
			continue
		}
		t.Errorf("%s is copied as it is: is it an id?", c)
	}
}

// TestMoveIsRefused while a process of either ledger is a member, something is under way at a destination, a replay is open, or the new ledger has
// positions or a pause of its own; and nothing is changed by that.
func TestMoveIsRefused(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, f, g *fixture, want string) {
		t.Helper()
		before := f.content()
		if _, err := f.move(g).Run(t.Context()); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if d := cmp.Diff(before, f.content()); d != "" {
			t.Error(d)
		}
		if n := one[int](f, `SELECT count(*) FROM moves`) + one[int](g, `SELECT count(*) FROM moves`); n != 0 {
			t.Errorf("%d marks", n)
		}
	}
	t.Run("a member here", func(t *testing.T) {
		t.Parallel()
		f, g := movable(t), otherLedger(t)
		l := newLooker(f)
		l.n.Enter("m1")
		l.do(l.Beat)
		refused(t, f, g, "processes run it with postgres of old.yaml (1): stop them")
		l.conn.Close(t.Context()) // as when it is killed
		f.moveTo(g)
	})
	t.Run("a member there", func(t *testing.T) {
		t.Parallel()
		f, g := movable(t), otherLedger(t)
		g.n = g.namespace(movableSpec)
		l := newLooker(g)
		l.n.Enter("m1")
		l.do(l.Beat)
		refused(t, f, g, "processes run it with postgres of new.yaml (1): stop them")
		l.conn.Close(t.Context())
		f.moveTo(g) // what it has registered makes place
	})
	t.Run("what a destination has taken", func(t *testing.T) {
		t.Parallel()
		f, g := movable(t), otherLedger(t)
		d, err := f.n.Claim(t.Context(), ClaimRequest{Partition: partition(1), Partitions: 8, Confirm: at(0)})
		if err != nil {
			t.Fatal(err)
		}
		f.record(Result{Claim: d, LaneSeq: 7, Status: Processing, Attempt: 1, Left: time.Hour})
		refused(t, f, g, "1 actions are under way at their destinations")
	})
	t.Run("a replay", func(t *testing.T) {
		t.Parallel()
		f, g := movable(t), otherLedger(t)
		id := f.replaying()
		refused(t, f, g, fmt.Sprintf("replay %d is under way", id))
	})
	t.Run("positions there", func(t *testing.T) {
		t.Parallel()
		f, g := movable(t), otherLedger(t)
		g.n = g.namespace(movableSpec)
		g.release(g.claim(0))
		refused(t, f, g, "it has run with postgres of new.yaml")
	})
	t.Run("a pause there", func(t *testing.T) {
		t.Parallel()
		f, g := movable(t), otherLedger(t)
		g.exec(`INSERT INTO subscription_pauses (subscription, paused_by, reason) VALUES ('acme.triage', 'jo', 'before it comes')`)
		refused(t, f, g, "it is paused with postgres of new.yaml")
	})
	t.Run("the same ledger, and one that does not know it", func(t *testing.T) {
		t.Parallel()
		f, g := movable(t), otherLedger(t)
		if _, err := f.move(f).Run(t.Context()); schemas.KindOf(err) != schemas.Invalid {
			t.Error(err)
		}
		if _, err := g.move(f).Run(t.Context()); schemas.KindOf(err) != schemas.NotFound {
			t.Error(err)
		}
	})
}

// TestMoveBrokenOff breaks moves off, there and back, before and behind each statement that leads from one step to the next, and begins them again. At no time may
// both ledgers run the subscription; after it, all is there as it was.
func TestMoveBrokenOff(t *testing.T) {
	t.Parallel()
	f, g := movable(t), otherLedger(t)
	want := f.content()
	direct := map[*fixture]*fixture{}
	cuts := map[*fixture]*proxy{}
	for _, of := range []*fixture{f, g} {
		cuts[of], direct[of] = throughProxy(t, of, func(s *Spec) { s.Name = "acme.watcher" })
	}
	const positions = `SELECT EXISTS (SELECT FROM progress p JOIN fences f ON f.id = p.fence JOIN subscriptions s ON s.id = f.subscription WHERE s.name = 'acme.triage')`
	old, next := f, g
	w := one[int](f, `SELECT count(*) FROM windows w JOIN subscriptions s ON s.id = w.subscription WHERE s.name = 'acme.triage'`)
	copied := len(plainTables) + w*len(window.Tables)
	opens := 2 + len(numberedTables) + copied + len(lastTables) - 1 // before it the old ledger's connection commits what it counts, the freeze, and each read
	for i, c := range []struct {
		old    bool // whose connection is cut
		needle string
		skip   int
	}{
		{false, "", 3}, {false, "", 4}, {false, "", 5}, {true, "commit\x00", 1}, {true, "commit\x00", 1}, {false, "commit\x00", 0}, {false, "commit\x00", 0},
		{true, "TO STDOUT", 20}, {false, "FROM STDIN", 20}, {false, "commit\x00", 10}, {false, "commit\x00", 11}, {false, "COPY counters", 0}, {false, "COPY counters", 0},
		{false, "commit\x00", 1 + copied}, {false, "commit\x00", 1 + copied}, {true, "DROP TABLE", 0}, {true, "DROP TABLE", 7}, {true, "commit\x00", opens + w + 1}, {true, "commit\x00", opens + w + 4},
	} {
		before := i%2 == 0
		at := fmt.Sprintf("%q, skip %d, of the old %v, before %v", c.needle, c.skip, c.old, before)
		of := next
		if c.old {
			of = old
		}
		cuts[of].Cut.Store(&cut{Needle: []byte(c.needle), Skip: c.skip, Before: before})
		m := old.move(next)
		m.From, m.To = direct[old].l, direct[next].l
		_, err := m.Run(t.Context())
		if cuts[of].Cut.Load() != nil {
			t.Fatalf("%s: it was not broken off: %v", at, err)
		}
		// A process may register where nothing has come yet, and finds no positions; the next run makes place for itself.
		here, there := old.runnable(), next.runnable()
		if here == "" && there == "" && one[bool](next, positions) {
			t.Fatalf("%s (%v): both ledgers run it", at, err)
		}
		t.Logf("%s: %v; old: %.60s; new: %.60s", at, err, here, there)
		old.moveTo(next)
		if d := cmp.Diff(want, next.content()); d != "" {
			t.Fatalf("%s (%v): %s", at, err, d)
		}
		if got := old.runnable(); !strings.Contains(got, "it was moved to ") {
			t.Fatalf("%s: the ledger that it left: %q", at, got)
		}
		old, next = next, old
	}
}

// TestMoveIsTakenBack: a move that was broken off is taken back by one in the other direction.
func TestMoveIsTakenBack(t *testing.T) {
	t.Parallel()
	f, g := movable(t), otherLedger(t)
	want := f.content()
	ctx, stop := context.WithCancel(t.Context())
	m := f.move(g)
	tables := 0
	m.Progress = func(string, int64, int64) {
		if tables++; tables == 12 {
			stop()
		}
	}
	if _, err := m.Run(ctx); err == nil {
		t.Fatal("it was not broken off")
	}
	if got := g.runnable(); !strings.Contains(got, "it is being moved here from postgres of old.yaml since ") {
		t.Errorf("there: %q", got)
	}
	if got := f.runnable(); !strings.Contains(got, "it is being moved to postgres of new.yaml since ") {
		t.Errorf("here: %q", got)
	}
	if p, err := g.move(f).Plan(t.Context()); err != nil || p.State != MoveBack {
		t.Errorf("%+v %v", p, err)
	}
	g.moveTo(f)
	if d := cmp.Diff(want, f.content()); d != "" {
		t.Error(d)
	}
	if got := f.runnable(); got != "" {
		t.Error(got)
	}
	if n := one[int](f, `SELECT count(*) FROM moves`) + one[int](g, `SELECT count(*) FROM moves`) + one[int](g, `SELECT count(*) FROM subscriptions WHERE name = 'acme.triage'`); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// What a replay has run again is found after a move, too, although the replay has another number there: its dead letters count as before.
func TestMovedReplayHasItsDeadLetters(t *testing.T) {
	t.Parallel()
	f, g := movable(t), otherLedger(t)
	f.exec(`UPDATE replay_parts SET fence = (SELECT id FROM fences WHERE partition = 1 AND subscription = $1), lane_from = 1, lane_to = 2`, f.n.id)
	f.exec(`UPDATE events SET replay = (SELECT id FROM replays) WHERE event_id = 'd-1'`)
	dead := func(f *fixture) int {
		windows := one[[]int32](f, `SELECT array_agg(w.id) FROM windows w JOIN subscriptions s ON s.id = w.subscription WHERE s.name = 'acme.triage' AND w.state <> 'ahead'`)
		return one[int](f, OfWindows(windows, `SELECT (SELECT count(*) FROM (`+DeadOfReplay+`) d)::int FROM replays r JOIN subscriptions s ON s.id = r.subscription WHERE s.name = 'acme.triage'`))
	}
	if n := dead(f); n != 1 {
		t.Fatalf("%d before the move", n)
	}
	if p := f.moveTo(g); p.State != MoveNew {
		t.Fatalf("%+v", p)
	}
	if n := dead(g); n != 1 {
		t.Errorf("%d after it", n)
	}
}

// TestMoveToALedgerThatIsLost: what RESTORE.md says of a move that was broken off, and whose new ledger is lost, leaves the old one as it was.
func TestMoveToALedgerThatIsLost(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../deploy/docs/RESTORE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "## When the new ledger of a move is lost")
	var statements []string
	for {
		var statement string
		_, text, _ = strings.Cut(text, "```sql")
		if statement, text, _ = strings.Cut(text, "```"); statement == "" {
			break
		}
		statements = append(statements, strings.ReplaceAll(statement, "forebay.", ""))
	}
	if len(statements) != 2 {
		t.Fatalf("%q", statements)
	}
	f, g := movable(t), otherLedger(t)
	want := f.content()
	ctx, stop := context.WithCancel(t.Context())
	m, tables := f.move(g), 0
	m.Progress = func(string, int64, int64) {
		if tables++; tables == 12 {
			stop()
		}
	}
	if _, err := m.Run(ctx); err == nil {
		t.Fatal("it was not broken off")
	}
	if n := one[int](f, `SELECT count(*) FROM (`+strings.Trim(statements[0], "\n;")+`) AS found WHERE ended_at IS NULL`); n != 1 {
		t.Errorf("%d marks are found", n)
	}
	f.exec(statements[1])
	if d := cmp.Diff(want, f.content()); d != "" {
		t.Error(d)
	}
	if got := f.runnable(); got != "" {
		t.Error(got)
	}
}

// TestMoveThatHasGoneOn: a move that was broken off behind its end is not begun anew once the new ledger has given the subscription to a third one.
func TestMoveThatHasGoneOn(t *testing.T) {
	t.Parallel()
	f, g, h := movable(t), otherLedger(t), otherLedger(t)
	f.moveTo(g)
	if _, err := g.move(h).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.exec(`UPDATE moves SET ended_at = NULL, copied = '{}'`)
	if _, err := f.move(g).Run(t.Context()); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "it has gone on from postgres of new.yaml to") {
		t.Error(err)
	}
}

// TestMoveToALedgerThatIsRestored: a new ledger that comes back from a backup of before the move has no mark. It does not pass for one that has the
// subscription: what the old ledger has is copied anew, and where rows of it are gone, nothing more goes.
func TestMoveToALedgerThatIsRestored(t *testing.T) {
	t.Parallel()
	f, g := movable(t), otherLedger(t)
	want := f.content()
	ctx, stop := context.WithCancel(t.Context())
	m, tables := f.move(g), 0
	m.Progress = func(string, int64, int64) {
		if tables++; tables == 12 {
			stop()
		}
	}
	if _, err := m.Run(ctx); err == nil {
		t.Fatal("it was not broken off")
	}
	restored := otherLedger(t)
	restored.l.id = g.l.id
	restored.namespace(movableSpec) // it was registered there
	refused := func(from, to *fixture, want map[string]string, says string) {
		t.Helper()
		if _, err := from.move(to).Run(t.Context()); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
		if d := cmp.Diff(want, f.content()); d != "" {
			t.Error(d)
		}
	}
	refused(restored, f, want, "it is being moved from postgres of new.yaml to postgres of new.yaml, or is there already: end that move first")

	cuts, direct := throughProxy(t, f, func(s *Spec) { s.Name = "acme.watcher" })
	w := one[int](f, `SELECT count(*) FROM windows w JOIN subscriptions s ON s.id = w.subscription WHERE s.name = 'acme.triage'`)
	opens := 2 + len(numberedTables) + len(plainTables) + w*len(window.Tables) + len(lastTables) - 1
	cuts.Cut.Store(&cut{Needle: []byte("commit\x00"), Skip: opens + w + 1}) // the windows are gone
	m = f.move(restored)
	m.From = direct.l
	if p, err := m.Run(t.Context()); err == nil || p.State != MoveNew || cuts.Cut.Load() != nil {
		t.Fatalf("%+v %v", p, err)
	}
	if d := cmp.Diff(want, restored.content()); d != "" {
		t.Errorf("the new ledger has (-) what the old one had, and (+):\n%s", d)
	}
	if p, err := f.move(restored).Plan(t.Context()); err != nil || p.State != MoveCopied {
		t.Errorf("%+v %v", p, err)
	}
	left := f.content()
	older := otherLedger(t)
	older.l.id = g.l.id
	refused(f, older, left, "postgres of new.yaml had it whole and has lost it, and rows of postgres of old.yaml are gone")
	older.exec(`INSERT INTO moves (subscription, comes, other, other_name) VALUES ('acme.triage', true, $1, 'postgres of old.yaml')`, f.l.id)
	refused(f, older, left, "postgres of new.yaml had it whole and has lost it")
	refused(older, f, left, "end that move first")
	f.moveTo(restored)
	if d := cmp.Diff(want, restored.content()); d != "" {
		t.Error(d)
	}
}

// TestMoveFindsAChange: where somebody has written to the old ledger while it was copied, what was copied is thrown away.
func TestMoveFindsAChange(t *testing.T) {
	t.Parallel()
	f, g := movable(t), otherLedger(t)
	f.exec(`INSERT INTO stops (subscription, topic, topic_id, partition, kind, from_offset, to_offset, resume_offset, records, detail, found_by)
		SELECT subscription, topic, topic_id, partition, 'truncated', 8, 9, 9, 1, 'd', 'o' FROM fences WHERE subscription = $1 AND partition = 0`, f.n.id)
	for _, change := range []string{
		`UPDATE progress SET next_offset = next_offset + 1, high_offset = high_offset + 1, revision = revision + 1`,
		`UPDATE approvals SET first_by = 'jo'`,
		`UPDATE approvals SET told_at = now(), tell_at = NULL, made = 'x'`,
		`UPDATE stops SET accepted_at = now(), accepted_by = 'jo', accepted_reason = 'r'`,
		`UPDATE replays SET started_at = now(), started_by = 'jo', reason = 'r'`,
		`UPDATE replays SET cancelled_at = now()`,
	} {
		m := f.move(g)
		tables := 0
		m.Progress = func(string, int64, int64) {
			if tables++; tables == 12 {
				f.exec(change)
			}
		}
		if _, err := m.Run(t.Context()); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "has changed while it was copied") {
			t.Fatal(change, err)
		}
	}
	want := f.content()
	f.moveTo(g)
	if d := cmp.Diff(want, g.content()); d != "" {
		t.Error(d)
	}
}

// TestMoveLooksAgain: a replay that was started after the move has looked, and before it has locked the subscription, keeps it from beginning.
func TestMoveLooksAgain(t *testing.T) {
	t.Parallel()
	f, g := movable(t), otherLedger(t)
	v, state, end, err := f.move(g).start(t.Context())
	if err != nil || state != MoveNew {
		t.Fatal(state, err)
	}
	defer end()
	id := f.replaying()
	if err := v.begin(t.Context()); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), fmt.Sprintf("replay %d is under way", id)) {
		t.Error(err)
	}
	if got := f.runnable(); got != "" {
		t.Error(got)
	}
}

// TestMovedIsNotClaimed: a process that has registered before, and asks only afterwards, gets no partition in the ledger that the subscription leaves.
func TestMovedIsNotClaimed(t *testing.T) {
	t.Parallel()
	f, g := movable(t), otherLedger(t)
	m := f.move(g)
	var err error
	asked := false
	m.Progress = func(string, int64, int64) {
		if !asked {
			asked = true
			_, err = f.n.Claim(t.Context(), ClaimRequest{Partition: partition(0), Partitions: 8, Confirm: at(0)})
		}
	}
	if _, err := m.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err == nil || !strings.Contains(err.Error(), "it is being moved to postgres of new.yaml") {
		t.Error(err)
	}
}
