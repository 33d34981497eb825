package postgressink

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forebay-io/forebay/stream"
)

// classify gives an error its class; see the package comment. Sent says that the statement may have reached the server.
func classify(ctx context.Context, err error, sent bool) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*stream.AttemptError](err); ok { // of the guard
		return &stream.AttemptError{Class: e.Class, Err: e.Err, Untouched: !sent}
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return &stream.AttemptError{Class: classOf(pg.Code), Err: err, Untouched: !sent}
	}
	class := stream.ClassNetwork
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		class = stream.ClassTimeout
	}
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return &stream.AttemptError{Class: class, Err: err, Untouched: !sent}
}

// classOf is the class of a SQLSTATE.
func classOf(state string) stream.Class {
	switch state {
	case "42501":
		return stream.ClassDenied
	case "57014":
		return stream.ClassTimeout
	case "08P01": // as many parameters as the statement has not
		return stream.ClassBusy
	}
	if len(state) < 2 {
		return stream.ClassBusy
	}
	switch state[:2] {
	case "21", "22", "23", "27", "44", "54", "P0":
		return stream.ClassRejected
	case "28":
		return stream.ClassDenied
	case "08":
		return stream.ClassNetwork
	}
	return stream.ClassBusy
}
