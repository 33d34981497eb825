package postgressink

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forebay-io/forebay/sinks/redact"
	"github.com/forebay-io/forebay/stream/sink"
)

// classify gives an error its class; see the package comment. Sent says that the statement may have reached the server.
func classify(ctx context.Context, err error, sent bool) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*sink.AttemptError](err); ok { // of the guard
		return &sink.AttemptError{Class: e.Class, Err: e.Err, Untouched: !sent}
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return &sink.AttemptError{Class: classOf(pg.Code), Err: err, Untouched: !sent}
	}
	class := sink.ClassNetwork
	if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
		class = sink.ClassTimeout
	}
	if cause := context.Cause(ctx); cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	return &sink.AttemptError{Class: class, Err: err, Untouched: !sent}
}

// refusal returns what is kept of a statement that failed. What a server says of it often quotes values, which not everybody may see who may
// see errors: its words are the answer, and the error has the names alone.
func refusal(ctx context.Context, r *redact.Redactor, err error) (sink.Outcome, error) {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return sink.Outcome{}, r.Err(classify(ctx, err, true))
	}
	var full, text strings.Builder
	full.WriteString(pg.Severity + ": " + pg.Message)
	for _, more := range []struct{ name, text string }{{"DETAIL", pg.Detail}, {"HINT", pg.Hint}, {"CONTEXT", pg.Where}} {
		if more.text != "" {
			full.WriteString("\n" + more.name + ": " + more.text)
		}
	}
	text.WriteString("the server refused the statement: SQLSTATE " + pg.Code)
	for _, at := range []struct{ name, text string }{{"constraint", pg.ConstraintName}, {"column", pg.ColumnName}, {"table", pg.TableName}} {
		if at.text != "" {
			text.WriteString(", " + at.name + " " + at.text)
		}
	}
	text.WriteString("; the answer has its words")
	answer := full.String()
	return sink.Outcome{Response: r.Head([]byte(answer[:min(len(answer), r.Limit())]))}, r.Err(&sink.AttemptError{Class: classOf(pg.Code), Err: errors.New(text.String())})
}

// classOf returns the class of a SQLSTATE. What is not the event's fault nor the login's is busy, so that it is tried again: also a statement
// or a table that is wrong, until somebody mends it.
func classOf(state string) sink.Class {
	switch state {
	case "42501":
		return sink.ClassDenied
	case "57014":
		return sink.ClassTimeout
	case "08P01": // the statement has another number of parameters
		return sink.ClassBusy
	}
	if len(state) < 2 {
		return sink.ClassBusy
	}
	switch state[:2] {
	case "21", "22", "23", "27", "44", "54", "P0":
		return sink.ClassRejected
	case "28":
		return sink.ClassDenied
	case "08":
		return sink.ClassNetwork
	}
	return sink.ClassBusy
}
