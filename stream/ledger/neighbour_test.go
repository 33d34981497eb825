package ledger

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/window"
)

// lockNeighbour makes another subscription and keeps everybody from its windows until the test ends. Whoever wants to
// lock, or only plan for, one of their tables is refused at once.
func (f *fixture) lockNeighbour() {
	t := f.t
	t.Helper()
	other := f.namespace(func(s *Spec) { s.Name = "acme.neighbour" })
	tx, err := f.connect().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows, err := tx.Query(t.Context(), `SELECT id FROM windows WHERE subscription = $1 ORDER BY id`, other.id)
	if err != nil {
		t.Fatal(err)
	}
	windows, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil || len(windows) == 0 {
		t.Fatal(windows, err)
	}
	for _, w := range windows {
		for _, table := range window.Tables {
			if _, err := tx.Exec(t.Context(), fmt.Sprintf(`LOCK TABLE %s_w%d IN ACCESS EXCLUSIVE MODE`, table, w)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, pool := range []interface{ Reset() }{f.l.hot, f.l.quick, f.l.look, f.l.read, f.l.sweep} {
		pool.Reset() // no plan is left of before
	}
}

// What a subscription does for itself touches no other's windows: a plan over all of them costs the more, the more
// subscriptions there are, and waits for whoever locks one.
func TestNeighbourIsNotTouched(t *testing.T) {
	t.Parallel()
	cfg := schemaFor(t)
	mark := "?"
	if strings.Contains(cfg.URL.Reveal(), "?") {
		mark = "&"
	}
	cfg.URL = schemas.NewSecret(cfg.URL.Reveal() + mark + "lock_timeout=300ms")
	f := &fixture{t: t, cfg: cfg, l: open(t, cfg)}
	f.n = f.namespace(func(s *Spec) { s.Actions[0].OnDead = Continue })
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "c", 1), seq(3, "d", 1), seq(4, "gap", 1), seq(5, "gap", 3), broken(6, "raw"))
	f.turnWindow()
	f.apply(c, seq(7, "a", 2), seq(8, "b", 2), seq(9, "a", 1), seq(10, "e", 1), broken(11, "raw"))
	for i, event := range []string{"a-1", "b-1", "c-1"} {
		f.die(c, int64(i+1), event, 1)
		if event != "b-1" {
			f.askAction(event, Replay, CommandDetail{})
		}
	}
	f.askAction("b-1", Discard, CommandDetail{})

	f.lockNeighbour()
	f.release(c)
	c = f.claim(0)
	claims := []*Claim{c}
	f.record(Result{Claim: c, LaneSeq: 6, Status: Done, Attempt: 1}, Result{Claim: c, LaneSeq: 4, Status: Processing, Attempt: 1, Code: 202, Left: time.Hour, Silence: time.Hour})
	if d := cmp.Diff([]string{"1:runs again:failed", "3:runs again:failed", "2:given up:discarded"}, f.applyLaneCommands(c)); d != "" {
		t.Error("commands: ", d)
	}
	if d := cmp.Diff([]string{"1:a-1:failed:1", "3:c-1:failed:1", "4:d-1:processing:1", "5:gap-1:pending:0", "7:b-2:pending:0", "8:e-1:pending:0"}, f.openAs(c)); d != "" {
		t.Error("open: ", d)
	}
	open, _, err := f.n.Open(t.Context(), c, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var overtaken []string
	for _, a := range open {
		if a.Replay == nil {
			continue
		}
		got, err := f.n.Overtaken(t.Context(), c, a)
		overtaken = append(overtaken, fmt.Sprint(a.EventID, " ", got, " ", err))
	}
	if d := cmp.Diff([]string{"a-1 true <nil>", "c-1 false <nil>"}, overtaken); d != "" {
		t.Error("overtaken: ", d)
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Minute) // what waits for the neighbour is tried again until then
	defer cancel()
	if fenced, err := f.n.EndStale(soon, c, 1); fenced || err != nil {
		t.Error("ending what is overtaken: ", fenced, err)
	}
	dead, err := f.n.Unexported(t.Context(), claims, 10)
	if err != nil || len(dead) != 3 {
		t.Error("to be exported: ", dead, err)
	}
	for _, d := range dead {
		if _, _, err := f.n.DeadPayload(t.Context(), d); err != nil {
			t.Error(err)
		}
	}
	if err := f.n.Exported(t.Context(), claims, dead); err != nil {
		t.Error(err)
	}
	if again, err := f.n.Unexported(t.Context(), claims, 10); err != nil || len(again) != 0 {
		t.Error("exported and still to be: ", again, err)
	}
	if got := f.withoutCopy(c, 1000, 100); len(got) == 0 {
		t.Error("nothing has no copy")
	}
	f.copy(c, Copy{LaneSeq: 5, Packed: []byte("copy")}, Copy{LaneSeq: 8, Packed: []byte("copy")})

	if alive, err := TestInbox.Beat(t.Context(), f.l, ref(c, 4, 1)); !alive || err != nil {
		t.Error("a heartbeat: ", alive, err)
	}
	if quiet, err := f.n.SilenceLeft(t.Context(), c, []int64{4}); len(quiet) != 1 || err != nil {
		t.Error("silence: ", quiet, err)
	}
	f.resultReported(Report{AttemptRef: ref(c, 4, 1), Status: Done, Code: 200})
	if got := f.action(ref(c, 4, 1)).Status; got != Processing {
		t.Error("what is processing is ", got)
	}
	if got := f.reports(c); len(got) != 1 || got[0].Entity != "d" {
		t.Errorf("said are %+v", got)
	}
	f.apply(c, seq(12, "gap", 2), seq(13, "f", 1))
	if _, err := f.n.Expire(t.Context(), c); err != nil {
		t.Error(err)
	}
	if _, err := f.n.Forget(t.Context(), c); err != nil {
		t.Error(err)
	}
	if err := f.n.CaughtUp(t.Context(), time.Now().Add(1000*time.Hour), claims); err != nil {
		t.Error(err)
	}
	f.ageWindows(2000 * time.Hour)
	f.exec(`UPDATE windows SET opened_at = now() WHERE state = 'current'`)
	f.sweep()
	f.release(c)
	f.createdAgain(TopicID{2})
	f.silent()
	f.leave()
	if _, err := f.partitions(); err == nil {
		t.Error("a question about all subscriptions has not met the lock: the test shows nothing")
	}
}
