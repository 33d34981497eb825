package stream

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// beats answers heartbeats as a coordinator would.
type beats struct{ answer func(s session) error }

func (b *beats) beat(_ context.Context, s session) error { return b.answer(s) }

func TestAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		b := &beats{answer: func(session) error {
			if refuse.Load() {
				return errNotMember
			}
			return nil
		}}
		p := newPulse(45*time.Second, 3*time.Second, b.beat)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { p.run(ctx); close(done) }()
		is := func(want bool, when string) {
			t.Helper()
			synctest.Wait()
			if p.Alive() != want {
				t.Errorf("%s: alive is %v", when, !want)
			}
		}
		is(false, "before joining")
		p.joined(session{member: "m", generation: 1})
		is(true, "after the first answer, without waiting for the interval")
		time.Sleep(10 * time.Minute)
		is(true, "with an answer every 3 s")
		p.joined(session{member: "m", generation: 2})
		is(true, "over a rebalance")

		refuse.Store(true)
		time.Sleep(40 * time.Second)
		is(true, "within the session timeout of the last answer")
		time.Sleep(6 * time.Second)
		is(false, "45 s after it")
		refuse.Store(false)
		time.Sleep(3 * time.Second)
		is(true, "answered again")
		p.lost()
		is(false, "lost")
		time.Sleep(time.Minute)
		is(false, "lost members send no heartbeats")
		cancel()
		<-done
	})
}

// A process that was stopped for longer than the session timeout is not alive when it wakes, and the refusal of its
// first heartbeat does not make it so.
func TestAliveAfterAFreeze(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	b := &beats{answer: func(session) error { return nil }}
	p := newPulse(45*time.Second, 3*time.Second, b.beat)
	p.now = func() time.Time { return now }
	p.joined(session{generation: 1})
	p.once(t.Context())
	if !p.Alive() {
		t.Fatal("not alive after an answer")
	}
	now = now.Add(90 * time.Second)
	b.answer = func(session) error { return errNotMember }
	p.once(t.Context())
	if p.Alive() {
		t.Error("alive after a refusal")
	}
}

// An answer counts from before its question, and not at all once the session is over.
func TestSlowAnswers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	b := &beats{}
	p := newPulse(45*time.Second, 3*time.Second, b.beat)
	p.now = func() time.Time { return now }
	b.answer = func(session) error { now = now.Add(46 * time.Second); return nil }
	p.joined(session{generation: 1})
	p.once(t.Context())
	if p.Alive() {
		t.Error("alive by an answer that took longer than the session timeout")
	}
	b.answer = func(session) error { p.lost(); p.joined(session{generation: 2}); return nil }
	p.once(t.Context())
	if p.Alive() {
		t.Error("alive by an answer to the session before")
	}
}
