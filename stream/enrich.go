package stream

import (
	"context"
	"fmt"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// Enricher gives an event the body that its sink is to see, right before the action: in thin mode the document that the
// event only names.
//
// Enrich returns e itself where nothing has to be fetched, and otherwise a copy of it: e is never changed, and what the
// ledger copies is e. It may be called concurrently and returns when ctx is done. Its error is what an attempt's is: it
// carries a class (see [ClassOf]) and counts as a failed attempt with the Outcome's code and RetryAfter, unless it is a
// [NotYet]. Neither the error's text nor the Outcome may contain a secret.
type Enricher interface {
	Enrich(ctx context.Context, e *schemas.Event) (*schemas.Event, Outcome, error)
}

// NotYet says that no attempt can be made before Wait has passed, because of a limit of ours. It uses up no attempt.
type NotYet struct{ Wait time.Duration }

func (e *NotYet) Error() string { return fmt.Sprintf("not before %s from now", e.Wait) }
