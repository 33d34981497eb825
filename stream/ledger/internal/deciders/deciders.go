// Package deciders is what the processes of a ledger tell each other of what they decide by, so that one with another file is found. One small
// table of its own; nothing else of the ledger rests on it.
package deciders

import (
	"context"
	"encoding/json"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
)

// Store reads and writes the table. Safe for concurrent use.
type Store struct{ db *pg.Pool }

// New returns a store on a pool.
func New(db *pg.Pool) *Store { return &Store{db} }

// Decider is a process that decides for subscriptions.
type Decider struct {
	ID      [16]byte      // of this run of it
	Process string        // host and pid
	By      map[string]By // by subscription
}

// By is what a process decides by for a subscription.
type By struct {
	Digest string    `json:"digest"` // of the keys and their hashes
	Since  time.Time `json:"since"`  // by the process's clock
}

// NoteDecider says that a process goes on, and counts for so long if nothing more is heard of it. keys are the hashes of what it decides by, by subscription and key of the file; nil: nothing has changed
// since they were given.
func (s *Store) NoteDecider(ctx context.Context, d *Decider, long time.Duration, keys map[string]map[string]string) error {
	if keys == nil {
		tag, err := s.db.Exec(ctx, `UPDATE deciders SET counts_until = now() + $2::bigint * interval '1 microsecond' WHERE id = $1`, d.ID, long.Microseconds())
		if err == nil && tag.RowsAffected() == 0 {
			return schemas.Errorf(schemas.NotFound, "note what this process decides by", "it is not known any more")
		}
		return unavailable(err)
	}
	by, err := json.Marshal(d.By)
	if err != nil {
		return err
	}
	hashes, err := json.Marshal(keys)
	if err != nil {
		return err
	}
	_, err = s.db.Exec(ctx, `WITH old AS (DELETE FROM deciders WHERE counts_until < now() - interval '1 hour' AND id <> $1)
		INSERT INTO deciders (id, process, decides, keys, counts_until) VALUES ($1, $2, $3, $4, now() + $5::bigint * interval '1 microsecond')
		ON CONFLICT (id) DO UPDATE SET counts_until = EXCLUDED.counts_until, decides = EXCLUDED.decides, keys = EXCLUDED.keys`, d.ID, pg.Clean(d.Process, 200), by, hashes, long.Microseconds())
	return unavailable(err)
}

// ForgetDecider says that a process has ended.
func (s *Store) ForgetDecider(ctx context.Context, id [16]byte) error {
	_, err := s.db.Exec(ctx, `DELETE FROM deciders WHERE id = $1`, id)
	return unavailable(err)
}

// Deciders returns the processes that count, by their names.
func (s *Store) Deciders(ctx context.Context) ([]Decider, error) {
	rows, err := s.db.Query(ctx, `SELECT id, process, decides FROM deciders WHERE counts_until > now() ORDER BY process, id`)
	if err != nil {
		return nil, unavailable(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Decider])
	return list, unavailable(err)
}

// DecidesBy returns the hashes of what a process decides by for a subscription, by key of the file; none where it is not known.
func (s *Store) DecidesBy(ctx context.Context, id [16]byte, subscription string) (keys map[string]string, err error) {
	rows, err := s.db.Query(ctx, `SELECT coalesce(keys -> $2::text, '{}') FROM deciders WHERE id = $1`, id, subscription)
	if err != nil {
		return nil, unavailable(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[map[string]string])
	if err != nil || len(list) == 0 {
		return nil, unavailable(err)
	}
	return list[0], nil
}

func unavailable(err error) error { return pg.Unavailable("compare what processes decide by", err) }
