package owner

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// beats answers heartbeats as a coordinator would.
type beats struct{ answer func(s session) error }

func (b *beats) beat(_ context.Context, s session) error { return b.answer(s) }

func TestAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var say atomic.Pointer[error]
		b := &beats{answer: func(session) error { return *say.Load() }}
		answer := func(err error) { say.Store(&err) }
		answer(nil)
		p := newPulse(45*time.Second, 3*time.Second, b.beat)
		o := &Owner{cfg: Config{SessionTimeout: 45 * time.Second}, pulse: p, status: &status{}} // started
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { p.run(ctx); close(done) }()
		is := func(want bool, when string) {
			t.Helper()
			synctest.Wait()
			if p.Alive() != want {
				t.Errorf("%s: alive is %v", when, !want)
			}
			o.status.joined = true // as kgo goes on to say while brokers do not answer
			if err := o.Ready(); (err == nil) != want {
				t.Errorf("%s: ready: %v", when, err)
			}
		}
		is(false, "before joining")
		p.joined(session{member: "m", generation: 1})
		is(true, "after the first answer, without waiting for the interval")
		time.Sleep(10 * time.Minute)
		is(true, "with an answer every 3 s")
		p.joined(session{member: "m", generation: 2})
		is(true, "over a rebalance")

		answer(errors.New("no broker"))
		time.Sleep(40 * time.Second)
		is(true, "within the session timeout of the last answer")
		time.Sleep(6 * time.Second)
		is(false, "45 s after it")
		answer(nil)
		time.Sleep(3 * time.Second)
		is(true, "answered again")
		answer(kerr.CoordinatorLoadInProgress)
		time.Sleep(10 * time.Second)
		is(true, "an answer that says nothing of the member")
		for _, err := range []error{kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.FencedInstanceID} {
			answer(fmt.Errorf("heartbeat: %w", err))
			time.Sleep(3 * time.Second)
			is(false, err.Error())
			answer(nil)
			time.Sleep(3 * time.Second)
			is(true, "taken for a member again")
		}
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
	p.sendOne(t.Context())
	if !p.Alive() {
		t.Fatal("not alive after an answer")
	}
	now = now.Add(90 * time.Second)
	if p.Alive() {
		t.Error("alive before anything was asked")
	}
	b.answer = func(session) error { return kerr.UnknownMemberID }
	p.sendOne(t.Context())
	if p.Alive() {
		t.Error("alive after a refusal")
	}
}

// The same for the whole machine: while it is suspended Go's clock stands still, the broker's does not.
func TestAliveAfterASuspension(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away time.Duration
		p := newPulse(45*time.Second, 3*time.Second, func(context.Context, session) error { return nil })
		p.now = nowSuspended(func() time.Duration { return away })
		p.joined(session{generation: 1})
		p.sendOne(t.Context())
		if !p.Alive() {
			t.Fatal("not alive after an answer")
		}
		away = 46 * time.Second
		if p.Alive() {
			t.Error("alive after 46 s of suspension")
		}
		p.sendOne(t.Context())
		if !p.Alive() {
			t.Error("not alive after an answer since")
		}
	})
}

// A refusal ends what was confirmed of its own session, and says nothing of the next one.
func TestRefusalOfTheSessionBefore(t *testing.T) {
	t.Parallel()
	b := &beats{answer: func(session) error { return nil }}
	p := newPulse(45*time.Second, 3*time.Second, b.beat)
	p.joined(session{generation: 1})
	p.sendOne(t.Context())
	b.answer = func(session) error { p.joined(session{generation: 2}); return kerr.IllegalGeneration }
	p.sendOne(t.Context())
	if !p.Alive() {
		t.Error("not alive by an answer to the session before")
	}
}
