// Package access keeps the tokens of the operator API, the sessions of those who have logged in to its console, and the audit of what is
// changed through it: tables of their own, with nothing of the ledger in them. What a role may do is not its matter.
package access

import (
	"context"
	"errors"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Store reads and writes the tables. Safe for concurrent use.
type Store struct{ db *pg.Pool }

// New returns a store on a pool.
func New(db *pg.Pool) *Store { return &Store{db} }

// Token is what is kept of a token: its SHA-256, never itself. The API answers with its JSON.
type Token struct {
	Hash          [32]byte   `json:"-"`
	Name          string     `json:"name"`
	Role          string     `json:"role"`
	Teams         []string   `json:"teams"`    // null: all
	Payloads      bool       `json:"payloads"` // whether it may see what events carry
	CreatedAt     time.Time  `json:"created_at"`
	CreatedBy     string     `json:"created_by"`
	Reason        string     `json:"reason"`
	ExpiresAt     time.Time  `json:"expires_at"`
	UsedAt        *time.Time `json:"used_at"` // to the minute; null: never
	RevokedAt     *time.Time `json:"revoked_at"`
	RevokedBy     string     `json:"revoked_by"`
	RevokedReason string     `json:"revoked_reason"`
}

const columns = `hash, name, role, teams, payloads, created_at, created_by, reason, expires_at, used_at, revoked_at,
	coalesce(revoked_by, ''), coalesce(revoked_reason, '')`

// Tokens reads all tokens, by name: those that have ended, too.
func (s *Store) Tokens(ctx context.Context) ([]Token, error) {
	rows, err := s.db.Query(ctx, `SELECT `+columns+` FROM tokens ORDER BY name`)
	if err != nil {
		return nil, pg.Unavailable("read the tokens", err)
	}
	list, err := pgx.CollectRows(rows, scan)
	return list, pg.Unavailable("read the tokens", err)
}

func scan(row pgx.CollectableRow) (t Token, err error) {
	var hash []byte
	err = row.Scan(&hash, &t.Name, &t.Role, &t.Teams, &t.Payloads, &t.CreatedAt, &t.CreatedBy, &t.Reason, &t.ExpiresAt, &t.UsedAt, &t.RevokedAt,
		&t.RevokedBy, &t.RevokedReason)
	copy(t.Hash[:], hash)
	return t, err
}

// CreateToken keeps a new token, and returns it with its time of creation. Kinds: Invalid if it does not say who asks and why, Conflict if
// there is or was one of its name, Unavailable.
func (s *Store) CreateToken(ctx context.Context, t Token) (Token, error) {
	op := "create token " + t.Name
	if err := schemas.CheckRequest(op, t.CreatedBy, t.Reason); err != nil {
		return t, err
	}
	err := s.db.QueryRow(ctx, `INSERT INTO tokens (hash, name, role, teams, payloads, created_by, reason, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		RETURNING created_at`, t.Hash[:], t.Name, t.Role, t.Teams, t.Payloads, pg.Clean(t.CreatedBy, 200), pg.Clean(t.Reason, 1000), t.ExpiresAt).Scan(&t.CreatedAt)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "23505" { // unique_violation
		return t, schemas.Errorf(schemas.Conflict, op, "there is a token of that name, or was: names are not used twice, so that it stays clear who did what; take another")
	}
	return t, pg.Unavailable(op, err)
}

// RevokeToken ends a token and returns it. Kinds: Invalid if by or reason is empty, NotFound, Conflict if it is revoked already, Unavailable.
func (s *Store) RevokeToken(ctx context.Context, name, by, reason string) (t Token, err error) {
	op := "revoke token " + name
	if err := schemas.CheckRequest(op, by, reason); err != nil {
		return t, err
	}
	rows, err := s.db.Query(ctx, `UPDATE tokens SET revoked_at = now(), revoked_by = $2, revoked_reason = $3 WHERE name = $1 AND revoked_at IS NULL
		RETURNING `+columns, name, pg.Clean(by, 200), pg.Clean(reason, 1000))
	if err == nil {
		t, err = pgx.CollectExactlyOneRow(rows, scan)
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return t, s.notRevoked(ctx, op, name)
	case err != nil:
		return t, pg.Unavailable(op, err)
	}
	return t, nil
}

// notRevoked says why there was no token to revoke.
func (s *Store) notRevoked(ctx context.Context, op, name string) error {
	var there bool
	if err := s.db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM tokens WHERE name = $1)`, name).Scan(&there); err != nil {
		return pg.Unavailable(op, err)
	}
	if there {
		return schemas.Errorf(schemas.Conflict, op, "it is revoked already")
	}
	return schemas.Errorf(schemas.NotFound, op, "there is none; `forebay tokens list` shows those that there are")
}

// UsedToken notes that a token is used now. Within a minute it writes once, whichever processes call it.
func (s *Store) UsedToken(ctx context.Context, name string) error {
	_, err := s.db.Exec(ctx, `UPDATE tokens SET used_at = now() WHERE name = $1 AND (used_at IS NULL OR used_at < now() - interval '1 minute')`, name)
	return pg.Unavailable("note the use of token "+name, err)
}
