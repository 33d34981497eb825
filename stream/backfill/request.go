package backfill

import (
	"context"
	"strconv"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// Request asks for what is missing on one line.
type Request struct {
	ID     string // the store's, opaque here
	Source string // "/<team>/<source>"
	Entity schemas.EntityKey
	Clock  string
	// Kind is what the line's versions are; an element of another kind would begin the line again, and is refused.
	Kind schemas.VersionKind
	// Epoch is the line's, 0 where its provider does not say. An element without one is of it; one of another epoch fills
	// nothing.
	Epoch int64
	// From and To are the closed range of values that is missing, of kind sequence. Of other kinds they mean nothing: the
	// entity as it is now is asked for.
	From, To int64
	// Within is how long the answer is still wanted, from when the request is given to the runner; 0 is as long as the
	// source's retry policy says.
	Within time.Duration
}

// ranged reports whether the request asks for a range.
func (q *Request) ranged() bool { return q.Kind == schemas.Sequence && q.From <= q.To }

func (q *Request) values() Values {
	v := Values{Entity: q.Entity}
	if q.ranged() {
		v.From, v.To = strconv.FormatInt(q.From, 10), strconv.FormatInt(q.To, 10)
	}
	return v
}

// Outcome is the result of a request. The counts are of elements.
type Outcome struct {
	// Reason is empty if all went well: there are synthetic events in the log, though not always one for every place of
	// the range. With a reason there may be some all the same, of an answer that broke off.
	Reason Reason
	Detail string // of Reason, for an operator: bounded, without control characters and secrets
	Code   int    // HTTP status of the failure, or 0

	Produced    int // became events
	Refused     int // of another entity or clock
	Unusable    int // could not be made events of the topic
	Outside     int // not in the range and not needed instead of it, or of another epoch
	OverLimit   int // were not looked at; at least so many
	NotProduced int // were wanted and could not be written to the log
}

// Store keeps requests; the ledger has one.
type Store interface {
	// Next gives a request that its caller owns from then on, and waits until there is one or ctx is done. A request is
	// given once, until Done is called for it or its owner has gone: what was given and not done is given again, to the
	// next owner. It is called by one goroutine at a time.
	Next(ctx context.Context) (Request, error)
	// Done ends a request. It gives no error to an owner that has lost its claim: there is nothing left to do. It may be
	// called concurrently, and again with the same outcome after an error.
	Done(ctx context.Context, id string, o Outcome) error
}

// Log makes an event durable; ingest/producer has one. A nil error means that all in-sync replicas have it. Errors are
// [schemas.Error]s; kind too_large is final.
type Log interface {
	Append(ctx context.Context, topic string, e *schemas.Event) error
}
