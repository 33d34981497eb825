package console

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// auditPage is who changed what, the newest first.
type auditPage struct {
	listed
	Page api.Page[api.AuditItem]
}

func (c *Console) audit(ctx context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	p := auditPage{listed: listed{Query: q}}
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
	p.turn(r.URL.Path, p.Page.Next)
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
