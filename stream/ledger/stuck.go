package ledger

import (
	"fmt"
	"sync"
	"time"

	"github.com/forebay-io/forebay/stream/ledger/internal/pg"
)

// refusals are those of transactions that are tried until the database takes them. Safe for concurrent use.
type refusals struct {
	mu    sync.Mutex
	since time.Time // the first in a row; zero: there is none
	last  error
}

// add adds one.
func (r *refusals) add(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last = err; r.since.IsZero() {
		r.since = time.Now()
	}
}

// end ends the row: the database has taken what was tried, or nobody tries it any more.
func (r *refusals) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since, r.last = time.Time{}, nil
}

// Stuck returns why the database has refused whatever was to be written, of a batch or of results, for at least a time; nil if that is not so.
// It is tried all the while: a full disk or somebody's lock ends without a word.
func (n *Namespace) Stuck(within time.Duration) error {
	for _, of := range []struct {
		what string
		r    *refusals
	}{{"batch of events", &n.batches}, {"result", &n.results}} {
		of.r.mu.Lock()
		since, err := of.r.since, of.r.last
		of.r.mu.Unlock()
		if err != nil && time.Since(since) >= within {
			return fmt.Errorf("the ledger has taken no %s since %s: %w", of.what, since.UTC().Format(time.RFC3339), pg.Redact(err))
		}
	}
	return nil
}
