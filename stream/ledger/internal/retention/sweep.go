// Package retention is how the ledger forgets: it opens dedupe windows, drops those that nothing needs any more, deletes second keys and
// sayings whose time has passed, and commands, results, backfills and approvals that ended long ago. It needs two pools and the tables
// (internal/window), and has one function, Sweep.
//
//	rotate.go    opens the next window                           locks subscriptions, windows, events of the current one
//	drop.go      finds the windows that can go, and drops them   locks the tables of a window
//	forget.go    deletes second keys, sayings, commands, results, backfills and approvals; ends approvals that nobody answered in time
//	failures.go  leaves out a subscription that fails again and again
package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// Config says how long things are kept beyond what dedupe needs.
type Config struct {
	// Horizon is how long after an event its provider may still repeat the event: a window is dropped only when every
	// partition has processed past the window's end plus this. Default 72 hours.
	Horizon time.Duration
	// Done and Dead are how long finished and dead actions stay readable, for subscriptions that do not say so themselves
	// (Spec.Done and Dead); 0 is 7 and 30 days.
	Done, Dead time.Duration
}

func (c Config) withDefaults() Config {
	day := 24 * time.Hour
	if c.Horizon == 0 {
		c.Horizon = 3 * day
	}
	if c.Done == 0 {
		c.Done = 7 * day
	}
	if c.Dead == 0 {
		c.Dead = 30 * day
	}
	return c
}

// Swept is what a sweep did, by window id.
type Swept struct {
	Opened, Dropped []int32
}

// Sweeper sweeps all subscriptions of a ledger. Safe for concurrent use, and in every process at once.
type Sweeper struct {
	hot, read *pg.Pool // hot changes windows, as batches do; read finds out which may be dropped
	log       *slog.Logger
	failures  failures
}

// New makes a sweeper. It does nothing by itself.
func New(hot, read *pg.Pool, log *slog.Logger) *Sweeper {
	return &Sweeper{hot: hot, read: read, log: log}
}

// subscription is a row of that table.
type subscription struct {
	ID   int32
	Name string // with its generation, unless that is 0
}

// Sweep opens new dedupe windows for all subscriptions, drops the tables of windows that are no longer needed, and deletes what else has
// ended long ago (forget.go). A window is written for as long as dedupe remembers, and kept as long again: so there are mostly three, the one
// that is written, the one before, and one that is about to be dropped.
// A sweep is cheap when there is nothing to do. A failure of one subscription does not stop the others; a subscription that fails again
// and again is left out of some sweeps.
func (s *Sweeper) Sweep(ctx context.Context, cfg Config) (Swept, error) {
	const op = "sweep the ledger"
	cfg = cfg.withDefaults()
	var swept Swept
	all, err := s.subscriptions(ctx)
	if err != nil {
		return swept, pg.Unavailable(op, err)
	}
	var failed []error
	for _, one := range all {
		if ctx.Err() != nil {
			failed = append(failed, context.Cause(ctx))
			break
		}
		if s.failures.skip(one.ID) {
			continue
		}
		err := s.sweep(ctx, one.ID, cfg, &swept)
		s.failures.record(one.ID, err)
		if err != nil {
			failed = append(failed, fmt.Errorf("subscription %s: %w", one.Name, pg.Redact(err)))
		}
	}
	if len(failed) > 0 {
		return swept, &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: errors.Join(failed...)}
	}
	return swept, nil
}

// subscriptions reads all subscriptions but those that are being moved: what is copied stays as it is.
func (s *Sweeper) subscriptions(ctx context.Context) ([]subscription, error) {
	rows, err := s.read.Query(ctx, `SELECT id, name || CASE generation WHEN 0 THEN '' ELSE '@' || generation END AS name FROM subscriptions s
		WHERE NOT EXISTS (SELECT FROM moves m WHERE m.subscription = s.name) ORDER BY id`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[subscription])
}

// sweep sweeps one subscription.
func (s *Sweeper) sweep(ctx context.Context, id int32, cfg Config, swept *Swept) error {
	opened, err := s.rotate(ctx, id)
	if opened != 0 {
		swept.Opened = append(swept.Opened, opened)
	}
	if err != nil {
		return err
	}
	dropped, err := s.dropWindows(ctx, id, cfg)
	swept.Dropped = append(swept.Dropped, dropped...)
	if err != nil {
		return err
	}
	return s.forget(ctx, id, cfg)
}
