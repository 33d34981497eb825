// Package ingest turns an HTTP request into a durable event, or refuses it with a reason.
//
//	limit ▸ verify ▸ name ▸ key ▸ produce (acks=all) ▸ 202
//
// It needs Kafka only: never Postgres.
package ingest

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// Log makes deliveries durable. Safe for concurrent use.
//
// Both methods return nil only after all in-sync replicas have the record, and then keep no reference to their arguments. They give
// up when ctx is done or at the time by (zero: never); the record may still become durable after that. Errors are *schemas.Error:
// Throttled when the producer's memory is full, Unavailable when the brokers did not answer, TooLarge when the topic refuses the
// size, Internal otherwise.
type Log interface {
	Append(ctx context.Context, by time.Time, topic string, e *schemas.Event) error
	Quarantine(ctx context.Context, by time.Time, topic string, d *Delivery) error
}

// Delivery is an authentic request that could not become an event, as it is kept in the quarantine topic.
type Delivery struct {
	Team, Source string
	Kind         string // "unusable"; later "refused"
	Reason       string
	Detail       string
	Method       string
	URL          string           // the URL that the provider called, if the signature covers it; else empty
	Secret       int              // which of the source's secrets verified it, counted from 1; 0: not known
	Headers      []schemas.Header // without secrets
	Body         []byte
	Received     time.Time
}
