package access

import (
	"context"
	"errors"
	"time"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
	"github.com/jackc/pgx/v5"

	"github.com/forebay-io/forebay/schemas"
)

// Session is what is kept of a session of the console: the SHA-256 of what the cookie has, never that itself.
type Session struct {
	ID        int64 // which is no secret, unlike what Hash is of
	Hash      [32]byte
	Token     string // by which somebody has logged in; empty: by the OIDC provider
	Name      string
	Role      string
	Teams     []string // nil: all
	Payloads  bool
	Rules     []byte // by which the provider's claims became a role: 32 bytes; nil where there is a token
	CreatedAt time.Time
	UsedAt    time.Time // to the minute
	ExpiresAt time.Time
}

// Times of a session.
const (
	SessionIdle = time.Hour      // it ends so long after its last use
	SessionLife = 12 * time.Hour // and so long after it was made, used or not
)

// CreateSession keeps a new session, for SessionLife, and deletes those that have ended.
func (s *Store) CreateSession(ctx context.Context, n Session) error {
	const op = "make a session"
	_, err := s.db.Exec(ctx, `DELETE FROM sessions WHERE expires_at <= now() OR used_at <= now() - $1::interval`, SessionIdle)
	if err == nil {
		_, err = s.db.Exec(ctx, `INSERT INTO sessions (hash, token, name, role, teams, payloads, rules, expires_at)
			VALUES ($1, nullif($2, ''), $3, $4, $5, $6, $7, now() + $8::interval)`, n.Hash[:], n.Token, n.Name, n.Role, n.Teams, n.Payloads, n.Rules, SessionLife)
	}
	return pg.Unavailable(op, err)
}

// Session returns a session that has not ended, by its hash. Kinds: NotFound, Unavailable.
func (s *Store) Session(ctx context.Context, hash [32]byte) (found Session, err error) {
	rows, err := s.db.Query(ctx, `SELECT s.id, s.hash, coalesce(s.token, ''), s.name, s.role, s.teams, s.payloads, s.rules, s.created_at, s.used_at, s.expires_at
		FROM sessions s LEFT JOIN tokens t ON t.name = s.token
		WHERE s.hash = $1 AND s.expires_at > now() AND s.used_at > now() - $2::interval AND (s.token IS NULL OR t.revoked_at IS NULL AND t.expires_at > now())`, hash[:], SessionIdle)
	if err == nil {
		found, err = pgx.CollectExactlyOneRow(rows, scanSession)
	}
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return found, schemas.Errorf(schemas.NotFound, "read a session", "it has ended, or never was")
	case err != nil:
		return found, pg.Unavailable("read a session", err)
	}
	return found, nil
}

func scanSession(row pgx.CollectableRow) (n Session, err error) {
	var hash []byte
	err = row.Scan(&n.ID, &hash, &n.Token, &n.Name, &n.Role, &n.Teams, &n.Payloads, &n.Rules, &n.CreatedAt, &n.UsedAt, &n.ExpiresAt)
	copy(n.Hash[:], hash)
	return n, err
}

// UsedSession notes that a session is used now. Within a minute it writes once, whichever processes call it.
func (s *Store) UsedSession(ctx context.Context, id int64) error {
	_, err := s.db.Exec(ctx, `UPDATE sessions SET used_at = now() WHERE id = $1 AND used_at < now() - interval '1 minute'`, id)
	return pg.Unavailable("note the use of a session", err)
}

// EndSession ends a session. Kinds: NotFound if there is none, Unavailable.
func (s *Store) EndSession(ctx context.Context, id int64) error {
	done, err := s.db.Exec(ctx, `DELETE FROM sessions WHERE id = $1`, id)
	if err != nil {
		return pg.Unavailable("end a session", err)
	}
	if done.RowsAffected() == 0 {
		return schemas.Errorf(schemas.NotFound, "end a session", "there is none of that number, or it has ended")
	}
	return nil
}
