package console

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// form is a form that changes something. The template form shows it, and asks for the reason and for the name of who asks.
type form struct {
	To     string // where it is posted
	Button string // what it does, in words
	Hidden []field
	Checks []check
	Reason string
	By     string
	Named  bool // it is known who asks
}

type field struct{ Name, Value string }

// check is a box to check.
type check struct {
	Name, Text string
	On         bool
}

// formFor makes a form about what a team has; an empty team is all of them. Nil: who asks may not do that, and the template shows none.
func formFor(ctx context.Context, right access.Right, team, to, button string, hidden ...field) *form {
	who := api.Asks(ctx)
	if !who.May(right) || !who.Of(team) {
		return nil
	}
	return &form{To: to, Button: button, Hidden: hidden, Named: who.Name != ""}
}

// submission is what somebody has sent with a form.
type submission struct {
	url.Values
	Reason, By string
}

// posted reads the form of a request. That the reason is missing, the API says.
func posted(r *http.Request) (s submission, err error) {
	if err := r.ParseForm(); err != nil {
		return s, schemas.Errorf(schemas.Invalid, "", "the form cannot be read: %w", err)
	}
	s = submission{Values: r.PostForm, Reason: strings.TrimSpace(r.PostForm.Get("reason")), By: strings.TrimSpace(r.PostForm.Get("by"))}
	s.By = cmp.Or(api.Asks(r.Context()).Name, s.By, "console")
	return s, nil
}

// after makes the page that a form is posted to: do does what the form asks for, and says where to go on. Where it fails, the page has the error
// and what was typed into its form.
func after[P any](do func(context.Context, *http.Request, submission) (string, error), page func(context.Context, *http.Request) (*P, error),
	of func(*P) *form,
) func(context.Context, *http.Request) (any, error) {
	return func(ctx context.Context, r *http.Request) (any, error) {
		s, err := posted(r)
		if err != nil {
			return nil, err
		}
		to, err := do(ctx, r, s)
		if err == nil {
			return seeOther(to), nil
		}
		p, failed := page(ctx, r)
		if failed != nil {
			return nil, err
		}
		if f := of(p); f != nil {
			f.Reason, f.By = s.Reason, s.Get("by")
		}
		return p, err
	}
}

// seeOther is what a page has instead of something to show: where to go on. A page that is loaded again sends no form again then.
type seeOther string
