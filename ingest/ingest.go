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

// Log is where intake makes deliveries durable. Safe for concurrent use.
//
// Both methods return nil only after all in-sync replicas have the record, and then keep nothing of what they were
// given. They return when ctx is done or the time by has come (the zero time never comes), and the record may still land
// afterwards. Errors are *schemas.Error: Throttled when the producer's memory is full, Unavailable when the brokers did
// not answer, TooLarge when the topic refuses the size, Internal otherwise.
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
	URL          string           // as the provider called it, where it is signed; else empty
	Headers      []schemas.Header // all, secrets left out
	Body         []byte
	Received     time.Time
}
