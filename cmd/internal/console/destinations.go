package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
)

// destinationsPage is the configured destinations.
type destinationsPage struct {
	listed
	Items []api.DestinationItem
}

func (c *Console) destinations(ctx context.Context, r *http.Request) (any, error) {
	p := destinationsPage{listed: listed{Query: r.URL.Query()}}
	if err := api.OnlyKnown(r, "team"); err != nil {
		return nil, err
	}
	all, err := items(c.API.Destinations(ctx))
	team := p.Get("team")
	for _, d := range all {
		if team == "" || d.Team == team || slices.Contains(d.Teams, team) || slices.Contains(d.Teams, "*") {
			p.Items = append(p.Items, d)
		}
	}
	return p, err
}

// destinationName is a destination's full name; a shared one has no team.
func destinationName(team, name string) string {
	return names.Destination.Print(names.Name{Team: team, Name: name})
}

func destinationLink(team, name string) string {
	if team == "" {
		return "/console/destinations/" + url.PathEscape(name)
	}
	return "/console/destinations/" + url.PathEscape(team) + "/" + url.PathEscape(name)
}

const (
	attemptsMetric = "forebay_lane_attempts_total"
	durationMetric = "forebay_lane_attempt_duration_seconds"
)

// destinationPage is one destination, what this process has attempted there, and what can be done.
type destinationPage struct {
	*api.DestinationItem
	Name     string
	Attempts []named // of this process, by class of failure
	Latency  string  // empty: nothing was attempted
	Waits    part[[]api.AttentionItem]
	Form     *form // pauses, or resumes
}

func (c *Console) destination(ctx context.Context, r *http.Request) (any, error) {
	if err := api.OnlyKnown(r); err != nil {
		return nil, err
	}
	return c.destinationAt(ctx, r)
}

func (c *Console) destinationAt(ctx context.Context, r *http.Request) (*destinationPage, error) {
	item, err := c.API.Destination(ctx, r.PathValue("team"), r.PathValue("destination"))
	if err != nil {
		return nil, err
	}
	p := &destinationPage{DestinationItem: item, Name: destinationName(item.Team, item.Destination)}
	may := func(labels map[string]string) bool { // of a shared one, what its own teams' subscriptions attempt is all that somebody sees
		team, _, _ := strings.Cut(labels["subscription"], ".")
		return labels["destination"] == p.Name && api.Asks(ctx).Of(team)
	}
	of := func(list []figure) []figure {
		return slices.DeleteFunc(list, func(f figure) bool { return !may(f.labels) })
	}
	now := gather(c.Gatherer)
	p.Attempts, p.Latency = counts(of(now.figures(attemptsMetric)), "class"), latency(of(now.figures(durationMetric)))
	p.Waits = partOf(ctx, func(ctx context.Context) ([]api.AttentionItem, error) {
		found, err := c.API.Attention(ctx, api.AttentionFilter{Team: item.Team, Kind: api.KindPaused, Limit: waitsUnder})
		if err != nil {
			return nil, err
		}
		return slices.DeleteFunc(found.Items, func(i api.AttentionItem) bool { return i.Destination != p.Name && i.Destination != item.Destination }), nil
	})
	verb, button := "pause", "Pause "+p.Name
	if item.Paused != nil {
		verb, button = "resume", "Resume "+p.Name
	}
	if item.Paused == nil || item.Paused.Scope == "" { // else the page names the command that ends it for all
		p.Form = formFor(ctx, access.Respond, item.Team, destinationLink(item.Team, item.Destination)+"/"+verb, button)
	}
	return p, nil
}

// hold makes the page that pauses or resumes a destination. What is paused already is not paused again, so who sends a form twice does
// nothing twice.
func (c *Console) hold(change func(ctx context.Context, team, name string, r api.PauseRequest) (*api.DestinationItem, error)) func(context.Context, *http.Request) (any, error) {
	return after(func(ctx context.Context, r *http.Request, s submission) (string, error) {
		team, name := r.PathValue("team"), r.PathValue("destination")
		_, err := change(ctx, team, name, api.PauseRequest{Reason: s.Reason, By: s.By})
		return destinationLink(team, name), err
	}, c.destinationAt, func(p *destinationPage) *form { return p.Form })
}
