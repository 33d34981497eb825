package console

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
)

const (
	rows    = 50  // of a page whose limit is not given
	maxRows = 500 // of a page
)

// inboxPage is a page of the inbox. Its filters are those of `forebay inbox list`, and stand in the URL.
type inboxPage struct {
	listed
	Statuses  []string
	Decisions []gate.Decision
	Page      api.Page[api.InboxItem]
	Live      string // where the rows are streamed; empty: this page is not live
	After     string // the cursor from which they are
}

func (c *Console) inbox(ctx context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	p := inboxPage{listed: listed{Query: q}, Statuses: inbox.Statuses(), Decisions: gate.Decisions()}
	f, err := inboxFilter(r)
	if err != nil {
		return p, err
	}
	askedAt := time.Now()
	if p.Page, err = c.API.Items(ctx, f); err != nil {
		return p, err
	}
	p.turn(r.URL.Path, p.Page.Next)
	if f.Cursor == "" && f.Delivery == "" {
		p.Live, p.After = "/console/inbox/live?"+filters(q).Encode(), liveFrom(p.Page.Items, askedAt)
	}
	return p, nil
}

// inboxFilter reads the filters of the inbox from the URL, which may have the others beside them.
func inboxFilter(r *http.Request, others ...string) (api.InboxFilter, error) {
	q := r.URL.Query()
	if err := api.OnlyKnown(r, append(others, "team", "subscription", "source", "entity", "type", "status", "decision", "delivery", "since", "limit", "cursor")...); err != nil {
		return api.InboxFilter{}, err
	}
	f := api.InboxFilter{Team: q.Get("team"), Subscription: q.Get("subscription"), Source: q.Get("source"), Entity: schemas.EntityKey(q.Get("entity")), Type: q.Get("type"),
		Status: q.Get("status"), Decision: gate.Decision(q.Get("decision")), Delivery: q.Get("delivery"), Cursor: q.Get("cursor")}
	var err error
	if f.Limit, err = limit(q.Get("limit")); err != nil {
		return f, err
	}
	f.Since, err = since(q.Get("since"))
	return f, err
}

// filters returns what of a URL is given, without the page's cursor.
func filters(q url.Values) url.Values {
	given := url.Values{}
	for name, values := range q {
		if values[0] != "" && name != "cursor" {
			given.Set(name, values[0])
		}
	}
	return given
}

// listed is what the pages of lists have in common.
type listed struct {
	Query url.Values
	// Older and Newest are links to the next page and to the first one; empty: this is the last one, or the first.
	Older, Newest string
}

// Get returns a filter as it stands in the URL.
func (l listed) Get(name string) string { return l.Query.Get(name) }

// turn sets the links of a page whose next one begins at a cursor; empty: there is no next one.
func (l *listed) turn(path, next string) {
	with := filters(l.Query)
	if l.Get("cursor") != "" {
		l.Newest = path + "?" + with.Encode()
	}
	if next != "" {
		with.Set("cursor", next)
		l.Older = path + "?" + with.Encode()
	}
}

func limit(text string) (int, error) {
	if text == "" {
		return rows, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxRows {
		return 0, schemas.Errorf(schemas.Invalid, "", "limit must be between 1 and %d", maxRows)
	}
	return n, nil
}

// since reads a duration back from now, or a time. An empty text is the zero time.
func since(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := config.ParseDuration(text); err == nil && d > 0 {
		return time.Now().Add(-d.Std()), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, schemas.Errorf(schemas.Invalid, "", "since %q is neither a duration such as 1h or 2d nor a time such as 2026-11-21T08:00:00Z", text)
	}
	return t, nil
}
