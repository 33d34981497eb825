package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
)

// approvalsPage is what waits for a person's word, or was answered, the newest first.
type approvalsPage struct {
	Query  url.Values
	States []string
	State  string // what is shown; empty: all
	Page   api.Page[api.ApprovalItem]
	Older  string // link to the next page; empty: this is the last one
	Newest string // link to the first page; empty: this is the first one
}

// Get returns a filter as it stands in the URL.
func (p approvalsPage) Get(name string) string { return p.Query.Get(name) }

func (c *Console) approvals(ctx context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	p := approvalsPage{Query: q, States: api.ApprovalStates(), State: api.ApprovalWaiting}
	if err := api.OnlyKnown(r, "team", "state", "limit", "cursor"); err != nil {
		return nil, err
	}
	if q.Has("state") { // an empty one is any
		p.State = q.Get("state")
	}
	n, err := limit(q.Get("limit"))
	if err != nil {
		return p, err
	}
	if p.Page, err = c.API.Approvals(ctx, q.Get("team"), p.State, n, q.Get("cursor")); err != nil {
		return p, err
	}
	p.Older, p.Newest = turn(r.URL.Path, q, p.Page.Next)
	return p, nil
}

// approvalPage is one question, and what can be said to it.
type approvalPage struct {
	*api.ApprovalItem
	Approve, Deny *form // nil: who looks may not answer, or it takes no answer
}

func approvalLink(id string) string { return "/console/approvals/" + url.PathEscape(id) }

func (c *Console) approval(ctx context.Context, r *http.Request) (any, error) {
	if err := api.OnlyKnown(r); err != nil {
		return nil, err
	}
	return c.approvalAt(ctx, r.PathValue("approval"))
}

func (c *Console) approvalAt(ctx context.Context, id string) (*approvalPage, error) {
	item, err := c.API.Approval(ctx, id)
	if err != nil {
		return nil, err
	}
	p := &approvalPage{ApprovalItem: item}
	who := api.Asks(ctx)
	named := who.Name == "" || who.Role == "admin" || slices.Contains(item.Roles, who.Role)
	if item.State == api.ApprovalWaiting && named {
		p.Approve = formFor(ctx, access.Approve, item.Team, approvalLink(item.ID)+"/"+api.VerbApprove, "Approve "+item.ID)
		p.Deny = formFor(ctx, access.Approve, item.Team, approvalLink(item.ID)+"/"+api.VerbDeny, "Deny "+item.ID)
	}
	return p, nil
}

// answer takes what somebody says. What was answered is refused: who sends a form twice says nothing twice.
func (c *Console) answer(verb string) func(context.Context, *http.Request) (any, error) {
	return func(ctx context.Context, r *http.Request) (any, error) {
		s, err := posted(r)
		if err != nil {
			return nil, err
		}
		id := r.PathValue("approval")
		if _, err = c.API.AnswerApproval(ctx, id, verb, api.ApprovalRequest{Reason: s.Reason, By: s.By}); err == nil {
			return seeOther(approvalLink(id)), nil
		}
		p, failed := c.approvalAt(ctx, id)
		if failed != nil {
			return nil, err
		}
		for v, f := range map[string]*form{api.VerbApprove: p.Approve, api.VerbDeny: p.Deny} {
			if f != nil && v == verb {
				f.Reason, f.By = s.Reason, s.Get("by")
			}
		}
		return p, err
	}
}
