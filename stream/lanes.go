package stream

import (
	"github.com/forebay-io/forebay/stream/batch"
	"github.com/forebay-io/forebay/stream/owner"
	"github.com/forebay-io/forebay/stream/reader"
)

// Lanes runs the actions of claimed partitions; stream/lane implements it. All methods are safe for concurrent use;
// Open, Add and Close of one claim are called in that order.
type Lanes interface {
	owner.Lanes
	batch.Lanes
}

// Item is an open action and, where it is at hand, its event.
type Item = batch.Item

// Payloads loads events through pointers.
type Payloads = reader.Payloads

// Alive reports whether this process may still act for its group: the last successful heartbeat lies within the
// session timeout, on a monotonic clock. Asked before every attempt (P6 covers the ledger, not the wire).
type Alive func() bool
