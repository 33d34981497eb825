package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/forebay-io/forebay/stream/ledger/internal/window"
)

// Namespace registers the subscription, or finds it, and returns its part.
func (l *Ledger) Namespace(ctx context.Context, spec Spec) (*Namespace, error) {
	op := "register subscription " + spec.Name
	if err := spec.Validate(); err != nil {
		return nil, &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
	}
	n := &Namespace{ledger: l, spec: spec, maxLag: MaxLag, recent: newRecentKeys(maxRecent, maxRecent), forgetPage: forgetPage}
	err := l.transact(ctx, func(tx pgx.Tx) (err error) {
		if err := notMoved(ctx, tx, "", spec.Name); err != nil {
			return err
		}
		n.registration, err = register(ctx, tx, spec)
		return err
	})
	if err == nil {
		n.windows.subscription = n.id
		err = n.loadWindows(ctx)
	}
	if err != nil {
		return nil, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: pg.Redact(err)}
	}
	return n, nil
}

// MaxActions bounds how many actions a subscription has.
const MaxActions = 100

// Validate refuses a spec that no ledger can have.
func (s Spec) Validate() error {
	switch {
	case s.Name == "":
		return errors.New("name is empty")
	case s.Generation < 0:
		return fmt.Errorf("generation %d is negative", s.Generation)
	case s.Window < 0:
		return fmt.Errorf("dedupe window %s is negative", s.Window)
	case s.Done < 0 || s.Dead < 0:
		return fmt.Errorf("kept for %s and %s: one is negative", s.Done, s.Dead)
	case s.MaxAge < 0:
		return fmt.Errorf("longest wait %s is negative", s.MaxAge)
	case s.Forget < 0:
		return fmt.Errorf("version lines are forgotten after %s, which is negative", s.Forget)
	case s.Forget > 0 && s.Policy.Start != gate.StartAny && s.Policy.Start != "":
		return fmt.Errorf("version lines are forgotten after %s: they would begin again, which start %q does not allow", s.Forget, s.Policy.Start)
	case s.CacheLines < 0:
		return fmt.Errorf("cache of %d lines is negative", s.CacheLines)
	}
	if len(s.Actions) > MaxActions {
		return fmt.Errorf("%d actions, more than %d", len(s.Actions), MaxActions)
	}
	names := map[string]bool{}
	for _, a := range s.Actions {
		switch {
		case a.Name == "" || a.Destination == "":
			return errors.New("an action has no name or no destination")
		case a.OnDead != Park && a.OnDead != Continue:
			return fmt.Errorf("action %s: on_dead %q is not park or continue", a.Name, a.OnDead)
		case names[a.Name]:
			return fmt.Errorf("action %s is listed twice", a.Name)
		}
		names[a.Name] = true
	}
	return s.Policy.Validate()
}

// registration has the ids that the ledger gives a subscription.
type registration struct {
	id      int32   // of its row
	effects []int32 // of the rows of its actions, in the order of Spec.Actions
	plan    int32   // of the row that lists all of these
}

// register writes what is new of a subscription: its row (which it locks, so that one at a time makes the first windows), how long
// things are kept, its actions and their plan, and the first two windows.
func register(ctx context.Context, tx pgx.Tx, spec Spec) (r registration, err error) {
	r.effects = make([]int32, 0, len(spec.Actions)) // no action is an empty array, not null
	remembers, done, dead := orNull(spec.Window), orNull(spec.Done), orNull(spec.Dead)
	_, err = tx.Exec(ctx, `INSERT INTO subscriptions (name, generation, dedupe) VALUES ($1, $2, $3)
		ON CONFLICT (name, generation) DO NOTHING`, spec.Name, spec.Generation, remembers)
	if err != nil {
		return r, err
	}
	err = tx.QueryRow(ctx, `SELECT id FROM subscriptions WHERE name = $1 AND generation = $2 FOR UPDATE`,
		spec.Name, spec.Generation).Scan(&r.id)
	if err != nil {
		return r, err
	}
	_, err = tx.Exec(ctx, `UPDATE subscriptions SET dedupe = $2, keep_done = $3, keep_dead = $4
		WHERE id = $1 AND (dedupe, keep_done, keep_dead) IS DISTINCT FROM ($2, $3, $4)`, r.id, remembers, done, dead)
	if err != nil {
		return r, err
	}
	for _, a := range spec.Actions {
		effect, err := registerAction(ctx, tx, r.id, a)
		if err != nil {
			return r, err
		}
		r.effects = append(r.effects, effect)
	}
	if r.plan, err = registerPlan(ctx, tx, r.id, r.effects); err != nil {
		return r, err
	}
	return r, firstWindows(ctx, tx, r.id)
}

// orNull is null for 0.
func orNull(d time.Duration) *time.Duration {
	if d == 0 {
		return nil
	}
	return &d
}

// registerAction stores an action's name, destination and on_dead unless they are there, and returns the id of that row.
func registerAction(ctx context.Context, tx pgx.Tx, subscription int32, a ActionSpec) (effect int32, err error) {
	_, err = tx.Exec(ctx, `INSERT INTO effects (subscription, name, destination, on_dead) VALUES ($1, $2, $3, $4)
		ON CONFLICT DO NOTHING`, subscription, a.Name, a.Destination, string(a.OnDead))
	if err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, `SELECT id FROM effects WHERE subscription = $1 AND name = $2 AND destination = $3 AND on_dead = $4`,
		subscription, a.Name, a.Destination, string(a.OnDead)).Scan(&effect)
	return effect, err
}

// registerPlan stores the list of a subscription's actions unless it is there, and returns the id of that row.
func registerPlan(ctx context.Context, tx pgx.Tx, subscription int32, effects []int32) (plan int32, err error) {
	_, err = tx.Exec(ctx, `INSERT INTO plans (subscription, effects) VALUES ($1, $2) ON CONFLICT DO NOTHING`, subscription, effects)
	if err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, `SELECT id FROM plans WHERE subscription = $1 AND effects = $2`, subscription, effects).Scan(&plan)
	return plan, err
}

// firstWindows makes a current window and the next one, if the subscription has none.
func firstWindows(ctx context.Context, tx pgx.Tx, subscription int32) error {
	var windows int
	err := tx.QueryRow(ctx, `SELECT count(*) FROM windows WHERE subscription = $1`, subscription).Scan(&windows)
	if err != nil || windows > 0 {
		return err
	}
	if err := window.Add(ctx, tx, subscription, true); err != nil {
		return err
	}
	return window.Add(ctx, tx, subscription, false)
}

// MaxReleases is how many events one transaction releases from the gap buffer. Their actions have rows, a payload copy each, so that a step of
// 500 takes some tens of milliseconds.
const MaxReleases = 500

// Share returns the policy for one of n partitions.
func (s *Spec) Share(n int) gate.Policy {
	p := s.Policy.Share(n)
	p.MaxReleases = cmp.Or(p.MaxReleases, MaxReleases)
	return p
}
