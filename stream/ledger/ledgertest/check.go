package ledgertest

import (
	"fmt"
	"slices"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/ledger"
)

// What follows is for scripted doubles of a part of the ledger, so that they refuse what it refuses.

// CheckClaim returns the error of [ledger.Namespace.Claim] for a request that it refuses before it does anything.
func CheckClaim(r ledger.ClaimRequest) error {
	if err := r.Validate(); err != nil {
		return &schemas.Error{Kind: schemas.Invalid, Op: "claim", Err: err}
	}
	return nil
}

// CheckStart returns the error of Claim for a start that Confirm has decided, given the stored position and the current stop.
func CheckStart(stored *ledger.Position, standing *ledger.Stop, start ledger.Start) error {
	if standing != nil && standing.ID == start.Accepted && standing.Accepted == nil {
		return schemas.Errorf(schemas.Unavailable, "claim", "the stop that the claim rests on is not accepted")
	}
	return start.Check(stored)
}

// CheckSlice returns the error of Apply for a slice: its claim must go on where the slice begins, and its records must ascend.
func CheckSlice(s ledger.Slice) error { return s.CheckContinuity() }

// CheckStop returns the error of Report for a stop.
func CheckStop(s ledger.Stop) error {
	switch {
	case !slices.Contains(stopKinds, s.Kind):
		return schemas.Errorf(schemas.Unavailable, "report a stop", "kind %q is none of %q", s.Kind, stopKinds)
	case s.From > s.To && s.Kind != recreated, s.Resume < 0, s.Records < -1, s.Partition.Number < 0:
		return schemas.Errorf(schemas.Unavailable, "report a stop", "from %d to %d, going on at %d, of %d records", s.From, s.To, s.Resume, s.Records)
	}
	return nil
}

// CheckResults returns the error of Record for results.
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
