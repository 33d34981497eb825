package console

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
)

// approvalsPage is what waits for a person's word, or was answered, the newest first.
type approvalsPage struct {
	listed
	States []string
	State  string // what is shown, or any
	Page   api.Page[api.ApprovalItem]
}

func (c *Console) approvals(ctx context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	p := approvalsPage{listed: listed{Query: q}, States: api.ApprovalStates(), State: api.ApprovalWaiting}
	if err := api.OnlyKnown(r, "team", "state", "limit", "cursor"); err != nil {
		return nil, err
	}
	if q.Has("state") {
		p.State = cmp.Or(q.Get("state"), "any")
		q.Set("state", p.State) // so that the links to other pages have it
	}
	n, err := limit(q.Get("limit"))
	if err != nil {
		return p, err
	}
	if p.Page, err = c.API.Approvals(ctx, q.Get("team"), p.State, n, q.Get("cursor")); err != nil {
		return p, err
	}
	p.turn(r.URL.Path, p.Page.Next)
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
	return c.approvalAt(ctx, r)
}

func (c *Console) approvalAt(ctx context.Context, r *http.Request) (*approvalPage, error) {
	item, err := c.API.Approval(ctx, r.PathValue("approval"))
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
	return after(func(ctx context.Context, r *http.Request, s submission) (string, error) {
		id := r.PathValue("approval")
		_, err := c.API.AnswerApproval(ctx, id, verb, api.ApprovalRequest{Reason: s.Reason, By: s.By})
		return approvalLink(id), err
	}, c.approvalAt, func(p *approvalPage) *form {
		if verb == api.VerbApprove {
			return p.Approve
		}
		return p.Deny
	})
}
