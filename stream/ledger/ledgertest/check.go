package ledgertest

import (
	"fmt"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// CheckResults returns the error of Record for results. It is for scripted doubles of a part of the ledger, so that they refuse what it
// refuses.
func CheckResults(results []ledger.Result) error {
	const op = "record results"
	for i := range results {
		if err := results[i].Validate(); err != nil {
			return &schemas.Error{Kind: schemas.Invalid, Op: op, Err: err}
		}
	}
	claims := claimsOf(results)
	for i := 1; i < len(claims); i++ {
		if claims[i].ID == claims[i-1].ID {
			return &schemas.Error{Kind: schemas.Invalid, Op: op, Err: fmt.Errorf("two claims of one fence, epochs %d and %d", claims[i-1].Epoch, claims[i].Epoch)}
		}
	}
	return nil
}
