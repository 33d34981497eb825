package ledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/google/go-cmp/cmp"
)

// actionID is the id of an event's action run.
func actionID(event string) schemas.ActionID {
	return schemas.NewActionID("acme.triage", 0, "/acme/github", event, "run")
}

// die makes an action a dead letter.
func (f *fixture) die(c *Claim, laneSeq int64, event string, attempt int) {
	f.t.Helper()
	f.record(Result{Claim: c, LaneSeq: laneSeq, ID: actionID(event), Status: Dead, Attempt: attempt, Code: 400, Class: "rejected",
		Error: "no such repository", Packed: []byte("packed " + event)})
}

// askAction asks something of an action.
func (f *fixture) askAction(event string, kind CommandKind, d CommandDetail) int64 {
	f.t.Helper()
	id, err := TestInbox.AskAction(f.t.Context(), f.l, actionID(event), kind, d, "jo", "the repository is back")
	if err != nil {
		f.t.Fatal(err)
	}
	return id
}

// commands reads what is asked of a claim's owner.
func (f *fixture) commands(c *Claim) []Command {
	f.t.Helper()
	asked, err := f.n.Commands(f.t.Context(), []*Claim{c}, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	return asked
}

// applyLaneCommands applies everything that is asked about actions, and says what it came to; the second time it does nothing.
func (f *fixture) applyLaneCommands(c *Claim) (done []string) {
	f.t.Helper()
	for _, cmd := range f.commands(c) {
		first, err := f.n.ApplyLaneCommand(f.t.Context(), c, cmd)
		if err != nil {
			f.t.Fatal(err)
		}
		again, err := f.n.ApplyLaneCommand(f.t.Context(), c, cmd)
		if d := cmp.Diff(first, again); d != "" || err != nil {
			f.t.Error("applied again: ", d, err)
		}
		done = append(done, fmt.Sprintf("%d:%s:%s", cmd.LaneSeq, first.Outcome, first.Status))
	}
	return done
}

func (f *fixture) openAs(c *Claim) (list []string) {
	f.t.Helper()
	open, _, err := f.n.Open(f.t.Context(), c, 0, 100)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, a := range open {
		list = append(list, fmt.Sprintf("%d:%s:%s:%d", a.LaneSeq, a.EventID, a.Status, a.Attempts))
	}
	return list
}

// ask asks for something about an event.
func (f *fixture) ask(id string, kind CommandKind) (int64, error) {
	f.t.Helper()
	item, err := f.item(id)
	if err != nil {
		f.t.Fatal(err)
	}
	return TestInbox.Ask(f.t.Context(), f.l, item.of, kind, "jo", "it is wanted after all")
}

// applyCommands does all that is asked and gives what became of it.
func (f *fixture) applyCommands(c *Claim) (done []string, actions []Action) {
	f.t.Helper()
	asked, err := f.n.Commands(f.t.Context(), []*Claim{c}, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, cmd := range asked {
		for again := range 2 { // the second time does nothing
			a, err := f.n.ApplyCommand(f.t.Context(), c, cmd)
			if err != nil || again == 1 && (len(a.Actions) > 0 || len(a.Outcomes) > 0) {
				f.t.Fatal(decisions(a), err)
			}
			done, actions = append(done, decisions(a)...), append(actions, a.Actions...)
		}
		s, err := f.commandStatus(cmd.ID)
		if err != nil || s.EndedAt == nil || s.Outcome == "" || s.By != "jo" {
			f.t.Errorf("%+v %v", s, err)
		}
	}
	return done, actions
}

// The database makes the same ids as this process does.
func TestActionIDInTheDatabase(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for _, event := range []string{"e-1", "", "\"quoted\" ü€\U0001F600", "a/b"} {
		want, ok := schemas.NewActionID("acme.triage", 7, "/acme/github", event, "run").Hash()
		if got := one[[16]byte](f, `SELECT action_id('acme.triage', 7, '/acme/github', $1, 'run')`, event); got != want || !ok {
			t.Errorf("%q: %x, want %x", event, got, want)
		}
	}
}

// Of what is discarded or resolved as done nothing is kept once its death is exported.
func TestDiscardedCopiesGoWithTheirExport(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1))
	f.die(c, 1, "a-1", 1)
	f.record(Result{Claim: c, LaneSeq: 2, ID: actionID("b-1"), Status: Unknown, Attempt: 1, Packed: []byte("packed")})
	f.askAction("a-1", Discard, CommandDetail{})
	f.askAction("b-1", Resolve, CommandDetail{Status: Done})
	f.applyLaneCommands(c)
	kept := func(want int) {
		t.Helper()
		if n := one[int](f, `SELECT count(*) FROM actions WHERE packed IS NOT NULL`); n != want {
			t.Errorf("%d payload copies are kept, not %d", n, want)
		}
	}
	kept(1) // the dead topic has not heard of its death
	list, err := f.n.Unexported(t.Context(), []*Claim{c}, 10)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if err := f.n.Exported(t.Context(), []*Claim{c}, list); err != nil {
		t.Fatal(err)
	}
	kept(0)
}

func TestRedriveOfAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1))
	f.record(Result{Claim: c, LaneSeq: 1, ID: actionID("a-1"), Status: Unknown, Attempt: 1})
	f.die(c, 2, "b-1", 1)
	f.askAction("a-1", Replay, CommandDetail{OutcomeUnknown: true})
	f.askAction("b-1", Replay, CommandDetail{}) // asked while it was dead
	f.record(Result{Claim: c, LaneSeq: 2, Status: Unknown, Attempt: 2})
	want := []string{"1:runs again:failed", "2:refused: its outcome is unknown by now, so that it may be done twice:unknown"}
	if d := cmp.Diff(want, f.applyLaneCommands(c)); d != "" {
		t.Error(d)
	}
	if got := one[int](f, `SELECT deaths FROM actions WHERE lane_seq = 1`); got != 0 {
		t.Errorf("an unknown outcome counts as %d deaths", got)
	}
}

// Whether an operator knows that an action may be done twice goes with it, until they run it again.
func TestRedriveKnowsThatItMayBeTwice(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1))
	for n, knows := range []bool{false, true, false} {
		f.die(c, 1, "a-1", n+1)
		f.askAction("a-1", Replay, CommandDetail{OutcomeUnknown: knows})
		f.applyLaneCommands(c)
		open, _, err := f.n.Open(t.Context(), c, 0, 1)
		if err != nil || open[0].Replay == nil || open[0].Replay.Twice != knows || !open[0].DoubtEnd.IsZero() {
			t.Errorf("%d: %v %+v", n, err, open)
		}
	}
}

func TestAskActionRefusesNonsense(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "e", 1), seq(1, "f", 1))
	f.die(c, 1, "e-1", 1)
	for name, ask := range map[string]struct {
		id   schemas.ActionID
		kind CommandKind
		d    CommandDetail
		by   string
		want schemas.Kind
	}{
		"no id":               {"act_nonsense", Replay, CommandDetail{}, "jo", schemas.Invalid},
		"an id of nothing":    {actionID("nothing"), Replay, CommandDetail{}, "jo", schemas.NotFound},
		"never tried":         {actionID("f-1"), Replay, CommandDetail{}, "jo", schemas.NotFound},
		"nobody asks":         {actionID("e-1"), Replay, CommandDetail{}, "", schemas.Invalid},
		"release":             {actionID("e-1"), Release, CommandDetail{}, "jo", schemas.Invalid},
		"told to be nonsense": {actionID("e-1"), Resolve, CommandDetail{Status: "nonsense"}, "jo", schemas.Invalid},
	} {
		if _, err := TestInbox.AskAction(t.Context(), f.l, ask.id, ask.kind, ask.d, ask.by, "because"); schemas.KindOf(err) != ask.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := one[int](f, `SELECT count(*) FROM commands`); n != 0 {
		t.Errorf("%d commands", n)
	}
}

// A dead letter is kept for longer than the window of the newer event that ran after it: the version line answers. Where that has expired,
// what is still there does, as long as a list may take.
func TestOvertakenAfterWhatRan(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) {
		s.Window, s.Done, s.Dead, s.Actions[0].OnDead = 24*time.Hour, time.Hour, 900*time.Hour, Continue
	})
	c := f.claim(0)
	event := func(offset int64, id, entity string, n int64) Record {
		r := record(offset, id, entity, schemas.Version{Kind: schemas.Monotonic, Value: n})
		r.AppendTime = time.Now()
		return r
	}
	idle := func() {
		t.Helper()
		if _, err := f.n.Tidy(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := f.n.CaughtUp(t.Context(), time.Now(), []*Claim{c}); err != nil {
			t.Fatal(err)
		}
	}
	f.apply(c, event(0, "e-5", "e", 5))
	f.die(c, 1, "e-5", 1)
	idle()
	f.turnWindow()
	f.apply(c, event(1, "e-9", "e", 9))
	f.record(Result{Claim: c, LaneSeq: 2, Status: Done, Attempt: 1})
	idle()
	f.turnWindow()
	f.apply(c, event(2, "other-1", "other", 1))
	f.askAction("e-5", Replay, CommandDetail{})
	f.applyLaneCommands(c)
	i := slices.IndexFunc(f.openActions(c), func(a Action) bool { return a.EventID == "e-5" })
	if i < 0 {
		t.Fatal("e-5 is not open")
	}
	a := f.openActions(c)[i]
	f.exec(`UPDATE version_lines SET entity = 'expired' WHERE entity = 'e'`)
	if got, err := f.n.Overtaken(t.Context(), c, a); !got || err != nil {
		t.Errorf("without its line: %v %v", got, err)
	}
	func() {
		read := f.l.read
		defer func() { f.l.read = read }()
		settings, err := f.l.cfg.settings(false), error(nil)
		settings["statement_timeout"] = "200"
		if f.l.read, err = f.l.pool(t.Context(), settings, 1, time.Minute); err != nil {
			t.Fatal(err)
		}
		hold, err := f.l.hot.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = hold.Rollback(context.Background()) }()
		if _, err := hold.Exec(t.Context(), `LOCK TABLE actions`); err != nil {
			t.Fatal(err)
		}
		if _, err := f.n.Overtaken(t.Context(), c, a); !errors.Is(err, ErrTooFar) || !strings.Contains(err.Error(), "--force") {
			t.Errorf("a walk too far: %v", err)
		}
	}()
	f.exec(`UPDATE version_lines SET entity = 'e' WHERE entity = 'expired'`)
	f.ageWindows(100 * time.Hour)
	f.exec(`UPDATE progress SET processed_at = now()`)
	idle()
	if s := f.sweep(); len(s.Dropped) != 1 {
		t.Fatalf("dropped %v", s.Dropped)
	}
	if got, err := f.n.Overtaken(t.Context(), c, a); !got || err != nil {
		t.Errorf("without the newer event: %v %v", got, err)
	}
}

// Whoever looks for a newer version, which may read much, takes no connection of batches.
func TestLookForNewerTakesNoConnectionOfBatches(t *testing.T) {
	t.Parallel()
	f := setup(t, func(s *Spec) { s.Actions[0].OnDead = Continue })
	f.l.Close()
	f.cfg.MaxConns = 1
	f.l = open(t, f.cfg)
	f.n = f.namespace(func(s *Spec) { s.Actions[0].OnDead = Continue })
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1), seq(1, "a", 2))
	f.die(c, 1, "a-1", 1)
	f.askAction("a-1", Replay, CommandDetail{})
	f.applyLaneCommands(c)
	a := f.openActions(c)[0]
	hold, err := f.l.hot.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hold.Rollback(context.WithoutCancel(t.Context())) }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if got, err := f.n.Overtaken(ctx, c, a); !got || err != nil {
		t.Errorf("beside a batch: %v %v", got, err)
	}
}

// The connection breaks around a command's COMMIT: whether the server got it or not, the command is done once, and told as that.
func TestConnectionCutAtACommand(t *testing.T) {
	t.Parallel()
	f := setup(t)
	p, g := throughProxy(t, f)
	c := g.claim(0)
	g.apply(c, seq(0, "e", 1))
	n := int32(0)
	for _, at := range []cut{{Needle: []byte("commit\x00"), Before: true}, {Needle: []byte("commit\x00")}, {Needle: []byte("begin\x00")}} {
		g.die(c, 1, "e-1", int(n)+1)
		g.askAction("e-1", Replay, CommandDetail{})
		asked := g.commands(c)
		p.Cut.Store(&at)
		o, err := g.n.ApplyLaneCommand(t.Context(), c, asked[0])
		n++
		if err != nil || o.Outcome != "runs again" || o.Status != Failed {
			t.Fatalf("%s: %+v %v", at.Needle, o, err)
		}
		if got := one[int32](f, `SELECT deaths FROM actions WHERE lane_seq = 1`); got != n || p.Cuts.Load() != n {
			t.Fatalf("%s: %d deaths of %d, %d cuts", at.Needle, got, n, p.Cuts.Load())
		}
	}
}

// Of two who ask something of an action at once one is told that something is asked of it already.
func TestOneCommandAtATime(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c := f.claim(0)
	f.apply(c, seq(0, "a", 1))
	f.die(c, 1, "a-1", 1)
	first := f.connect()
	tx, err := first.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = tx.Exec(t.Context(), `INSERT INTO commands (fence, kind, lane_seq, event_key, entity, clock, asked_by, reason)
		SELECT fence, 'discard', lane_seq, event_key, 'a', '', 'ann', 'gone' FROM actions`)
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() {
		_, err := TestInbox.AskAction(t.Context(), f.l, actionID("a-1"), Replay, CommandDetail{}, "jo", "mended")
		second <- err
	}()
	for waits := false; !waits && len(second) == 0; {
		waits = one[bool](f, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid)))`, first.PgConn().PID())
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-second; schemas.KindOf(err) != schemas.Conflict {
		t.Errorf("asked at once: %v", err)
	}
	asked := f.commands(c)
	if len(asked) != 1 || asked[0].Kind != Discard {
		t.Errorf("%+v", asked)
	}
	if more, err := f.n.Commands(t.Context(), []*Claim{c}, asked[0].ID); len(more) != 0 || err != nil {
		t.Errorf("behind it: %+v %v", more, err)
	}
}
