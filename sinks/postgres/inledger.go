package postgressink

import (
	"context"
	"errors"
	"strings"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/redact"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/sink"
)

// InLedger executes a statement in the ledger's own transaction. Safe for concurrent use.
type InLedger struct {
	sink.Opaque
	statement string
	params    *template.Set
	redact    *redact.Redactor
}

var (
	_ sink.Sink     = (*InLedger)(nil)
	_ sink.InLedger = (*InLedger)(nil)
)

// NewInLedger makes a sink of a statement and the parameters that [Params] declares. Errors show nothing of what is hidden.
func NewInLedger(statement string, params *template.Set, hidden ...schemas.Secret) (*InLedger, error) {
	if strings.TrimSpace(statement) == "" || params == nil {
		return nil, schemas.Errorf(schemas.Invalid, "make a postgres destination", "statement or params are missing")
	}
	return &InLedger{"postgres destination", statement, params, redact.New(redact.Words(hidden...)...)}, nil
}

// Do makes one attempt. It is over when the ledger has recorded that the action is done.
func (s *InLedger) Do(ctx context.Context, a sink.Action) (sink.Outcome, error) {
	values, err := bind(s.params, a)
	if err != nil {
		return sink.Outcome{}, err
	}
	if err := ctx.Err(); err != nil {
		return sink.Outcome{}, &sink.AttemptError{Class: sink.ClassTimeout, Err: err, Untouched: true}
	}
	if a.Commit == nil {
		return sink.Outcome{}, &sink.AttemptError{
			Class: sink.ClassBug, Err: errors.New("this ledger does not take statements"), Untouched: true,
		}
	}
	tag, err := a.Commit(ctx, sink.Statement{SQL: s.statement, Params: values})
	if refused, ok := errors.AsType[*sink.StatementError](err); ok {
		return refusal(ctx, s.redact, refused.Err)
	}
	if err != nil {
		return sink.Outcome{}, s.redact.Err(classify(ctx, err, true))
	}
	return answer(tag), nil
}

// answer returns what is kept of an attempt: the server's word on the statement.
func answer(tag string) sink.Outcome {
	if tag == "" {
		tag = "done by an earlier attempt"
	}
	return sink.Outcome{Response: []byte(tag)}
}

// InLedger implements [sink.InLedger].
func (s *InLedger) InLedger() {}

// Idempotency returns fenced: the fence is checked in the transaction of the statement.
func (s *InLedger) Idempotency() sink.Idempotency { return sink.Fenced }

// Close has nothing to give back: the connections are the ledger's.
func (s *InLedger) Close(context.Context) error { return nil }
