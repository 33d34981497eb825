package api

import (
	"context"
	"net/http"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// Drift is how the bodies of live events have changed their shape since the process began.
type Drift struct {
	Items []DriftItem `json:"items"`
	Next  string      `json:"next"`
	Types []DriftType `json:"types"` // what was looked at
}

// DriftItem is one field that is another than in the first bodies of its type.
type DriftItem struct {
	Team   string    `json:"team"`
	Source string    `json:"source"`
	Type   string    `json:"type"`
	Field  string    `json:"field"`  // JSON Pointer; elements of arrays are *
	Change string    `json:"change"` // new, gone or kind
	Was    []string  `json:"was"`    // kinds; null of a new one
	Is     []string  `json:"is"`     // null of one that is gone
	Since  time.Time `json:"since"`  // the first body with it; of one that is gone, the last
}

// DriftType is how much of an event type was looked at.
type DriftType struct {
	Team     string `json:"team"`
	Source   string `json:"source"`
	Type     string `json:"type"`
	Samples  int    `json:"samples"`
	Learning bool   `json:"learning"` // too few bodies: nothing is compared yet
	More     bool   `json:"more"`     // it has more fields than are kept
}

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
