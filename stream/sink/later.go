package sink

import (
	"context"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// Later is what an attempt carries where its destination may accept the action (202) and report its result later.
type Later struct {
	URL   string         // of the action; POST <URL>/result and <URL>/heartbeat, GET <URL>
	Token schemas.Secret // opens this attempt of this action and nothing else
	// Deadline is how long the result is waited for, from the 202 on.
	Deadline time.Duration
	// Heartbeat is the longest silence before it; 0: none is asked for.
	Heartbeat time.Duration
}

// Cancel says of an action that its destination has taken (see [Later]) that its result is not wanted any more.
type Cancel struct {
	ID     schemas.ActionID
	URL    string // as the destination gave it, see [Outcome.CancelURL]
	Reason string // why, in one word
}

// Newer is the Reason of a [Cancel] of an action whose entity has a newer version.
const Newer = "newer"

// CancelHeader is the HTTP header with [Cancel.Reason]: of the call of a cancel URL, and of the answer to a heartbeat.
const CancelHeader = "X-Forebay-Cancel"

// MaxCancelURL is how long a [Cancel.URL] may be, in bytes.
const MaxCancelURL = 2 << 10

// Canceler is implemented by sinks that can tell their destination to cancel what it has taken. Cancel makes one call, as Do does, and may be
// called concurrently, for one action more than once. No Cancel is under way when Close is called.
type Canceler interface {
	Cancel(ctx context.Context, c Cancel) error
}
