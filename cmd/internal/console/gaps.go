package console

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/access"
	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
)

// gapRows is how many rows a page of gaps has at most: each entity on it is asked about.
const gapRows = 50

// gapsPage is what waits behind gaps, or is held, by entity.
type gapsPage struct {
	listed
	Waits    gate.Decision // buffered: for what is missing, until a deadline; parked: for an operator
	Entities []*gapEntity
	Page     api.Page[api.InboxItem]
	Others   string // link to what waits in the other way; empty: nothing does, or this is not the first page
}

// gapEntity is an entity with what of it waits.
type gapEntity struct {
	Team, Subscription, Source, Entity string
	Lines                              []api.VersionLineItem
	Problem                            string // why no more is known of it
	Rows                               []gapRow
}

// NoFirst reports whether its events wait for the first version of the entity.
func (e *gapEntity) NoFirst() bool {
	return e.Problem == "" && len(e.Lines) == 0 && slices.ContainsFunc(e.Rows, func(r gapRow) bool { return r.Then != "" && r.Then != "operator" })
}

// gapRow is an event that waits.
type gapRow struct {
	api.InboxItem
	Since   time.Time
	Until   *time.Time // nil: until an operator or what is missing comes
	Then    string     // what follows; empty: it is not known here
	Redrive string     // link to what redriving it would do
	Discard string     // link to what giving it up would do; empty: it cannot be given up
}

// gaps lists the events that wait behind gaps, or are parked there, by entity. Where it fails, the page has the form and the error.
func (c *Console) gaps(ctx context.Context, r *http.Request) (any, error) {
	q := r.URL.Query()
	p := gapsPage{listed: listed{Query: q}, Waits: gate.Buffered}
	if err := api.OnlyKnown(r, "team", "subscription", "source", "entity", "waits", "limit", "cursor"); err != nil {
		return nil, err
	}
	if err := names.OneOf("waits", q.Get("waits"), []string{string(gate.Buffered), string(gate.Parked)}); err != nil {
		return p, err
	}
	if w := q.Get("waits"); w != "" {
		p.Waits = gate.Decision(w)
	}
	f := api.InboxFilter{Team: q.Get("team"), Subscription: q.Get("subscription"), Source: q.Get("source"), Entity: schemas.EntityKey(q.Get("entity")), Decision: p.Waits, Cursor: q.Get("cursor")}
	var err error
	if f.Limit, err = limit(q.Get("limit")); err != nil {
		return p, err
	}
	f.Limit = min(f.Limit, gapRows)
	if p.Page, err = c.API.Items(ctx, f); err != nil {
		return p, err
	}
	p.Others = c.waitsOtherwise(ctx, r, f)
	p.turn(r.URL.Path, p.Page.Next)
	p.Entities = byEntity(p.Page.Items, api.Asks(ctx).May(access.Respond))
	c.addVersionLines(ctx, p.Entities)
	return p, nil
}

// waitsOtherwise returns the link to what waits for an operator, on the first page of what waits for what is missing; and the other way round.
// It is empty if nothing does, or if that cannot be found out within otherwiseWithin: the page is whole without it.
func (c *Console) waitsOtherwise(ctx context.Context, r *http.Request, f api.InboxFilter) string {
	if f.Cursor != "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, otherwiseWithin)
	defer cancel()
	other := gate.Parked
	if f.Decision == gate.Parked {
		other = gate.Buffered
	}
	f.Decision, f.Limit = other, 1
	page, err := c.API.Items(ctx, f)
	if err != nil || len(page.Items) == 0 {
		return ""
	}
	q := r.URL.Query()
	q.Set("waits", string(other))
	return r.URL.Path + "?" + q.Encode()
}

const otherwiseWithin = 3 * time.Second

// byEntity groups what waits, in the order in which entities come. may says that who looks may redrive and give up.
func byEntity(items []api.InboxItem, may bool) (list []*gapEntity) {
	for _, i := range items {
		at := slices.IndexFunc(list, func(e *gapEntity) bool {
			return e.Team == i.Team && e.Subscription == i.Subscription && e.Source == i.Source && e.Entity == i.Entity
		})
		if at < 0 {
			at, list = len(list), append(list, &gapEntity{Team: i.Team, Subscription: i.Subscription, Source: i.Source, Entity: i.Entity})
		}
		row := gapRow{InboxItem: i, Since: i.DecidedAt, Until: i.NextActionAt}
		redrive, discard := redrivable(&i)
		if redrive && may {
			row.Redrive = redriveLink(api.EventName(&i), false)
		}
		if discard && may {
			row.Discard = redriveLink(api.EventName(&i), true)
		}
		list[at].Rows = append(list[at].Rows, row)
	}
	for _, e := range list {
		slices.SortStableFunc(e.Rows, func(a, b gapRow) int {
			return cmp.Or(strings.Compare(a.VersionClock, b.VersionClock), strings.Compare(a.Version, b.Version))
		})
	}
	return list
}

// addVersionLines asks where entities stand, a few at a time, and what follows for what waits of them.
func (c *Console) addVersionLines(ctx context.Context, entities []*gapEntity) {
	var all sync.WaitGroup
	slots := make(chan struct{}, 4) // never closed
	for _, e := range entities {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			d := partOf(ctx, func(ctx context.Context) (*api.EntityDetail, error) {
				return c.API.Entity(ctx, api.EntityFilter{Team: e.Team, Subscription: e.Subscription, Source: e.Source, Entity: schemas.EntityKey(e.Entity),
					Since: time.Now().Add(time.Hour), Limit: 1}) // its events are not shown, and no index finds them
			})
			if e.Problem = d.Problem; d.Value == nil {
				return
			}
			e.Lines = d.Value.Lines
			for i := range e.Rows {
				for _, w := range d.Value.Waiting {
					if row := &e.Rows[i]; w.EventID == row.EventID {
						row.Since, row.Until, row.Then = w.Since, w.Until, w.Then
					}
				}
			}
		})
	}
	all.Wait()
}
