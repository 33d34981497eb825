package backfill

import (
	"context"
	"strconv"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// Request asks for the events that are missing on one version line.
type Request struct {
	ID     string // the store's, opaque here
	Source string // "/<team>/<source>"
	Entity schemas.EntityKey
	Clock  string
	// Kind is the kind of the version line's versions. An element of another kind would begin the line again, and is refused.
	Kind schemas.VersionKind
	// Epoch is the epoch of the version line, 0 if its provider gives none. An element without an epoch is taken to be of this one; an
	// element of another epoch fills nothing.
	Epoch int64
	// From and To are the values that are missing, both ends included, of kind sequence. Of other kinds they mean nothing: the
	// entity as it is now is asked for.
	From, To int64
	// Within is how long the answer is still wanted, from when the request is given to the runner; 0 is as long as the
	// source's retry policy says.
	Within time.Duration
}

// ranged reports whether the request asks for a range.
func (req *Request) ranged() bool { return req.Kind == schemas.Sequence && req.From <= req.To }

// values returns what fills the placeholders of a URL template.
func (req *Request) values() Values {
	v := Values{Entity: req.Entity}
	if req.ranged() {
		v.From, v.To = strconv.FormatInt(req.From, 10), strconv.FormatInt(req.To, 10)
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
	Refused     int // of another entity, clock or kind of version
	Unusable    int // could not be made events of the topic
	Outside     int // not in the range, and not the snapshot that stands in for it (see fit); or of another epoch
	OverLimit   int // beyond the limits and not looked at: at least so many
	NotProduced int // were wanted and could not be written to the log
}

// Store keeps requests; the ledger has one.
type Store interface {
	// Next waits until there is a request, and returns it; the caller then has to fill it and call Done. As long as the caller owns the
	// request's partition, nobody else gets the request. If the claim ends before Done, the next owner of the partition gets it. Next is
	// called by one goroutine at a time.
	Next(ctx context.Context) (Request, error)
	// Done ends a request. It returns no error to an owner that has lost its claim: there is nothing left to do. It may be
	// called concurrently, and again with the same outcome after an error.
	Done(ctx context.Context, id string, o Outcome) error
}

// Log makes an event durable; ingest/producer has one. A nil error means that all in-sync replicas have it. Errors are
// [schemas.Error]s; kind too_large is final.
type Log interface {
	Append(ctx context.Context, topic string, e *schemas.Event) error
}
