package console

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// dlqPage is the dead letters by group, and those of the chosen filters one by one. Its filters are those of `forebay dlq list`.
type dlqPage struct {
	listed
	of     api.DeadLetterFilter
	Groups part[api.Page[api.DeadLetterGroup]]
	Page   api.Page[api.DeadLetterItem]
}

// GroupLink leads to the dead letters of a group under the page's filters, AskLink to what a verb would do with these.
func (p dlqPage) GroupLink(group string) string {
	p.of.Group, p.of.Cursor = group, ""
	return deadLettersLink("/console/dlq", p.of)
}

func (p dlqPage) AskLink(verb, group string) string {
	p.of.Group, p.of.Cursor = group, ""
	return deadLettersLink("/console/dlq/"+verb, p.of)
}

// deadLetters makes the page of dead letters. If their groups cannot be had, the page says so and shows the rest.
func (c *Console) deadLetters(ctx context.Context, r *http.Request) (any, error) {
	p := dlqPage{listed: listed{Query: r.URL.Query()}}
	err := api.OnlyKnown(r, append(deadFilters, "limit", "cursor")...)
	if err != nil {
		return p, err
	}
	f, err := deadLetterFilter(p.Query)
	if err != nil {
		return p, err
	}
	p.of = f
	all := f // groups are not paged
	all.Cursor, all.Limit = "", 0
	p.Groups = partOf(ctx, func(ctx context.Context) (api.Page[api.DeadLetterGroup], error) {
		return c.API.DeadLetterGroups(ctx, all)
	})
	if p.Page, err = c.API.DeadLetters(ctx, f); err != nil {
		return p, err
	}
	if f.Group != "" && len(p.Page.Items) > 0 {
		p.Query.Set("group", p.Page.Items[0].Group) // it may be cut off: further pages need the whole
	}
	p.turn(r.URL.Path, p.Page.Next)
	return p, nil
}

// deadFilters are the names of the filters of dead letters, in URLs and forms.
var deadFilters = []string{"team", "subscription", "source", "entity", "type", "destination", "class", "group", "since"}

// deadLetterFilter reads filters from a URL or a form.
func deadLetterFilter(q url.Values) (f api.DeadLetterFilter, err error) {
	f = api.DeadLetterFilter{Team: q.Get("team"), Subscription: q.Get("subscription"), Source: q.Get("source"), Entity: schemas.EntityKey(q.Get("entity")), Type: q.Get("type"),
		Destination: q.Get("destination"), Class: q.Get("class"), Group: q.Get("group"), Cursor: q.Get("cursor")}
	if f.Limit, err = limit(q.Get("limit")); err != nil {
		return f, err
	}
	f.Since, err = since(q.Get("since"))
	return f, err
}

// filtersOf returns filters as a URL or a form has them. What went back from now is a time in them: it means the same later.
func filtersOf(f api.DeadLetterFilter) url.Values {
	q := url.Values{"team": {f.Team}, "subscription": {f.Subscription}, "source": {f.Source}, "entity": {string(f.Entity)}, "type": {f.Type}, "destination": {f.Destination},
		"class": {f.Class}, "group": {f.Group}}
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339))
	}
	return filters(q)
}

// deadLettersLink leads to a page about the dead letters that f selects, from its cursor on.
func deadLettersLink(path string, f api.DeadLetterFilter) string {
	q := filtersOf(f)
	if f.Cursor != "" {
		q.Set("cursor", f.Cursor)
	}
	return path + "?" + q.Encode()
}
