package console

import (
	"context"
	"net/http"
	"net/url"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/stream/gate"
)

// redrivePage is what redriving an event would do, or giving it up; after it was asked for, what became of it.
type redrivePage struct {
	Name    string
	Event   string           // link to its page
	Discard bool             // it is given up
	Item    *api.RedriveItem // nil: it is refused
	Asked   bool
	Form    *form
}

// redriveLink leads to what redriving an event would do, or giving it up.
func redriveLink(n names.Event, discard bool) string {
	q := url.Values{"id": {n.String()}}
	if discard {
		q.Set("discard", "yes")
	}
	return "/console/event/redrive?" + q.Encode()
}

// redrivable tells what can be asked of an event: to be redriven, to be given up.
func redrivable(i *api.InboxItem) (redrive, discard bool) {
	held := i.Reason == gate.ReasonEqualHeld || i.Reason == gate.ReasonOlderHeld
	switch i.Decision {
	case gate.Buffered, gate.Parked:
		return true, held
	case gate.Quarantined:
		return true, i.Discarded == nil && i.Redriven == nil
	case gate.Conflict:
		return false, i.Discarded == nil
	}
	return false, false
}

// planRedrive says what redriving an event would do, and does nothing.
func (c *Console) planRedrive(ctx context.Context, r *http.Request) (any, error) {
	if err := api.OnlyKnown(r, "id", "discard"); err != nil {
		return nil, err
	}
	return c.redriven(ctx, r.URL.Query(), api.RedriveRequest{DryRun: true}, submission{})
}

// redrive redrives the event that the form names. What waits no more, or was redriven, is refused (the command line has
// --again): who sends a form twice does nothing twice.
func (c *Console) redrive(ctx context.Context, r *http.Request) (any, error) {
	s, err := posted(r)
	if err != nil {
		return nil, err
	}
	return c.redriven(ctx, s.Values, api.RedriveRequest{Reason: s.Reason, By: s.By}, s)
}

func (c *Console) redriven(ctx context.Context, q url.Values, req api.RedriveRequest, s submission) (any, error) {
	n, err := names.ParseEvent(q.Get("id"))
	if err != nil {
		return nil, err
	}
	req.Discard = q.Get("discard") != ""
	p := &redrivePage{Name: n.String(), Event: eventLink(n), Discard: req.Discard, Asked: !req.DryRun}
	p.Item, err = c.API.Redrive(ctx, n.Team, n.Subscription, n.Source, n.ID, req)
	switch {
	case err == nil && p.Asked:
		return p, nil
	case err != nil && (req.DryRun || req.Reason != ""): // a form would be refused, too
		return p, err
	}
	button := "Redrive"
	if req.Discard {
		button = "Discard"
	}
	if p.Form = formFor(ctx, access.Respond, n.Team, "/console/event/redrive", button, field{"id", n.String()}, field{"discard", q.Get("discard")}); p.Form != nil {
		p.Form.By = s.Get("by")
	}
	return p, err
}
