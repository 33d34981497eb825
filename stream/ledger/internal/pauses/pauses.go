// Package pauses is what all processes know of destinations: which are paused, by whom and why, and since when nothing gets
// through. And which subscriptions are paused. Small tables, a row a destination and a pause; nothing else of the ledger rests on them.
package pauses

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// Store reads and writes these tables. Safe for concurrent use.
type Store struct {
	db        *pg.Pool
	notMoving func(ctx context.Context, tx pgx.Tx, op, subscription string) error
}

// New returns a store on a pool. notMoving refuses a change of a subscription that is being moved to another ledger.
func New(db *pg.Pool, notMoving func(ctx context.Context, tx pgx.Tx, op, subscription string) error) *Store {
	return &Store{db, notMoving}
}

// State is what is kept of a destination.
type State struct {
	Paused     *Pause    // nil: it is not paused
	PausedFrom time.Time // when it was paused, by our clock; Paused.At is the database's
	Failing    time.Time // since when nothing succeeds, in any process, by our clock; zero: something did, or not for long yet
	OpenSince  time.Time // since when a breaker has been open all that time, by our clock; zero: none has
	Resumed    time.Time // when an operator last had attempts go on, by the database's clock, within 30 days; zero: none has
}

// Pause keeps every process from attempting anything at a destination until it is resumed. The API answers with its JSON.
type Pause struct {
	At     time.Time `json:"since"`
	By     string    `json:"by"`    // forebay, if no operator asked for the pause
	Class  string    `json:"class"` // of the failure for which Forebay paused the destination; empty: an operator did
	Reason string    `json:"reason"`
	Scope  string    `json:"scope,omitempty"` // what is paused with it, where that is more: all, team NAME or agent NAME. It is not kept
}

// Command returns the command that ends the pause of a destination, TEAM/DESTINATION, or a subscription, TEAM.SUBSCRIPTION, called name.
func (p Pause) Command(noun, name string) string {
	if p.Scope != "" {
		return "forebay resume --" + p.Scope + " --reason TEXT"
	}
	return "forebay " + noun + " resume " + name + " --reason TEXT"
}

// Destinations reads what is kept of destinations, by their full names. A destination that is not in the result is neither paused
// nor failing, nor was it resumed lately.
func (s *Store) Destinations(ctx context.Context) (map[string]State, error) {
	const op = "read the pauses of destinations"
	rows, err := s.db.Query(ctx, `SELECT coalesce(d.name, p.destination, r.destination) AS name, p.paused_at, r.resumed_at,
		(extract(epoch FROM now() - d.failing_since) * 1000000)::bigint AS failing_ago,
		(extract(epoch FROM now() - d.away_since) * 1000000)::bigint AS away_ago,
		coalesce((extract(epoch FROM now() - p.paused_at) * 1000000)::bigint, 0) AS paused_ago,
		coalesce(p.paused_by, '') AS paused_by, coalesce(p.class, '') AS class, coalesce(p.reason, '') AS reason
		FROM destinations d FULL JOIN (SELECT destination, paused_at, paused_by, class, reason FROM pauses WHERE ended_at IS NULL) p
		ON p.destination = d.name
		FULL JOIN (SELECT destination, max(ended_at) AS resumed_at FROM pauses WHERE ended_at > now() - interval '30 days' GROUP BY destination) r
		ON r.destination = coalesce(d.name, p.destination)`)
	if err != nil {
		return nil, pg.Unavailable(op, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[destinationRow])
	if err != nil {
		return nil, pg.Unavailable(op, err)
	}
	states := map[string]State{}
	for _, r := range found {
		state := State{Failing: agoOrZero(r.FailingAgo), OpenSince: agoOrZero(r.AwayAgo)}
		if r.ResumedAt != nil {
			state.Resumed = *r.ResumedAt
		}
		if r.PausedAt != nil {
			state.Paused, state.PausedFrom = &Pause{At: *r.PausedAt, By: r.PausedBy, Class: r.Class, Reason: r.Reason}, pg.Ago(r.PausedAgo)
		}
		states[r.Name] = state
	}
	return states, nil
}

// destinationRow is a row of the query of Destinations. What is long ago is in microseconds.
type destinationRow struct {
	Name       string
	FailingAgo *int64
	AwayAgo    *int64
	PausedAt   *time.Time
	ResumedAt  *time.Time
	PausedAgo  int64
	PausedBy   string
	Class      string
	Reason     string
}

// agoOrZero is [pg.Ago], and the zero time for nil.
func agoOrZero(us *int64) time.Time {
	if us == nil {
		return time.Time{}
	}
	return pg.Ago(*us)
}

// age returns how many microseconds ago t was: the opposite of agoOrZero.
func age(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	us := max(0, time.Since(t).Microseconds())
	return &us
}

// Span is a time from From to To.
type Span struct{ From, To time.Time }

// EndedPauses reads from when to when destinations were paused or away, of the pauses and outages that have ended within 30 days: by our
// clock, and by full name.
func (s *Store) EndedPauses(ctx context.Context) (map[string][]Span, error) {
	rows, err := s.db.Query(ctx, `SELECT destination, (extract(epoch FROM now() - from_at) * 1000000)::bigint,
		(extract(epoch FROM now() - to_at) * 1000000)::bigint FROM (
			SELECT destination, paused_at AS from_at, ended_at AS to_at FROM pauses WHERE ended_at > now() - interval '30 days'
			UNION ALL SELECT destination, from_at, to_at FROM outages WHERE to_at > now() - interval '30 days') s ORDER BY to_at`)
	ended := map[string][]Span{}
	var (
		name     string
		from, to int64 // how long ago
	)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&name, &from, &to}, func() error {
			ended[name] = append(ended[name], Span{pg.Ago(from), pg.Ago(to)})
			return nil
		})
	}
	if err != nil {
		return nil, pg.Unavailable("read the pauses of destinations", err)
	}
	return ended, nil
}

// PauseDestination pauses a destination in all processes, and returns the pause, with the database's time. If the destination is paused
// already, nothing changes, and that pause is returned. Errors: Invalid if p.By or p.Reason is empty, Unavailable.
func (s *Store) PauseDestination(ctx context.Context, name string, p Pause) (Pause, error) {
	op := "pause destination " + name
	if err := schemas.CheckRequest(op, p.By, p.Reason); err != nil {
		return p, err
	}
	// The update changes nothing: with it, RETURNING returns the row that is there already.
	err := s.db.QueryRow(ctx, `INSERT INTO pauses (destination, paused_by, class, reason) VALUES ($1, $2, $3, $4)
		ON CONFLICT (destination) WHERE ended_at IS NULL DO UPDATE SET paused_at = pauses.paused_at
		RETURNING paused_at, paused_by, class, reason`, name, pg.Clean(p.By, 200), pg.Clean(p.Class, 100), pg.Clean(p.Reason, 1000)).
		Scan(&p.At, &p.By, &p.Class, &p.Reason)
	return p, pg.Unavailable(op, err)
}

// ResumeDestination ends the pause of a destination and returns that pause. In the same transaction it removes the note since when the
// destination has been failing (endOutage). Errors are of kind Conflict if the destination is not paused, Invalid if by or reason is
// empty, else Unavailable.
func (s *Store) ResumeDestination(ctx context.Context, name, by, reason string) (p Pause, err error) {
	op := "resume destination " + name
	if err := schemas.CheckRequest(op, by, reason); err != nil {
		return p, err
	}
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `UPDATE pauses SET ended_at = now(), ended_by = $2, ended_reason = $3
			WHERE destination = $1 AND ended_at IS NULL RETURNING paused_at, paused_by, class, reason`,
			name, pg.Clean(by, 200), pg.Clean(reason, 1000)).Scan(&p.At, &p.By, &p.Class, &p.Reason)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, endOutage, name)
		return err
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return p, schemas.Errorf(schemas.Conflict, op, "it is not paused")
	case err != nil:
		return p, pg.Unavailable(op, err)
	}
	return p, nil
}

// EndHold has every process end the hold of a destination that is not paused, before the time that its Retry-After said, and try what waits
// there. It is kept as a pause of no length, which says who did it and why. Errors: Invalid if by or reason is empty, Unavailable.
func (s *Store) EndHold(ctx context.Context, name, by, reason string) error {
	op := "end the hold of destination " + name
	if err := schemas.CheckRequest(op, by, reason); err != nil {
		return err
	}
	_, err := s.db.Exec(ctx, `INSERT INTO pauses (destination, paused_by, class, reason, ended_at, ended_by, ended_reason)
		VALUES ($1, 'forebay', 'throttled', 'Retry-After', now(), $2, $3)`, name, pg.Clean(by, 200), pg.Clean(reason, 1000))
	return pg.Unavailable(op, err)
}

// FailDestination stores since when nothing gets through to a destination, and since when its breaker is open; times that are stored already
// stay. They are by our clock, and are stored by the database's. A zero since deletes both: something has got through, which ends an outage.
func (s *Store) FailDestination(ctx context.Context, name string, since, openSince time.Time) error {
	var err error
	if since.IsZero() {
		_, err = s.db.Exec(ctx, endOutage, name)
	} else {
		_, err = s.db.Exec(ctx, `INSERT INTO destinations (name, failing_since, away_since)
			VALUES ($1, now() - $2::bigint * interval '1 microsecond', now() - $3::bigint * interval '1 microsecond')
			ON CONFLICT (name) DO UPDATE SET away_since = EXCLUDED.away_since WHERE destinations.away_since IS NULL`, name, age(since), age(openSince))
	}
	return pg.Unavailable(fmt.Sprintf("keep how destination %s fares", name), err)
}

// EndOutage stores that the breaker of a destination is open no more, though something may fail there still. Where it is an outage, from
// when to when it was open is kept.
func (s *Store) EndOutage(ctx context.Context, name string, outage bool) error {
	_, err := s.db.Exec(ctx, `WITH was AS (SELECT away_since FROM destinations WHERE name = $1 AND away_since IS NOT NULL FOR UPDATE),
		ended AS (UPDATE destinations SET away_since = NULL WHERE name = $1 AND EXISTS (SELECT FROM was))
		INSERT INTO outages (destination, from_at, to_at) SELECT $1, away_since, now() FROM was WHERE $2 AND away_since < now()`, name, outage)
	return pg.Unavailable("keep that the breaker of destination "+name+" is open no more", err)
}

// endOutage forgets since when a destination fails, and keeps for how long it was away.
const endOutage = `WITH ended AS (DELETE FROM destinations WHERE name = $1 RETURNING away_since),
	old AS (DELETE FROM outages WHERE to_at < now() - interval '30 days')
	INSERT INTO outages (destination, from_at, to_at) SELECT $1, away_since, now() FROM ended WHERE away_since < now()`
