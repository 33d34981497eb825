package inbox

import (
	"context"
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/ledgertest"
)

// asked are plans and a question of whoever is asked in TestMovingTakesNoWord, by the numbers that go along.
type asked struct {
	start, count, cancel *Replay
	approval             int64
}

// askable has the ledger have something of each kind that an operator has a word on.
func (f *fixture) askable() (of asked) {
	f.t.Helper()
	c := f.claim(0)
	conflict := seq(4, "a", 1)
	conflict.Hash = schemas.HashBody([]byte("another body"))
	f.apply(c, seq(0, "a", 1), seq(1, "b", 1), seq(2, "gap", 1), seq(3, "gap", 3), conflict, aside(5, gate.ReasonUndecodable))
	f.die(c, 1, "a-1", 1)
	f.die(c, 2, "b-1", 1)
	of.start, of.count, of.cancel = f.plan(c), f.plan(c), f.plan(c)
	f.exec(`UPDATE replays SET counted_at = NULL WHERE id = $1`, of.count.ID)
	a, err := f.l.AskApproval(f.t.Context(), ledger.ApprovalRequest{Fence: c.ID, Epoch: c.Epoch, Token: c.Token, Subscription: "acme.triage",
		ActionID: schemas.NewActionID("acme.triage", 0, "/acme/github", "gap-1", "run"), Action: "run", Destination: "acme/deploy", Digest: sha256.Sum256(nil),
		Entity: "gap", Version: "1", Source: "/acme/github", EventID: "gap-1", Type: "t", Roles: []string{"approver"}, FourEyes: true, Expires: time.Hour})
	if err != nil {
		f.t.Fatal(err)
	}
	of.approval = a.ID
	d := f.claim(1)
	if _, err := f.n.Report(f.t.Context(), ledger.Stop{Partition: d.Partition, Kind: "truncated", From: 1, To: 2, Resume: 2, Detail: "d"}, d.Epoch); err != nil {
		f.t.Fatal(err)
	}
	if _, err := f.l.PauseSubscription(f.t.Context(), "acme.triage", "jo", "it is moved"); err != nil {
		f.t.Fatal(err)
	}
	f.exec(`UPDATE fences SET claimed_at = now() - interval '1 day'`) // nobody has them any more
	f.exec(`UPDATE progress SET processed_at = now() - interval '1 day'`)
	return of
}

// words are all that operators may say on a subscription.
var words = []struct {
	name  string
	early bool // the new ledger has what it is about before the rest
	say   func(ctx context.Context, f *fixture, of asked) error
}{
	{"redrive what waits", false, func(ctx context.Context, f *fixture, _ asked) error {
		item, err := f.Item(ctx, "acme", "triage", "/acme/github", "gap-3")
		if err == nil {
			_, err = f.Ask(ctx, item, ledger.Release, "jo", "r")
		}
		return err
	}},
	{"replay a dead letter", false, func(ctx context.Context, f *fixture, _ asked) error {
		_, err := f.AskAction(ctx, actionID("a-1"), ledger.Replay, ledger.CommandDetail{}, "jo", "r")
		return err
	}},
	{"discard one that nobody owns", false, func(ctx context.Context, f *fixture, _ asked) error {
		_, err := f.EndAbandoned(ctx, actionID("b-1"), ledger.Discard, ledger.CommandDetail{}, "jo", "r")
		return err
	}},
	{"discard a conflict", false, func(ctx context.Context, f *fixture, _ asked) error { return f.Discard(ctx, f.place(4), "jo", "r") }},
	{"redrive a quarantined record", false, func(ctx context.Context, f *fixture, _ asked) error {
		return f.Redrive(ctx, f.place(5), "jo", "r", true, func(context.Context, []byte) error { return nil })
	}},
	{"approve", true, func(ctx context.Context, f *fixture, of asked) error {
		_, err := f.l.AnswerApproval(ctx, of.approval, ledger.ApprovalAnswer{Approve: true, By: "jo", Reason: "r"})
		return err
	}},
	{"deny", true, func(ctx context.Context, f *fixture, of asked) error {
		_, err := f.l.AnswerApproval(ctx, of.approval, ledger.ApprovalAnswer{By: "ann", Reason: "r"})
		return err
	}},
	{"accept a stop", false, func(ctx context.Context, f *fixture, _ asked) error {
		_, err := f.l.Accept(ctx, ledger.StopFilter{Subscription: "acme.triage"}, ledger.Acceptance{By: "jo", Reason: "r"}, false)
		return err
	}},
	{"plan a replay", true, func(ctx context.Context, f *fixture, of asked) error {
		_, err := f.SaveReplay(ctx, of.start)
		return err
	}},
	{"count a plan", true, func(ctx context.Context, f *fixture, of asked) error {
		return f.CountReplay(ctx, of.count, of.count.Bounds, true)
	}},
	{"cancel a plan", true, func(ctx context.Context, f *fixture, of asked) error {
		return f.CancelReplay(ctx, of.cancel.ID, "jo", "r")
	}},
	{"start a replay", true, func(ctx context.Context, f *fixture, of asked) error {
		return f.StartReplay(ctx, of.start, "jo", "r", 0)
	}},
	{"seek", true, func(ctx context.Context, f *fixture, _ asked) error {
		_, err := f.l.AskSeeks(ctx, []ledger.SeekAsk{{Fence: one[int32](f, `SELECT id FROM fences WHERE partition = 0`), TopicID: partition(0).TopicID, From: 6, To: 1}}, "jo", "r")
		return err
	}},
	{"resume", true, func(ctx context.Context, f *fixture, _ asked) error {
		_, err := f.l.ResumeSubscription(ctx, "acme.triage", "jo", "r")
		return err
	}},
	{"pause", true, func(ctx context.Context, f *fixture, _ asked) error {
		_, err := f.l.PauseSubscription(ctx, "acme.triage", "ann", "r")
		return err
	}},
	{"hand over to another topic", true, func(ctx context.Context, f *fixture, _ asked) error {
		readers, err := f.l.Readers(ctx, "acme.triage", partition(0).TopicID)
		if err == nil {
			_, err = f.l.HandOver(ctx, ledger.HandOver{Reader: readers[0], From: partition(0), To: ledger.Partition{Topic: "events.acme.github.2", TopicID: ledger.TopicID{2}}, Begins: map[int32]int64{0: 0}})
		}
		return err
	}},
}

// written is all that operators' words change.
func (f *fixture) written() (all []string) {
	f.t.Helper()
	for _, table := range []string{"commands", "actions", "rejected_records", "approvals", "stops", "replays", "replay_parts", "seek_requests", "subscription_pauses", "fences"} {
		all = append(all, one[string](f, `SELECT coalesce(string_agg(t::text, E'\n' ORDER BY t::text), '') FROM `+table+` t`))
	}
	return all
}

// TestMovingTakesNoWord: what an operator says while a subscription is moved would be lost with the old ledger's rows. It is refused, in both
// ledgers, and taken once the move has ended or was given up.
func TestMovingTakesNoWord(t *testing.T) {
	t.Parallel()
	for _, givenUp := range []bool{false, true} {
		t.Run(map[bool]string{false: "ended", true: "given up"}[givenUp], func(t *testing.T) {
			t.Parallel()
			f, g := setup(t), &fixture{t: t}
			g.l, g.cfg = ledgertest.Open(t)
			g.Inbox, g.eye = New(g.l), g.connect()
			of := f.askable()
			move := ledger.Move{Subscription: "acme.triage", From: f.l, To: g.l, FromName: "postgres of old.yaml", ToName: "postgres of new.yaml"}
			ctx, stop := context.WithCancel(t.Context())
			begun := move
			begun.Progress = func(table string, _, _ int64) {
				if table == "stops" { // what others name by its id is in the new ledger
					stop()
				}
			}
			if _, err := begun.Run(ctx); err == nil {
				t.Fatal("it was not broken off")
			}
			for name, at := range map[string]*fixture{"old": f, "new": g} {
				before := at.written()
				for _, w := range words {
					if at == g && !w.early {
						continue
					}
					if err := w.say(t.Context(), at, of); schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), "forebay subscriptions move acme.triage") {
						t.Errorf("%s, in the %s ledger: %v", w.name, name, err)
					}
				}
				if d := cmp.Diff(before, at.written()); d != "" {
					t.Errorf("the %s ledger:\n%s", name, d)
				}
			}
			at := g
			if givenUp {
				move.From, move.To, move.FromName, move.ToName, at = g.l, f.l, move.ToName, move.FromName, f
			}
			if _, err := move.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, w := range words {
				if err := w.say(t.Context(), at, of); err != nil {
					t.Errorf("%s, after it: %v", w.name, err)
				}
			}
		})
	}
}
