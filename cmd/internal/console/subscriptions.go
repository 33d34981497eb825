package console

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
)

// subscriptionsPage is what runs.
type subscriptionsPage struct {
	listed
	Rows []subscriptionRow
}

func (c *Console) subscriptionList(ctx context.Context, r *http.Request) (any, error) {
	p := subscriptionsPage{listed: listed{Query: r.URL.Query()}}
	if err := api.OnlyKnown(r, "team"); err != nil {
		return nil, err
	}
	var err error
	p.Rows, err = c.subscriptions(ctx, p.Get("team"))
	return p, err
}

func subscriptionLink(team, name string) string {
	return "/console/subscriptions/" + url.PathEscape(team) + "/" + url.PathEscape(name)
}

// waitsUnder is how much of each kind of what waits is looked through, for what a page is about.
const waitsUnder = 100

// seeksShown is how many seeks a subscription's page shows.
const seeksShown = 20

// subscriptionPage is one subscription: how far it is behind in each partition, what of it waits, and what can be done.
type subscriptionPage struct {
	*api.SubscriptionItem
	Name       string
	Lag        part[[]partitionRow]
	Sum        *lag
	Waits      part[[]api.AttentionItem]
	WaitsUnder int // of each kind, of all subscriptions of the team, so many were looked through
	Seeks      part[[]api.SeekAskedItem]
	SeeksMore  bool
	KeepsUp    string // whether it does, and if not, what to look at
	SeekLink   string
	Form       *form // pauses, or resumes
}

// partitionRow is a partition of a subscription, as the brokers, the ledger and this process have it.
type partitionRow struct {
	api.LagItem
	Own     bool          // this process has it
	Stopped *api.StopItem // why it has stopped; nil: it has not
	Accept  string        // link to what accepting that would do; empty: it cannot be accepted here
}

func (c *Console) subscription(ctx context.Context, r *http.Request) (any, error) {
	if err := api.OnlyKnown(r); err != nil {
		return nil, err
	}
	return c.subscriptionAt(ctx, r)
}

func (c *Console) subscriptionAt(ctx context.Context, r *http.Request) (*subscriptionPage, error) {
	team, name := r.PathValue("team"), r.PathValue("subscription")
	item, err := c.API.Subscription(ctx, team, name)
	if err != nil {
		return nil, err
	}
	p := &subscriptionPage{SubscriptionItem: item, Name: item.Team + "." + item.Subscription, WaitsUnder: waitsUnder}
	at := subscriptionLink(item.Team, item.Subscription)
	p.SeekLink = at + "/seek"
	var all sync.WaitGroup
	all.Go(func() {
		p.Lag = partOf(ctx, func(ctx context.Context) ([]partitionRow, error) {
			partitions, err := items(c.API.Lag(ctx, item.Team, item.Subscription))
			p.Sum = sum(partitions)
			if len(partitions) > 0 {
				p.KeepsUp = api.KeepsUp(partitions)
			}
			return partitionRows(partitions, item.Partitions), err
		})
	})
	all.Go(func() {
		p.Waits = partOf(ctx, func(ctx context.Context) ([]api.AttentionItem, error) {
			found, err := c.API.Attention(ctx, api.AttentionFilter{Team: item.Team, Limit: p.WaitsUnder})
			if err != nil {
				return nil, err
			}
			return slices.DeleteFunc(found.Items, func(i api.AttentionItem) bool { return i.Subscription != item.Subscription || i.Team != item.Team }), nil
		})
	})
	all.Go(func() {
		p.Seeks = partOf(ctx, func(ctx context.Context) ([]api.SeekAskedItem, error) {
			list, err := items(c.API.Seeks(ctx, item.Team, item.Subscription))
			p.SeeksMore = len(list) > seeksShown
			return list[:min(seeksShown, len(list))], err
		})
	})
	all.Wait()
	verb, button := "pause", "Pause "+p.Name
	if item.Paused != nil {
		verb, button = "resume", "Resume "+p.Name
	}
	if item.Paused == nil || item.Paused.Scope == "" { // else the page names the command that ends it for all
		p.Form = formFor(ctx, access.Respond, item.Team, at+"/"+verb, button)
	}
	if !api.Asks(ctx).May(access.Operate) {
		p.SeekLink = ""
		for i := range p.Lag.Value {
			p.Lag.Value[i].Accept = ""
		}
	}
	return p, nil
}

func partitionRows(lags []api.LagItem, known []api.PartitionItem) (rows []partitionRow) {
	for _, l := range lags {
		row := partitionRow{LagItem: l}
		for _, k := range known {
			if k.Topic == l.Topic && k.Partition == l.Partition {
				row.Own, row.Stopped, row.Accept = k.Stopped == nil, k.Stopped, acceptLink(l.Team, l.Subscription, k.Stopped)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// steer makes the page that pauses or resumes a subscription. What is paused already is not paused again, so who sends a form twice does
// nothing twice.
func (c *Console) steer(change func(ctx context.Context, team, name string, r api.PauseRequest) (*api.SubscriptionItem, error)) func(context.Context, *http.Request) (any, error) {
	return after(func(ctx context.Context, r *http.Request, s submission) (string, error) {
		team, name := r.PathValue("team"), r.PathValue("subscription")
		_, err := change(ctx, team, name, api.PauseRequest{Reason: s.Reason, By: s.By})
		return subscriptionLink(team, name), err
	}, c.subscriptionAt, func(p *subscriptionPage) *form { return p.Form })
}

// Text is where a stop leaves a partition, in words.
func (r partitionRow) Text() string {
	if r.Stopped == nil {
		return r.Detail
	}
	return fmt.Sprintf("%s: %s", r.Stopped.Kind, r.Stopped.Text)
}

// OpenText is for how long its first open action has been to run.
func (r partitionRow) OpenText() string {
	if r.OpenSeconds == nil {
		return "not known"
	}
	return api.DurationText(time.Duration(*r.OpenSeconds * float64(time.Second)))
}

// OwnerText is which process has a partition.
func (r partitionRow) OwnerText() string {
	switch {
	case r.State == "unread" && r.Owner != "":
		return "nobody; the last was " + r.Owner
	case r.Own && r.State == "claiming" && r.Owner != "": // the ledger has the former one until the claim is made
		return "this process, claiming; the last was " + r.Owner
	case r.Own && r.Owner != "":
		return r.Owner + ", this process"
	case r.Own: // it is about to claim it
		return "this process"
	case r.Owner != "":
		return r.Owner
	}
	return "nobody"
}

// errSought is told who confirms a plan that somebody has overtaken.
func errSought(s *api.SeekAskedItem) error {
	return schemas.Errorf(schemas.Conflict, "", "nothing was asked: since this was planned, %s has asked for a move to %d (%s); look at what came of it, and plan again", s.By, s.To, s.Reason)
}
