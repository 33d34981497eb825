package access

import (
	"context"
	"log/slog"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// Times of a Keeper.
const (
	// Fresh is how long the tokens that were read count: so long a token that was revoked still opens.
	Fresh = 5 * time.Second
	// rereadAfter is how far apart reads for tokens are that nobody knows: whoever tries many makes one a second.
	rereadAfter = time.Second
	// readWithin bounds a read of the tokens, and the note that one was used.
	readWithin = 3 * time.Second
	// noteEvery is how far apart the notes are that a token was used.
	noteEvery = time.Minute
)

// Store has the tokens; *[ledger.Ledger] is one.
type Store interface {
	Tokens(ctx context.Context) ([]ledger.Token, error)
	UsedToken(ctx context.Context, name string) error
}

// Keeper knows tokens. It reads all of them together, at most once in Fresh and for unknown ones once a second, so that a burst of
// questions is no burst of queries. Safe for concurrent use.
type Keeper struct {
	store func() (Store, error)
	log   *slog.Logger

	turn    chan struct{} // a mutex that can be waited for with a context: full while it is held, as it is while the tokens are read; never closed
	tokens  map[[32]byte]ledger.Token
	read    time.Time            // when they were; zero: never
	failed  time.Time            // when they could not be read the last time
	failure error                // why; nil: they were
	noted   map[string]time.Time // by name, when the last use was noted
}

// NewKeeper makes a keeper of the tokens in a store, which is asked for each time: the ledger may not be open yet.
func NewKeeper(store func() (Store, error), log *slog.Logger) *Keeper {
	return &Keeper{store: store, log: log, turn: make(chan struct{}, 1), noted: map[string]time.Time{}}
}

// errUnknown is the same for every text that opens nothing: which of its tokens ended why is said to those who may list them.
var errUnknown = schemas.Errorf(schemas.Unauthenticated, "", "the token is not known, has expired or was revoked: have another made (`forebay tokens create`), and set FOREBAY_TOKEN or --token-file")

// Who returns who has a token. Kinds: Unauthenticated if it opens nothing, Unavailable if the tokens cannot be read.
func (k *Keeper) Who(ctx context.Context, token string) (*Who, error) {
	if !looksLikeOne(token) {
		return nil, errUnknown
	}
	found, note, err := k.find(ctx, Hash(token))
	if err != nil {
		return nil, err
	}
	if note {
		k.note(ctx, found.Name)
	}
	return &Who{Name: found.Name, Role: found.Role, Teams: found.Teams, Sees: found.Payloads}, nil
}

// find looks a token up, in what was read not too long ago. What nobody knows may have been made since: it waits for the next read. note says
// that the token's use is to be noted.
func (k *Keeper) find(ctx context.Context, hash [32]byte) (t ledger.Token, note bool, err error) {
	t, wait, note, err := k.look(ctx, hash)
	if wait > 0 {
		next := time.NewTimer(wait)
		defer next.Stop()
		select {
		case <-next.C:
		case <-ctx.Done():
			return t, false, errUnknown
		}
		t, wait, note, err = k.look(ctx, hash)
	}
	if err == nil && wait > 0 {
		err = errUnknown // read by another question meanwhile
	}
	return t, note, err
}

// look is find, which says how long it is until the next read where that may know the token.
func (k *Keeper) look(ctx context.Context, hash [32]byte) (t ledger.Token, wait time.Duration, note bool, err error) {
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return t, 0, false, schemas.Errorf(schemas.Unavailable, "read the tokens", "others wait for them, too: %w", context.Cause(ctx))
	}
	t, known := k.tokens[hash]
	age := time.Since(k.read)
	switch {
	case k.read.IsZero() || age >= Fresh || !known && age >= rereadAfter:
		if err := k.refresh(ctx); err != nil {
			return t, 0, false, err
		}
		t, known = k.tokens[hash]
	case !known:
		return t, rereadAfter - age, false, nil
	}
	now := time.Now()
	if !known || t.RevokedAt != nil || !now.Before(t.ExpiresAt) {
		return t, 0, false, errUnknown
	}
	if note = now.Sub(k.noted[t.Name]) >= noteEvery; note {
		k.noted[t.Name] = now
	}
	return t, 0, note, nil
}

// refresh reads the tokens. That they cannot be read is known for a while: those who waited for that read do not wait for another each.
func (k *Keeper) refresh(ctx context.Context) error {
	if k.failure != nil && time.Since(k.failed) < rereadAfter {
		return k.failure
	}
	store, err := k.store()
	if err != nil {
		return err // it is not open yet, or there is none: that costs nothing to ask again
	}
	k.failure = k.readAll(ctx, store)
	k.failed = time.Now()
	return k.failure
}

// readAll reads the tokens. A question that is given up does not end it: others wait for it.
func (k *Keeper) readAll(ctx context.Context, store Store) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin)
	defer cancel()
	askedAt := time.Now()
	list, err := store.Tokens(ctx)
	if err != nil {
		return err
	}
	k.read, k.tokens = askedAt, make(map[[32]byte]ledger.Token, len(list))
	for _, t := range list {
		k.tokens[t.Hash] = t
	}
	return nil
}

// note has the use of a token noted. That it cannot be is no reason not to answer.
func (k *Keeper) note(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readWithin)
	defer cancel()
	store, err := k.store()
	if err == nil {
		err = store.UsedToken(ctx, name)
	}
	if err != nil {
		k.log.Warn("the use of a token is not noted", "token", name, "error", err)
	}
}
