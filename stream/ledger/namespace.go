package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// Namespace is one subscription's part of the ledger. Safe for concurrent use, except that a Claim belongs to one
// goroutine at a time.
type Namespace struct {
	ledger  *Ledger
	id      int32 // of the subscription's row
	spec    Spec
	effects []int32 // ids, as spec.Actions
	plan    int32   // all of them, in that order
	windows liveWindows
	maxLag  int64 // MaxLag, but in tests
	recent  *recentKeys

	forgetPage int // forgetPage, but in tests
}

// waits are how long a filler and a backfill are waited for, and both together, where that is bounded: null is no bound.
func (n *Namespace) waits() [][]byte {
	var age []byte
	if n.spec.MaxAge > 0 {
		age = pg.Int64Param(n.spec.MaxAge.Microseconds())
	}
	return [][]byte{pg.Int64Param(n.spec.Policy.GapWait.Microseconds()), pg.Int64Param(n.spec.Policy.BackfillWait.Microseconds()), age}
}

// Namespace registers the subscription, or finds it, and returns its part.
func (l *Ledger) Namespace(ctx context.Context, spec Spec) (*Namespace, error) {
	op := "register subscription " + spec.Name
	if err := spec.validate(); err != nil {
		return nil, &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
	}
	n := &Namespace{ledger: l, spec: spec, effects: make([]int32, len(spec.Actions)), maxLag: MaxLag, recent: newRecentKeys(maxRecent, maxRecent), forgetPage: forgetPage}
	err := l.transact(ctx, func(tx pgx.Tx) error { return n.register(ctx, tx) })
	if err == nil {
		n.windows.subscription = n.id
		err = n.loadWindows(ctx)
	}
	if err != nil {
		return nil, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: pg.Redact(err)}
	}
	return n, nil
}

// maxActions bounds how many actions a subscription has.
const maxActions = 100

func (s Spec) validate() error {
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
	case s.Forget < 0 || s.Forget > 0 && s.Policy.Start != gate.StartAny && s.Policy.Start != "":
		return fmt.Errorf("lines are forgotten after %s: they would begin again, which start %q does not allow", s.Forget, s.Policy.Start)
	case s.CacheLines < 0:
		return fmt.Errorf("cache of %d lines is negative", s.CacheLines)
	}
	if len(s.Actions) > maxActions {
		return fmt.Errorf("%d actions, more than %d", len(s.Actions), maxActions)
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

func (n *Namespace) register(ctx context.Context, tx pgx.Tx) error {
	window, done, dead := orNull(n.spec.Window), orNull(n.spec.Done), orNull(n.spec.Dead)
	_, err := tx.Exec(ctx, `INSERT INTO subscriptions (name, generation, dedupe) VALUES ($1, $2, $3)
		ON CONFLICT (name, generation) DO NOTHING`, n.spec.Name, n.spec.Generation, window)
	if err != nil {
		return err
	}
	// The lock lets one registration at a time make the first windows.
	err = tx.QueryRow(ctx, `SELECT id FROM subscriptions WHERE name = $1 AND generation = $2 FOR UPDATE`,
		n.spec.Name, n.spec.Generation).Scan(&n.id)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE subscriptions SET dedupe = $2, keep_done = $3, keep_dead = $4
		WHERE id = $1 AND (dedupe, keep_done, keep_dead) IS DISTINCT FROM ($2, $3, $4)`, n.id, window, done, dead)
	if err != nil {
		return err
	}
	if err := n.registerEffects(ctx, tx); err != nil {
		return err
	}
	if err := n.registerPlan(ctx, tx); err != nil {
		return err
	}
	var windows int
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM windows WHERE subscription = $1`, n.id).Scan(&windows); err != nil {
		return err
	}
	if windows > 0 {
		return nil
	}
	if err := addWindow(ctx, tx, n.id, true); err != nil {
		return err
	}
	return addWindow(ctx, tx, n.id, false)
}

// orNull is null for 0.
func orNull(d time.Duration) *time.Duration {
	if d == 0 {
		return nil
	}
	return &d
}

func (n *Namespace) registerEffects(ctx context.Context, tx pgx.Tx) error {
	for i, a := range n.spec.Actions {
		_, err := tx.Exec(ctx, `INSERT INTO effects (subscription, name, destination, on_dead) VALUES ($1, $2, $3, $4)
			ON CONFLICT DO NOTHING`, n.id, a.Name, a.Destination, string(a.OnDead))
		if err != nil {
			return err
		}
		err = tx.QueryRow(ctx, `SELECT id FROM effects WHERE subscription = $1 AND name = $2 AND destination = $3 AND on_dead = $4`,
			n.id, a.Name, a.Destination, string(a.OnDead)).Scan(&n.effects[i])
		if err != nil {
			return err
		}
	}
	return nil
}

func (n *Namespace) registerPlan(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, `INSERT INTO plans (subscription, effects) VALUES ($1, $2) ON CONFLICT DO NOTHING`, n.id, n.effects)
	if err != nil {
		return err
	}
	return tx.QueryRow(ctx, `SELECT id FROM plans WHERE subscription = $1 AND effects = $2`, n.id, n.effects).Scan(&n.plan)
}

// Begin stores where a subscription begins in topics that it has no beginning for yet: the first call's offsets for a
// topic win, later calls get those back. A partition that is not in the stored set begins at 0.
func (n *Namespace) Begin(ctx context.Context, offsets map[Partition]int64) (map[Partition]int64, error) {
	var stored map[Partition]int64
	err := n.ledger.transact(ctx, func(tx pgx.Tx) error {
		err := exactly(tx.Exec(ctx, `UPDATE subscriptions SET began_at = coalesce(began_at, now()) WHERE id = $1`, n.id))
		if err != nil {
			return err
		}
		if stored, err = n.loadBegin(ctx, tx); err != nil {
			return err
		}
		if err := n.storeBegin(ctx, tx, offsets, stored); err != nil {
			return err
		}
		stored, err = n.loadBegin(ctx, tx)
		return err
	})
	if err != nil {
		return nil, &schemas.Error{Kind: schemas.Unavailable, Op: "store the beginning of " + n.spec.Name, Err: pg.Redact(err)}
	}
	return stored, nil
}

func (n *Namespace) storeBegin(ctx context.Context, tx pgx.Tx, offsets, stored map[Partition]int64) error {
	known := map[TopicID]bool{}
	for p := range stored {
		known[p.TopicID] = true
	}
	for p, offset := range offsets {
		if known[p.TopicID] {
			continue
		}
		_, err := tx.Exec(ctx, `INSERT INTO begins (subscription, topic, topic_id, partition, log_offset)
			VALUES ($1, $2, $3, $4, $5)`, n.id, p.Topic, [16]byte(p.TopicID), p.Number, offset)
		if err != nil {
			return err
		}
	}
	return nil
}

func (n *Namespace) loadBegin(ctx context.Context, tx pgx.Tx) (map[Partition]int64, error) {
	rows, err := tx.Query(ctx, `SELECT topic, topic_id, partition, log_offset FROM begins WHERE subscription = $1`, n.id)
	if err != nil {
		return nil, err
	}
	stored := map[Partition]int64{}
	var (
		p      Partition
		id     [16]byte
		offset int64
	)
	_, err = pgx.ForEachRow(rows, []any{&p.Topic, &id, &p.Number, &offset}, func() error {
		p.TopicID = id
		stored[p] = offset
		return nil
	})
	return stored, err
}

// Began is when Begin first stored this subscription's beginning, by the database's clock; zero before.
func (n *Namespace) Began(ctx context.Context) (time.Time, error) {
	var began *time.Time
	err := n.ledger.quick.QueryRow(ctx, `SELECT began_at FROM subscriptions WHERE id = $1`, n.id).Scan(&began)
	if err != nil {
		return time.Time{}, &schemas.Error{Kind: schemas.Unavailable, Op: "read the beginning of " + n.spec.Name, Err: pg.Redact(err)}
	}
	if began == nil {
		return time.Time{}, nil
	}
	return *began, nil
}

// transact runs f in a transaction and again after transient trouble, a lost connection included, or once after a deadline: f must
// be one that can be repeated even if it was committed.
func (l *Ledger) transact(ctx context.Context, f func(pgx.Tx) error) error {
	for try := 0; ; try++ {
		if err := pg.Backoff(ctx, try); err != nil {
			return err
		}
		err := pgx.BeginFunc(ctx, l.hot, f)
		if err == nil || ctx.Err() != nil {
			return err
		}
		switch t := troubleOf(err); {
		case t == pg.Slow && try < 2, (t == pg.Transient || t == pg.Lost || t == pg.OldPlan) && try < 8:
		default:
			return err
		}
		l.cfg.Logger.WarnContext(ctx, "ledger transaction failed; trying again", "try", try+1, "error", pg.Redact(err))
	}
}
