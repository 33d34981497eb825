package console

import (
	"context"
	"net/http"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
)

// entityPage is an entity as a subscription sees it.
type entityPage struct {
	*api.EntityDetail
	Tracks []track
}

func (c *Console) entity(ctx context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	if err := onlyKnown(r, "of", "entity", "since", "limit"); err != nil {
		return nil, err
	}
	n, err := names.ParseEntity(q.Get("of"), q.Get("entity"))
	if err != nil {
		return nil, err
	}
	f := api.EntityFilter{Team: n.Team, Subscription: n.Subscription, Source: n.Source, Entity: n.Key}
	if f.Limit, err = limit(q.Get("limit")); err != nil {
		return nil, err
	}
	if f.Since, err = since(q.Get("since")); err != nil {
		return nil, err
	}
	d, err := c.API.Entity(ctx, f)
	if err != nil {
		return nil, err
	}
	return entityPage{d, tracks(d)}, nil
}
