package sink

import (
	"strings"

	"github.com/forebay-io/forebay/schemas"
)

// Call is the chain of agents' calls that a's own call is the last of: the event's, and then the subscription. A chain without a name for the
// whole gets the id of the event's trace, if it has one.
func (a Action) Call() schemas.Chain {
	c := a.Event.Chain.Then(a.Subscription)
	if parts := strings.Split(a.Event.TraceParent, "-"); c.TraceID == "" && len(parts) > 1 {
		c.TraceID = parts[1]
	}
	return c
}
