package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// trouble is what an error of the database means for a transaction.
type trouble int

const (
	permanent         trouble = iota // our fault, or the set-up's: comes back to the caller
	transient                        // again, after a while
	slow                             // a deadline has passed, the server's or ours: again, and then in parts
	lost                             // the connection is gone: again, and in doubt if a COMMIT was on its way
	badData                          // some row's data: bisect
	oldPlan                          // the connection's prepared statements are outdated: a new connection, at once
	oldWindows                       // the windows have turned: read which are live, again at once
	possibleDuplicate                // an event may not be new: ask for all keys, again at once
)

var errRotated = errors.New("the dedupe windows have rotated")

// troubleOf classifies by SQLSTATE; see design section 5, "A batch may fail, never for ever".
func troubleOf(err error) trouble {
	if _, ok := errors.AsType[silence](err); ok {
		return slow
	}
	if errors.Is(err, errRotated) {
		return oldWindows
	}
	if errors.Is(err, errPossibleDuplicate) {
		return possibleDuplicate
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return transient // nothing was sent
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		if isOurs(err) {
			return permanent
		}
		return lost
	}
	switch {
	case pg.Code == "40001", pg.Code == "40P01", pg.Code == "55P03", strings.HasPrefix(pg.Code, "53"),
		pg.Code == "25006":
		return transient
	case pg.Code == "57014", pg.Code == "25P03", pg.Code == "25P04":
		return slow
	case strings.HasPrefix(pg.Code, "08"), strings.HasPrefix(pg.Code, "57P"),
		pg.Severity == "FATAL", pg.Severity == "PANIC":
		return lost
	case pg.Code == "0A000", pg.Code == "26000":
		return oldPlan
	case pg.Code == "42P01":
		return oldWindows
	case strings.HasPrefix(pg.Code, "22"), strings.HasPrefix(pg.Code, "23"), strings.HasPrefix(pg.Code, "54"):
		return badData
	}
	return permanent
}

// refusal marks an error that this package raised itself, so that it is never taken for a lost connection.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// ContinuityError says that a slice does not begin at the ledger's next offset, or that the ledger has moved on without this
// claim. Something between the log and the ledger was lost or came twice. The partition must be claimed again, and read
// from the stored offset.
type ContinuityError struct {
	Partition    Partition
	Stored, From int64 // the ledger's next offset, and where the slice begins
	Detail       string
}

func (e *ContinuityError) Error() string {
	if e.From == e.Stored && e.Detail != "" {
		return fmt.Sprintf("%s/%d at offset %d: %s", e.Partition.Topic, e.Partition.Number, e.From, e.Detail)
	}
	text := fmt.Sprintf("%s/%d was read from offset %d, and the ledger's next offset is %d", e.Partition.Topic, e.Partition.Number, e.From, e.Stored)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// unanswered reports whether the server's answer was lost: a COMMIT may have happened.
func unanswered(err error) bool {
	t := troubleOf(err)
	if _, ok := errors.AsType[silence](err); ok {
		return true
	}
	return t == lost || t == slow && !statementTimeout(err)
}

// statementTimeout reports whether the server has ended a statement, and lives on.
func statementTimeout(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "57014"
}

// locked reports whether another transaction held a lock for too long.
func locked(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "55P03"
}

func isOurs(err error) bool {
	_, ok := errors.AsType[refusal](err)
	return ok
}

// divided reports a division by zero, which only counted statements come to.
func divided(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "22012"
}

func duplicateKey(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "23505"
}

// backoff waits before try number n (0 does not wait): exponential with full jitter, at most two seconds.
func backoff(ctx context.Context, n int) error {
	if n <= 0 {
		return ctx.Err()
	}
	limit := min(10*time.Millisecond<<min(n-1, 10), 2*time.Second)
	t := time.NewTimer(rand.N(limit))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// clean makes text fit for a text column: valid UTF-8, no NUL, at most limit bytes.
func clean(s string, limit int) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}
