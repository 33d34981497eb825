package console

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// auditPage is who changed what, the newest first.
type auditPage struct {
	Query  url.Values
	Page   api.Page[api.AuditItem]
	Older  string // link to the next page; empty: this is the last one
	Newest string // link to the first page; empty: this is the first one
}

// Get returns a filter as it stands in the URL.
func (p auditPage) Get(name string) string { return p.Query.Get(name) }

func (c *Console) audit(ctx context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	p := auditPage{Query: q}
	if err := api.OnlyKnown(r, "team", "actor", "action", "object", "since", "limit", "cursor"); err != nil {
		return nil, err
	}
	f := api.AuditFilter{Team: q.Get("team"), Actor: q.Get("actor"), Action: q.Get("action"), Object: q.Get("object"), Cursor: q.Get("cursor")}
	var err error
	if f.Limit, err = limit(q.Get("limit")); err != nil {
		return p, err
	}
	if f.Since, err = since(q.Get("since")); err != nil {
		return p, err
	}
	if p.Page, err = c.API.Changes(ctx, f); err != nil {
		return p, err
	}
	p.Older, p.Newest = turn(r.URL.Path, q, p.Page.Next)
	return p, nil
}

// indented is JSON in lines with indentation; empty if there is none.
func indented(text json.RawMessage) string {
	var b bytes.Buffer
	if len(text) == 0 || string(text) == "null" {
		return ""
	}
	if json.Indent(&b, text, "", "  ") != nil {
		return string(text)
	}
	return b.String()
}
