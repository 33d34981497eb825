package pg

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/schemas"
	"github.com/jackc/pgx/v5/pgconn"
)

// Unavailable wraps an error of the database for the caller, without the secrets that may be in it; nil for nil. What was refused with a kind of its own
// keeps it.
func Unavailable(op string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*schemas.Error](err); ok && IsRefusal(err) {
		return err
	}
	return &schemas.Error{Kind: schemas.Unavailable, Op: op, Err: Redact(err)}
}

// Redact returns an error whose text has nothing secret of the URL: of an error of connecting, one with host and port and without user,
// password and database. errors.Is and errors.As find in it what they found in err.
func Redact(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[redactedError](err); ok {
		return err
	}
	if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
		return answer
	}
	if connect, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return redactedError{fmt.Sprintf("connect to postgres at %s: %s", address(connect.Config), cause(connect)), err}
	}
	return err
}

// address returns where a connection was tried: host:port or a socket's path, several where the URL has several. No configuration, as in
// an error that a test makes, is "an unknown address".
func address(c *pgconn.Config) string {
	if c == nil {
		return "an unknown address"
	}
	var tried []string
	add := func(host string, port uint16) {
		_, at := pgconn.NetworkAddress(host, port)
		if !slices.Contains(tried, at) { // each is tried with TLS and without
			tried = append(tried, at)
		}
	}
	add(c.Host, c.Port)
	for _, f := range c.Fallbacks {
		add(f.Host, f.Port)
	}
	return strings.Join(tried, ", ")
}

// redactedError says text and still is err for errors.Is and errors.As.
type redactedError struct {
	text string
	err  error
}

func (e redactedError) Error() string { return e.text }
func (e redactedError) Unwrap() error { return e.err }

// cause returns the innermost error's text, which names no credentials.
func cause(err error) string {
	for {
		switch e := err.(type) { //nolint:errorlint // it is what walks the chain
		case interface{ Unwrap() error }:
			if e.Unwrap() == nil {
				return err.Error()
			}
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			list := e.Unwrap()
			if len(list) == 0 {
				return "unreachable"
			}
			err = list[len(list)-1]
		default:
			return err.Error()
		}
	}
}
