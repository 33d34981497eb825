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
	return c.acceptAt(ctx, r)
}

func (c *Console) acceptAt(ctx context.Context, r *http.Request) (*acceptPage, error) {
	stop := r.FormValue("stop")
	id, err := stopID(stop)
	if err != nil {
		return nil, err
	}
	team, name := r.PathValue("team"), r.PathValue("subscription")
	p := &acceptPage{Name: team + "." + name, Back: subscriptionLink(team, name)}
	if p.Items, err = items(c.API.Accept(ctx, team, name, api.AcceptRequest{Stop: id, DryRun: true})); err != nil {
		return nil, err
	}
	p.Form = formFor(ctx, access.Operate, team, p.Back+"/accept", fmt.Sprintf("Accept stop %d", id), field{"stop", stop})
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
func (c *Console) accept() func(context.Context, *http.Request) (any, error) {
	return after(func(ctx context.Context, r *http.Request, s submission) (string, error) {
		id, err := stopID(s.Get("stop"))
		if err != nil {
			return "", err
		}
		team, name := r.PathValue("team"), r.PathValue("subscription")
		_, err = c.API.Accept(ctx, team, name, api.AcceptRequest{Stop: id, Reason: s.Reason, By: s.By})
		return subscriptionLink(team, name), err
	}, c.acceptAt, func(p *acceptPage) *form { return p.Form })
}
