package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/stream/gate"
)

// entityPage is an entity as a subscription sees it.
type entityPage struct {
	*api.EntityDetail
	Tracks  []track
	Actions []openAction
	Problem string // why some of them are not known
	Left    int    // events with open actions that were not asked about
	Waits   []waitRow
}

// NoFirst reports whether events of the entity wait for its first version.
func (p entityPage) NoFirst() bool {
	return len(p.Lines) == 0 && slices.ContainsFunc(p.Waiting, func(w api.WaitItem) bool { return w.Decision != "held" })
}

// openAction is an action of the entity that is not done.
type openAction struct {
	api.ActionItem
	Event api.InboxItem
	Dead  bool // a dead letter, or its outcome is unknown
}

// waitRow is an event of the entity that waits, with what can be done about it.
type waitRow struct {
	api.WaitItem
	Link    string // to its page
	Redrive string // link to what redriving it would do; empty: who looks may not
	Discard string // link to what giving it up would do; empty: it cannot be given up, or who looks may not
}

// askedEvents is of how many events with open actions a page asks which these are.
const askedEvents = 10

func (c *Console) entity(ctx context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	if err := api.OnlyKnown(r, "of", "entity", "since", "limit"); err != nil {
		return nil, err
	}
	n, err := names.ParseEntity(q.Get("of"), q.Get("entity"))
	if err != nil {
		return nil, err
	}
	f := api.EntityFilter{Team: n.Team, Subscription: n.Subscription, Source: n.Source, Entity: n.Key}
	if f.Limit, err = limit(q.Get("limit")); err != nil {
		return nil, err
	}
	if f.Since, err = since(q.Get("since")); err != nil {
		return nil, err
	}
	d, err := c.API.Entity(ctx, f)
	if err != nil {
		return nil, err
	}
	p := entityPage{EntityDetail: d, Tracks: tracks(d), Waits: waitRows(ctx, d)}
	c.openActions(ctx, &p)
	return p, nil
}

// waitRows returns what waits of an entity.
func waitRows(ctx context.Context, d *api.EntityDetail) (rows []waitRow) {
	may := api.Asks(ctx).May(access.Respond)
	for _, w := range d.Waiting {
		n := names.Event{Team: d.Team, Subscription: d.Subscription, Source: strings.TrimPrefix(w.Source, "/"+d.Team+"/"), ID: w.EventID}
		row := waitRow{WaitItem: w, Link: eventLink(n)}
		if may {
			row.Redrive = redriveLink(n, false)
		}
		if may && w.Decision == "held" {
			row.Discard = redriveLink(n, true)
		}
		rows = append(rows, row)
	}
	return rows
}

// openActions asks which actions of the listed events are not done, a few events at a time, and puts them into the order of their lane.
func (c *Console) openActions(ctx context.Context, p *entityPage) {
	var open []api.InboxItem
	for _, i := range p.Track {
		if slices.Contains([]string{"received", "processing", "failed", "dead_letter", "unknown", "parked", "waiting_approval", "waiting_budget"}, i.Status) && (i.Decision == gate.Applied || i.Decision == gate.Late) {
			open = append(open, i)
		}
	}
	if len(open) > askedEvents { // what runs next is of the oldest decisions, which come last
		p.Left, open = len(open)-askedEvents, open[len(open)-askedEvents:]
	}
	details := make([]part[*api.InboxDetail], len(open))
	var all sync.WaitGroup
	slots := make(chan struct{}, 4) // never closed
	for n := range open {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			details[n] = partOf(ctx, func(ctx context.Context) (*api.InboxDetail, error) {
				name := api.EventName(&open[n])
				return c.API.Item(ctx, name.Team, name.Subscription, name.Source, name.ID)
			})
		})
	}
	all.Wait()
	for n, d := range details {
		if p.Problem = cmp.Or(p.Problem, d.Problem); d.Value == nil {
			continue
		}
		for _, a := range d.Value.Actions {
			if !slices.Contains([]string{"done", "superseded", "discarded", "stale", "skipped", "dropped", "denied"}, a.Status) {
				p.Actions = append(p.Actions, openAction{a, open[n], isDead(a.Status)})
			}
		}
	}
	slices.SortStableFunc(p.Actions, func(a, b openAction) int { return cmp.Compare(a.LaneSeq, b.LaneSeq) })
}
