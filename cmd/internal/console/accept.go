package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// acceptPage is what accepting a stop would do: its partition goes on without what is wrong there.
type acceptPage struct {
	Name, Back string // of the subscription, and its page
	Items      []api.StoppedItem
	Form       *form
}

// acceptLink leads to what accepting a stop would do; empty of a stop that only this process knows of, which has no number.
func acceptLink(team, name string, s *api.StopItem) string {
	if s == nil || s.ID == 0 {
		return ""
	}
	return subscriptionLink(team, name) + "/accept?" + url.Values{"stop": {strconv.FormatInt(s.ID, 10)}}.Encode()
}

// planAccept says what accepting a stop would do, and does nothing.
func (c *Console) planAccept(ctx context.Context, r *http.Request) (any, error) {
	if err := api.OnlyKnown(r, "stop"); err != nil {
		return nil, err
	}
	return c.acceptOf(ctx, r, r.URL.Query().Get("stop"), submission{})
}

func (c *Console) acceptOf(ctx context.Context, r *http.Request, stop string, s submission) (*acceptPage, error) {
	id, err := stopID(stop)
	if err != nil {
		return nil, err
	}
	team, name := r.PathValue("team"), r.PathValue("subscription")
	p := &acceptPage{Name: team + "." + name, Back: subscriptionLink(team, name)}
	if p.Items, err = items(c.API.Accept(ctx, team, name, api.AcceptRequest{Stop: id, DryRun: true})); err != nil {
		return nil, err
	}
	if p.Form = formFor(ctx, access.Operate, team, p.Back+"/accept", fmt.Sprintf("Accept stop %d", id), field{"stop", stop}); p.Form != nil {
		p.Form.Reason, p.Form.By = s.Reason, s.Get("by")
	}
	return p, nil
}

// stopID reads the number of a stop. Without one, all stops of a subscription would be meant.
func stopID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, schemas.Errorf(schemas.Invalid, "", "%q is no number of a stop: begin with the subscription", text)
	}
	return id, nil
}

// accept accepts the stop that the form names, which is one for ever: who sends a form twice accepts nothing twice.
func (c *Console) accept(ctx context.Context, r *http.Request) (any, error) {
	s, err := posted(r)
	if err != nil {
		return nil, err
	}
	id, err := stopID(s.Get("stop"))
	if err != nil {
		return nil, err
	}
	team, name := r.PathValue("team"), r.PathValue("subscription")
	if _, err = c.API.Accept(ctx, team, name, api.AcceptRequest{Stop: id, Reason: s.Reason, By: s.By}); err == nil {
		return seeOther(subscriptionLink(team, name)), nil
	}
	if p, failed := c.acceptOf(ctx, r, s.Get("stop"), s); failed == nil {
		return p, err
	}
	return nil, err
}
