// Package ingest turns an HTTP request into a durable event, or refuses it with a reason.
//
//	limit ▸ verify ▸ name ▸ key ▸ produce (acks=all) ▸ 202
//
// It needs Kafka only: never Postgres.
package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// Log makes deliveries durable. Safe for concurrent use.
//
// All methods return nil only after all in-sync replicas have what they were given, and then keep no reference to their arguments; ErrSpooled
// once all of it is durable, some of it on a disk of this machine, from which it will get there: then they may keep a reference to the bodies.
// They give up when ctx is done or at the time by (zero: never); the record may still become durable after that. Errors are *schemas.Error:
// Throttled when the producer's memory is full, Unavailable when the brokers did not answer, TooLarge when the topic refuses the
// size, Internal otherwise.
type Log interface {
	Append(ctx context.Context, by time.Time, topic string, e *schemas.Event) error
	Quarantine(ctx context.Context, by time.Time, topic string, d *Delivery) error
	// AppendAll appends what one delivery comes to: events to one topic and, once those are durable, deliveries to another, in their order.
	// After an error, some of them may be durable.
	AppendAll(ctx context.Context, by time.Time, topic string, events []*schemas.Event, quarantine string, rest []*Delivery) error
}

// ErrSpooled says that a delivery is durable on a disk of this machine. It is acknowledged.
var ErrSpooled = errors.New("on disk until the brokers answer")

// Delivery is a request that could not become an event, or was refused, as it is kept in the quarantine topic.
type Delivery struct {
	Team, Source string
	Kind         string // KindUnusable or KindRefused
	Reason       string
	Detail       string
	Method       string
	URL          string           // the URL that the provider called, if the signature covers it; else empty
	Secret       int              // which of the source's secrets verified it, counted from 1; 0: not known
	Caller       verify.Caller    // who has proven itself, where one of several could have
	Headers      []schemas.Header // without secrets
	Body         []byte
	Element      int // which element of the list that was delivered Body is, counted from 1; 0: it is the whole body
	Received     time.Time
}
