package ledgertest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/ledger/ledgertest"
)

// rig is a memory with two processes.
type rig struct {
	*testing.T
	m    *ledgertest.Memory
	a, b *ledgertest.Process
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, m: ledgertest.New("acme.triage", 0)}
	start := func(name string) *ledgertest.Process {
		p, err := r.m.Process(name, ledger.Spec{Name: "acme.triage", Owner: name, Policy: gate.Policy{GapWait: time.Hour},
			Actions: []ledger.ActionSpec{{Name: "run", Destination: "acme/coder", OnDead: ledger.Park}}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	r.a, r.b = start("a"), start("b")
	return r
}

func (r *rig) claim(p *ledgertest.Process) *ledger.Claim {
	r.Helper()
	c, err := p.Claim(r.Context(), ledger.ClaimRequest{Partition: ledgertest.Partition(0), Partitions: 1, Confirm: ledgertest.Stay})
	if err != nil {
		r.Fatal(err)
	}
	return c
}

// batch is the next event of one entity, skipping some.
func batch(c *ledger.Claim, value int64) []ledger.Slice {
	return []ledger.Slice{ledgertest.Slice(c, ledgertest.Seq(c.Next.Offset, "e", value))}
}

func (r *rig) apply(p *ledgertest.Process, c *ledger.Claim, value int64) ledger.Applied {
	r.Helper()
	out, err := p.Apply(r.Context(), batch(c, value))
	if err != nil || out[0].Refused != nil {
		r.Fatal(out, err)
	}
	return out[0]
}

// TestVirtualTime has deadlines pass, and retries wait, on a bubble's clock.
func TestVirtualTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		c := r.claim(r.a)
		r.apply(r.a, c, 1)
		r.apply(r.a, c, 3)
		time.Sleep(time.Hour + time.Second)
		if left, err := r.a.NextDeadline(t.Context(), []*ledger.Claim{c}); err != nil || left[c.ID] != -time.Second {
			t.Errorf("%v %v", left, err)
		}
		tries := 0
		r.m.SetHook(func(_ context.Context, c ledgertest.Call) error {
			if c.Op != "expire" || c.Point != ledgertest.Before {
				return nil
			}
			if tries++; tries < 4 {
				return errors.New("the connection is refused")
			}
			return nil
		})
		if a, err := r.a.Expire(t.Context(), c); err != nil || len(a.Actions) != 1 || tries != 4 {
			t.Errorf("%+v %v after %d tries", a, err, tries)
		}
	})
}

// TestFrozenProcess keeps what it has locked until it goes on, and then finds out what has become of it.
func TestFrozenProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		c := r.claim(r.a)
		frozen := false
		r.m.SetHook(func(_ context.Context, call ledgertest.Call) error {
			if call.Op == "apply" && call.Point == ledgertest.Within && !frozen {
				frozen = true
				r.a.Freeze()
			}
			return nil
		})
		applied, claimed := make(chan ledger.Applied, 1), make(chan *ledger.Claim, 1)
		go func() { applied <- r.apply(r.a, c, 1) }()
		synctest.Wait()
		go func() { claimed <- r.claim(r.b) }()
		synctest.Wait()
		select {
		case <-claimed:
			t.Fatal("a claim went past a batch that holds its fence")
		case <-applied:
			t.Fatal("a frozen process goes on")
		default:
		}
		r.a.Thaw()
		if a := <-applied; a.Fenced || len(a.Actions) != 1 {
			t.Errorf("%+v", a)
		}
		if next := <-claimed; next.Next.Offset != 1 {
			t.Errorf("%+v", next)
		}
		if a := r.apply(r.a, c, 2); !a.Fenced {
			t.Errorf("%+v", a)
		}
	})
}

// TestKilledProcess writes nothing more wherever it was, and holds nothing up.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	for _, at := range []ledgertest.Point{ledgertest.Before, ledgertest.Within, ledgertest.After} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			c := r.claim(r.a)
			r.m.SetHook(func(_ context.Context, call ledgertest.Call) error {
				if call.Op == "apply" && call.Point == at {
					r.a.Kill()
				}
				return nil
			})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := r.a.Apply(ctx, batch(c, 1))
				ended <- err
			}()
			synctest.Wait()
			want := map[ledgertest.Point]int64{ledgertest.After: 1}[at]
			if next := r.claim(r.b); next.Next.Offset != want || !next.Unclean {
				t.Errorf("killed %s: %+v", at, next)
			}
			select {
			case err := <-ended:
				t.Errorf("killed %s, its call came back: %v", at, err)
			default:
			}
			cancel()
			if err := <-ended; err == nil {
				t.Errorf("killed %s, its call succeeded", at)
			}
		})
	}
}
