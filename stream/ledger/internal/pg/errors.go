package pg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forebay-io/forebay/stream/internal/retry"
)

// Trouble is what an error of the database means for a transaction.
type Trouble int

const (
	Permanent Trouble = iota // our fault, or the set-up's: another try would fail too
	Transient                // try again after a while
	Slow                     // a deadline has passed, the server's or ours: try again, and then in parts
	Lost                     // the connection is gone: try again; if a COMMIT was on its way, it may have happened
	BadData                  // some row's data is refused: bisect
	OldPlan                  // the connection's prepared statements are outdated: try again at once on a new connection
	NoTable                  // a table is gone: it was dropped after it had been looked up
)

// TroubleOf classifies an error by its SQLSTATE, or by how it came about if the server did not answer.
func TroubleOf(err error) Trouble {
	if IsSilent(err) {
		return Slow
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return Transient // nothing was sent
	}
	if _, ok := errors.AsType[unreadError](err); ok {
		return Transient // as above
	}
	answer, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		if IsRefusal(err) {
			return Permanent
		}
		return Lost
	}
	switch {
	case answer.Code == "40001", answer.Code == "40P01", answer.Code == "55P03", strings.HasPrefix(answer.Code, "53"),
		answer.Code == readOnly:
		return Transient
	case answer.Code == "57014", answer.Code == "25P03", answer.Code == "25P04":
		return Slow
	case strings.HasPrefix(answer.Code, "08"), strings.HasPrefix(answer.Code, "57P"),
		answer.Severity == "FATAL", answer.Severity == "PANIC":
		return Lost
	case answer.Code == "0A000", answer.Code == "26000":
		return OldPlan
	case answer.Code == "42P01":
		return NoTable
	case strings.HasPrefix(answer.Code, "22"), strings.HasPrefix(answer.Code, "23"), strings.HasPrefix(answer.Code, "54"):
		return BadData
	}
	return Permanent
}

// Refuse marks an error that we raise ourselves: it is never taken for a lost connection.
func Refuse(err error) error { return refusal{err} }

// refusal is an error of Refuse.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// unreadError is the error of a connection that was not tried, because nobody could read as whom, or it would lead elsewhere.
type unreadError struct{ error }

func (u unreadError) Unwrap() error { return u.error }

// silence is the error of a deadline of ours: nobody knows whether the server has got what was sent.
type silence struct {
	after time.Duration
	err   error
}

func (s silence) Error() string {
	return fmt.Sprintf("no answer from postgres within %s: %v", s.after, s.err)
}
func (s silence) Unwrap() error { return s.err }

// IsSilent reports whether a deadline of ours has ended the wait for the server.
func IsSilent(err error) bool {
	_, ok := errors.AsType[silence](err)
	return ok
}

// Unanswered reports whether the server's answer was lost: a COMMIT may have happened.
func Unanswered(err error) bool {
	t := TroubleOf(err)
	return IsSilent(err) || t == Lost || (t == Slow && !StatementTimeout(err))
}

// StatementTimeout reports whether the server has cancelled a statement: the connection works on.
func StatementTimeout(err error) bool {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	return ok && answer.Code == "57014"
}

// Locked reports whether another transaction held a lock for too long.
func Locked(err error) bool {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	return ok && answer.Code == "55P03"
}

// IsRefusal reports whether the error is one of Refuse.
func IsRefusal(err error) bool {
	_, ok := errors.AsType[refusal](err)
	return ok
}

// dividedByZero reports a division by zero: only counted statements make one.
func dividedByZero(err error) bool {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	return ok && answer.Code == "22012"
}

// DuplicateKey reports whether a row with this key is there already.
func DuplicateKey(err error) bool {
	answer, ok := errors.AsType[*pgconn.PgError](err)
	return ok && answer.Code == "23505"
}

// Backoff waits before try number n (0 does not wait): exponential with full jitter, at most two seconds.
func Backoff(ctx context.Context, n int) error {
	if n <= 0 {
		return ctx.Err()
	}
	limit := min(10*time.Millisecond<<min(n-1, 10), 2*time.Second)
	return retry.Sleep(ctx, rand.N(limit))
}

// Clean makes text fit for a text column: valid UTF-8, no NUL, at most limit bytes.
func Clean(s string, limit int) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\uFFFD"), "\uFFFD")
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}
