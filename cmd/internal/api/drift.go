package api

import (
	"context"
	"net/http"

	"github.com/forebay-io/forebay/ingest/drift"
	"github.com/forebay-io/forebay/schemas"
)

// Drift is how the bodies of live events have changed their shape since the process began.
type Drift struct {
	Items []DriftItem `json:"items"`
	Next  string      `json:"next"`
	Types []DriftType `json:"types"` // what was looked at
}

// DriftItem is one field that is another than in the first bodies of its type. It goes over the wire as the intake has it.
type DriftItem = drift.Change

// DriftType is how much of an event type was looked at.
type DriftType = drift.Type

func (s *server) drift(ctx context.Context, _ *http.Request) (any, error) {
	if s.Drift == nil {
		return nil, schemas.Errorf(schemas.Conflict, "", "this process has no intake role, so it sees no deliveries; ask one that runs `forebay serve --roles intake`")
	}
	d := *s.Drift()
	if w := who(ctx); !w.All() {
		d.Items, d.Types = of(d.Items, func(i DriftItem) bool { return w.Of(i.Team) }), of(d.Types, func(t DriftType) bool { return w.Of(t.Team) })
	}
	return &d, nil
}

// DriftReport says how bodies have changed their shape, as the asked process has seen them.
func (c *Client) DriftReport(ctx context.Context) (*Drift, error) {
	return getJSON[*Drift](ctx, c, "/v1/schemas/drift", nil)
}
