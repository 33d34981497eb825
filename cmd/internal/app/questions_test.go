package app

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/backfill"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/ledger"
)

// What the gate asks is what the API is asked: of a sequence the range, of the other kinds the entity as it is now.
func TestQuestionsBecomeRequests(t *testing.T) {
	t.Parallel()
	q := ledger.Backfill{ID: 7, Claim: 3, Source: "/acme/orders", VersionLine: gate.VersionLineKey{Entity: "o-1", Clock: "c"}, Kind: schemas.Sequence,
		Epoch: 2, From: 3, To: 4, Reason: gate.ReasonGap, Left: time.Minute}
	want := backfill.Request{ID: "7", Source: "/acme/orders", Entity: "o-1", Clock: "c", Kind: schemas.Sequence, Epoch: 2, From: 3, To: 4, Within: time.Minute}
	if diff := cmp.Diff(want, requestOf(q)); diff != "" {
		t.Error(diff)
	}
	q.Kind, q.From, q.To = schemas.Timestamp, 0, 0
	want.Kind, want.From, want.To = schemas.Timestamp, 0, -1
	if diff := cmp.Diff(want, requestOf(q)); diff != "" {
		t.Error(diff)
	}
}
