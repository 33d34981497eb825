package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
)

// deliveriesMetric counts what came to a source, by what became of it and why.
const deliveriesMetric = "forebay_ingest_deliveries_total"

// sourcesPage is the configured sources.
type sourcesPage struct {
	listed
	Items []api.SourceItem
}

func (c *Console) sourceList(ctx context.Context, r *http.Request) (any, error) {
	p := sourcesPage{listed: listed{Query: r.URL.Query()}}
	if err := api.OnlyKnown(r, "team"); err != nil {
		return nil, err
	}
	all, err := items(c.API.Sources(ctx))
	p.Items = slices.DeleteFunc(all, func(i api.SourceItem) bool { return p.Get("team") != "" && p.Get("team") != i.Team })
	return p, err
}

func sourceLink(team, name string) string {
	return "/console/sources/" + url.PathEscape(team) + "/" + url.PathEscape(name)
}

// sourcePage is one source, as this process and the brokers have it.
type sourcePage struct {
	api.SourceItem
	Name     string
	Outcomes []named // deliveries of this process since it began, by what became of them
	Refused  []named // those that were not taken, by reason
	Kept     []named // those that were set aside, by reason
	Waits    part[[]api.AttentionItem]
	Drift    part[[]api.DriftItem]
	Test     string   // link to sending a test; empty: who looks may not, or this process takes no deliveries
	Learning []string // event types of which too little was seen for a comparison
}

// sourceItem returns one source.
func (c *Console) sourceItem(ctx context.Context, team, name string) (*api.SourceItem, error) {
	all, err := items(c.API.Sources(ctx))
	if err != nil {
		return nil, err
	}
	var known []names.Name // of those who ask, as the API lists them
	for i := range all {
		if all[i].Team == team && all[i].Source == name {
			return &all[i], nil
		}
		known = append(known, names.Name{Team: all[i].Team, Name: all[i].Source})
	}
	return nil, names.Source.Unknown(names.Name{Team: team, Name: name}, known)
}

func (c *Console) source(ctx context.Context, r *http.Request) (any, error) {
	if err := api.OnlyKnown(r); err != nil {
		return nil, err
	}
	team, name := r.PathValue("team"), r.PathValue("source")
	item, err := c.sourceItem(ctx, team, name)
	if err != nil {
		return nil, err
	}
	p := &sourcePage{SourceItem: *item, Name: team + "/" + name}
	if who := api.Asks(ctx); who.May(access.Sources) && who.Of(team) && item.Seen != nil {
		p.Test = testLink(team, name)
	}
	came := slices.DeleteFunc(gather(c.Gatherer).figures(deliveriesMetric), func(f figure) bool { return f.labels["team"] != team || f.labels["source"] != name })
	by := func(outcomes ...string) []named {
		return counts(slices.DeleteFunc(slices.Clone(came), func(f figure) bool {
			return !slices.Contains(outcomes, f.labels["outcome"]) || f.labels["reason"] == ""
		}), "reason")
	}
	p.Outcomes, p.Kept = counts(came, "outcome"), by("quarantined")
	var refused []string
	for _, o := range p.Outcomes {
		if o.Name != "accepted" && o.Name != "handshake" && o.Name != "quarantined" {
			refused = append(refused, o.Name)
		}
	}
	p.Refused = by(refused...)
	var both sync.WaitGroup
	both.Go(func() {
		p.Waits = partOf(ctx, func(ctx context.Context) ([]api.AttentionItem, error) {
			found, err := c.API.Attention(ctx, api.AttentionFilter{Team: team, Limit: waitsUnder})
			if err != nil {
				return nil, err
			}
			return slices.DeleteFunc(found.Items, func(i api.AttentionItem) bool {
				return i.Source != name || i.Team != team || i.Subscription != "" // those of subscriptions are on their pages
			}), nil
		})
	})
	both.Go(func() {
		p.Drift = partOf(ctx, func(ctx context.Context) ([]api.DriftItem, error) {
			d, err := c.API.DriftReport(ctx)
			if err != nil {
				return nil, err
			}
			for _, t := range d.Types {
				if t.Team == team && t.Source == name && t.Learning {
					p.Learning = append(p.Learning, t.Type)
				}
			}
			return slices.DeleteFunc(d.Items, func(i api.DriftItem) bool { return i.Team != team || i.Source != name }), nil
		})
	})
	both.Wait()
	return p, nil
}
