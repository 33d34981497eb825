package console

import (
	"context"
	"net/http"
	"net/url"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// dlqPage is the dead letters by group, and those of the chosen filters one by one. Its filters are those of `forebay dlq list`.
type dlqPage struct {
	listed
	Groups part[api.Page[api.DeadLetterGroup]]
	Page   api.Page[api.DeadLetterItem]
}

// GroupLink leads to the dead letters of a group, AskLink to what a verb would do with it.
func (p dlqPage) GroupLink(group string) string {
	return "/console/dlq?" + url.Values{"group": {group}}.Encode()
}

func (p dlqPage) AskLink(verb, group string) string {
	return "/console/dlq/" + verb + "?" + url.Values{"group": {group}}.Encode()
}

// deadLetters makes the page of dead letters. If their groups cannot be had, the page says so and shows the rest.
func (c *Console) deadLetters(ctx context.Context, r *http.Request) (any, error) {
	p := dlqPage{listed: listed{Query: r.URL.Query()}}
	f, err := deadLetterFilter(r)
	if err != nil {
		return p, err
	}
	all := f // groups are not paged
	all.Cursor, all.Limit = "", 0
	p.Groups = partOf(ctx, func(ctx context.Context) (api.Page[api.DeadLetterGroup], error) {
		return c.API.DeadLetterGroups(ctx, all)
	})
	if p.Page, err = c.API.DeadLetters(ctx, f); err != nil {
		return p, err
	}
	p.turn(r.URL.Path, p.Page.Next)
	return p, nil
}

func deadLetterFilter(r *http.Request) (f api.DeadLetterFilter, err error) {
	q := r.URL.Query()
	if err := api.OnlyKnown(r, "team", "subscription", "source", "entity", "type", "destination", "class", "group", "since", "limit", "cursor"); err != nil {
		return f, err
	}
	f = api.DeadLetterFilter{Team: q.Get("team"), Subscription: q.Get("subscription"), Source: q.Get("source"), Entity: schemas.EntityKey(q.Get("entity")), Type: q.Get("type"),
		Destination: q.Get("destination"), Class: q.Get("class"), Group: q.Get("group"), Cursor: q.Get("cursor")}
	if f.Limit, err = limit(q.Get("limit")); err != nil {
		return f, err
	}
	f.Since, err = since(q.Get("since"))
	return f, err
}
