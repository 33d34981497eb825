package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"log/slog"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// SessionStore has the sessions; *[ledger.Ledger] is one.
type SessionStore interface {
	CreateSession(ctx context.Context, s ledger.Session) error
	Session(ctx context.Context, hash [32]byte) (ledger.Session, error)
	UsedSession(ctx context.Context, id int64) error
	EndSession(ctx context.Context, id int64) error
}

// Sessions are those of people who have logged in to the console. They are in the ledger: any process behind one address knows them, and one
// that is restarted. Safe for concurrent use.
type Sessions struct {
	store func() (SessionStore, error)
	rules []byte // by which a provider's claims become a role here; nil: none does
	log   *slog.Logger
}

// NewSessions returns the sessions in a store, which is asked for each time: the ledger may not be open yet. Sessions that were made by other
// rules have ended.
func NewSessions(store func() (SessionStore, error), rules []byte, log *slog.Logger) *Sessions {
	return &Sessions{store, rules, log}
}

// Session is a session, and who has it.
type Session struct {
	*Who
	Form string // what every form of the session has, and nobody else knows
	id   int64
}

// SessionEnded is the error of a session that has ended, or never was: they are not told apart.
var SessionEnded error = schemas.Errorf(schemas.Unauthenticated, "", "your session has ended: log in again")

// OpenFor begins a session of a token, Open one of somebody whom the provider knows. They return its id, of 256 random bits, for the cookie.
func (s *Sessions) OpenFor(ctx context.Context, token *Who) (id string, err error) {
	return s.open(ctx, ledger.Session{Token: token.Name}, token)
}

// Open is OpenFor's.
func (s *Sessions) Open(ctx context.Context, w *Who) (id string, err error) {
	return s.open(ctx, ledger.Session{Rules: s.rules}, w)
}

func (s *Sessions) open(ctx context.Context, n ledger.Session, w *Who) (id string, err error) {
	store, err := s.store()
	if err != nil {
		return "", err
	}
	id = RandomText()
	n.Hash, n.Name, n.Role, n.Teams, n.Payloads = Hash(id), w.Name, w.Role, w.Teams, w.Sees
	return id, store.CreateSession(ctx, n)
}

// Find returns the session of an id. used says that somebody uses it now, and does not only watch. Kinds: Unauthenticated if it has ended,
// Unavailable if nobody can tell.
func (s *Sessions) Find(ctx context.Context, id string, used bool) (*Session, error) {
	if len(id) != base64.RawURLEncoding.EncodedLen(32) {
		return nil, SessionEnded
	}
	store, err := s.store()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	found, err := store.Session(ctx, Hash(id))
	if schemas.KindOf(err) == schemas.NotFound || err == nil && found.Token == "" && subtle.ConstantTimeCompare(found.Rules, s.rules) == 0 {
		return nil, SessionEnded
	}
	if err != nil {
		return nil, err
	}
	if used && time.Since(found.UsedAt) > noteEvery {
		if err := store.UsedSession(ctx, found.ID); err != nil {
			s.log.Warn("the use of a session is not noted", "of", found.Name, "error", err)
		}
	}
	return &Session{Who: &Who{Name: found.Name, Role: found.Role, Teams: found.Teams, Sees: found.Payloads}, Form: derived(id, "form"), id: found.ID}, nil
}

// End ends a session. That it has ended is no error.
func (s *Sessions) End(ctx context.Context, n *Session) error {
	store, err := s.store()
	if err == nil {
		err = store.EndSession(ctx, n.id)
	}
	if schemas.KindOf(err) == schemas.NotFound {
		return nil
	}
	return err
}

// derived derives a secret from a random one; the random one cannot be computed from it.
func derived(id, purpose string) string {
	sum := sha256.Sum256([]byte("forebay " + purpose + "\x00" + id))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
