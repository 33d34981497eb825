package sink

import (
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
