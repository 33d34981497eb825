package pauses

import (
	"context"
	"errors"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// SubscriptionState is what is kept of a subscription's pauses.
type SubscriptionState struct {
	Paused *Pause    // nil: it is not paused
	Since  time.Time // when it was paused, by our clock; Paused.At is the database's
	Ended  []Span    // its pauses that have ended within 30 days, by our clock
}

// Subscriptions reads the pauses of subscriptions, those that stand and those that have ended within 30 days, by "<team>.<subscription>".
func (s *Store) Subscriptions(ctx context.Context) (map[string]SubscriptionState, error) {
	rows, err := s.db.Query(ctx, `SELECT subscription, paused_at, paused_by, reason, (extract(epoch FROM now() - paused_at) * 1000000)::bigint,
		(extract(epoch FROM now() - ended_at) * 1000000)::bigint
		FROM subscription_pauses WHERE ended_at IS NULL OR ended_at > now() - interval '30 days' ORDER BY id`)
	states := map[string]SubscriptionState{}
	var (
		name     string
		p        Pause
		from     int64 // how long ago
		endedAgo *int64
	)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&name, &p.At, &p.By, &p.Reason, &from, &endedAgo}, func() error {
			state := states[name]
			if endedAgo != nil {
				state.Ended = append(state.Ended, Span{pg.Ago(from), pg.Ago(*endedAgo)})
			} else {
				state.Paused, state.Since = new(p), pg.Ago(from)
			}
			states[name] = state
			return nil
		})
	}
	if err != nil {
		return nil, pg.Unavailable("read the pauses of subscriptions", err)
	}
	return states, nil
}

// PauseSubscription pauses a subscription in all processes, and returns the pause, with the database's time. If it is paused already,
// nothing changes, and that pause is returned. Kinds: Invalid if by or reason is empty, Unavailable.
func (s *Store) PauseSubscription(ctx context.Context, name, by, reason string) (p Pause, err error) {
	op := "pause subscription " + name
	if err := schemas.CheckRequest(op, by, reason); err != nil {
		return p, err
	}
	// The update changes nothing: with it, RETURNING returns the row that is there already.
	err = s.change(ctx, op, name, &p, `INSERT INTO subscription_pauses (subscription, paused_by, reason) VALUES ($1, $2, $3)
		ON CONFLICT (subscription) WHERE ended_at IS NULL DO UPDATE SET paused_at = subscription_pauses.paused_at
		RETURNING paused_at, paused_by, reason`, by, reason)
	return p, pg.Unavailable(op, err)
}

// change runs a statement that pauses or resumes a subscription, unless that is being moved: its pause goes along.
func (s *Store) change(ctx context.Context, op, name string, p *Pause, sql, by, reason string) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if err := s.notMoving(ctx, tx, op, name); err != nil {
			return err
		}
		return tx.QueryRow(ctx, sql, name, pg.Clean(by, 200), pg.Clean(reason, 1000)).Scan(&p.At, &p.By, &p.Reason)
	})
}

// ResumeSubscription ends the pause of a subscription and returns that pause. Errors are of kind Conflict if it is not paused, Invalid if
// by or reason is empty, else Unavailable.
func (s *Store) ResumeSubscription(ctx context.Context, name, by, reason string) (p Pause, err error) {
	op := "resume subscription " + name
	if err := schemas.CheckRequest(op, by, reason); err != nil {
		return p, err
	}
	err = s.change(ctx, op, name, &p, `UPDATE subscription_pauses SET ended_at = now(), ended_by = $2, ended_reason = $3
		WHERE subscription = $1 AND ended_at IS NULL RETURNING paused_at, paused_by, reason`, by, reason)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return p, schemas.Errorf(schemas.Conflict, op, "it is not paused")
	case err != nil:
		return p, pg.Unavailable(op, err)
	}
	return p, nil
}
