package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/ledgertest"
)

// property is one thing that every ledger does, stated through what a process sees of it.
type property struct {
	name string
	hold func(f *fixture)
}

// The ledger's conformance suite: every property of claim, apply, record, open and expire that the packages above rest on, stated once.
// TestConformance holds the real ledger on Postgres to it, TestMemory the ledger in memory: what one refuses, the other refuses.
// conforms holds a ledger to every property. open makes an empty one.
func conforms(t *testing.T, open func(t testing.TB) subject) {
	for _, p := range slices.Concat(claims, applying, expiring, recording, copying, stopping, seeking, commanding, finishingLater, failing, presence) {
		t.Run(strings.ReplaceAll(p.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			p.hold(&fixture{TB: t, s: open(t)})
		})
	}
}

// fixture is a ledger of one test, and its first process.
type fixture struct {
	testing.TB
	s    subject
	l    Ledger
	spec ledger.Spec
}

const (
	subscription = "acme.triage"
	recreated    = "topic_recreated" // the stop of a topic that was created again
	maxCopies    = 8 << 20           // the bytes of payload copies that one read brings
)

// start starts a process, the fixture's if it has none yet. Those that follow have the spec of the one before, changed.
func (f *fixture) start(change ...func(*ledger.Spec)) Ledger {
	f.Helper()
	if f.spec.Name == "" {
		f.spec = ledger.Spec{Name: subscription, Owner: "test", Window: 24 * time.Hour,
			Actions: []ledger.ActionSpec{{Name: "run", Destination: "acme/coder", OnDead: ledger.Park}},
			Policy:  gate.Policy{Order: gate.OrderVersion, Start: gate.StartAny, Equal: gate.EqualApply, GapWait: time.Hour, Then: gate.ThenSkip}}
	}
	for _, c := range change {
		c(&f.spec)
	}
	l := f.s.Process(f, f.spec)
	if f.l == nil {
		f.l = l
	}
	return l
}

func (f *fixture) ctx() context.Context { return f.Context() }

// partitions is how many the suite's topic has.
const partitions = 8

var (
	partition = ledgertest.Partition
	where     = ledgertest.Stay
	seq       = ledgertest.Seq
	record    = ledgertest.Record
	slice     = ledgertest.Slice
	decisions = ledgertest.Decisions
	actionID  = ledgertest.ActionID
	lanes     = ledger.TestLanes // as "1:id:run"
)

type confirm = func(context.Context, *ledger.Position) (ledger.Start, error)

// to moves to an offset, as an operator asks.
func to(offset, accepted int64) confirm {
	return func(_ context.Context, stored *ledger.Position) (ledger.Start, error) {
		s := ledger.Start{Position: ledger.Position{Offset: offset, LeaderEpoch: -1}, Accepted: accepted}
		if stored != nil {
			s.Seek = &ledger.Seek{From: stored.Offset, To: offset}
		}
		return s, nil
	}
}

func request(p ledger.Partition, c confirm) ledger.ClaimRequest {
	return ledger.ClaimRequest{Partition: p, Partitions: partitions, Confirm: c}
}

func (f *fixture) claimBy(l Ledger, number int32) *ledger.Claim {
	f.Helper()
	c, err := l.Claim(f.ctx(), request(partition(number), where))
	if err != nil {
		f.Fatal(err)
	}
	return c
}

func (f *fixture) claim(number int32) *ledger.Claim {
	f.Helper()
	if f.l == nil {
		f.start()
	}
	return f.claimBy(f.l, number)
}

// seek claims partition 0 at an operator's position.
func (f *fixture) seek(offset int64) *ledger.Claim {
	f.Helper()
	c, err := f.l.Claim(f.ctx(), request(partition(0), to(offset, 0)))
	if err != nil {
		f.Fatal(err)
	}
	return c
}

// standing is what a claim that then fails is told.
func (f *fixture) standing(number int32) (st ledger.Standing, stored *ledger.Position) {
	f.Helper()
	enough := errors.New("enough")
	req := request(partition(number), func(_ context.Context, s *ledger.Position) (ledger.Start, error) {
		stored = s
		return ledger.Start{}, enough
	})
	req.Standing = func(s ledger.Standing) { st = s }
	if _, err := f.l.Claim(f.ctx(), req); !errors.Is(err, enough) {
		f.Fatal(err)
	}
	return st, stored
}

func filtered(r ledger.Record) ledger.Record {
	r.Filtered = true
	return r
}

// also gives a record a second key.
func also(r ledger.Record, key byte) ledger.Record {
	r.Also = gate.Also{key}
	return r
}

// at is a record that comes again, at another offset.
func at(r ledger.Record, offset int64) ledger.Record {
	r.Offset = offset
	return r
}

func (f *fixture) applyBy(l Ledger, c *ledger.Claim, records ...ledger.Record) ledger.Applied {
	f.Helper()
	out, err := l.Apply(f.ctx(), []ledger.Slice{slice(c, records...)})
	if err != nil {
		f.Fatal(err)
	}
	return out[0]
}

// apply applies and must not be refused.
func (f *fixture) apply(c *ledger.Claim, records ...ledger.Record) ledger.Applied {
	f.Helper()
	a := f.applyBy(f.l, c, records...)
	if a.Refused != nil {
		f.Fatal(a.Refused)
	}
	return a
}

func (f *fixture) expire(c *ledger.Claim) ledger.Applied {
	f.Helper()
	a, err := f.l.Expire(f.ctx(), c)
	if err != nil {
		f.Fatal(err)
	}
	return a
}

func (f *fixture) deadline(c *ledger.Claim) (time.Duration, bool) {
	f.Helper()
	left, err := f.l.NextDeadline(f.ctx(), []*ledger.Claim{c})
	if err != nil {
		f.Fatal(err)
	}
	d, ok := left[c.ID]
	return d, ok
}

func (f *fixture) record(results ...ledger.Result) {
	f.Helper()
	if fenced, err := f.l.Record(f.ctx(), results); err != nil || len(fenced) > 0 {
		f.Fatal(fenced, err)
	}
}

func (f *fixture) release(c *ledger.Claim) {
	f.Helper()
	if err := f.l.Release(f.ctx(), c); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) open(c *ledger.Claim) []ledger.Action {
	f.Helper()
	open, more, err := f.l.Open(f.ctx(), c, 0, 1000)
	if err != nil || more {
		f.Fatal(more, err)
	}
	return open
}

func (f *fixture) pass(d time.Duration) { f.s.Pass(f, d) }

// is fails where two lists are not the same.
func (f *fixture) is(what string, got []string, want ...string) {
	f.Helper()
	if len(got)+len(want) > 0 {
		if d := cmp.Diff(want, got); d != "" {
			f.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
}

// refused fails where an error is not of a kind.
func (f *fixture) refused(what string, err error, kind schemas.Kind) {
	f.Helper()
	if err == nil || schemas.KindOf(err) != kind {
		f.Errorf("%s: %v, not of kind %s", what, err, kind)
	}
}

// states of actions, as "1:id:pending:0".
func states(actions []ledger.Action) (out []string) {
	for _, a := range actions {
		out = append(out, fmt.Sprintf("%d:%s:%s:%d", a.LaneSeq, a.EventID, a.Status, a.Attempts))
	}
	return out
}

func near(a, b time.Time) bool { return a.Sub(b).Abs() < 30*time.Second }

const source = ledgertest.Source
