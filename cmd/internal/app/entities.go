package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
)

// trackWithin bounds the search for an entity's last events, for which there is no index.
const trackWithin = 10 * time.Second

// Entity returns where an entity stands in a subscription: its version lines, what is missing and what waits, and its last events.
func (i *inboxAPI) Entity(ctx context.Context, f api.EntityFilter) (*api.EntityDetail, error) {
	box, _, err := i.open()
	if err != nil {
		return nil, err
	}
	source := fullSource(f.Team, f.Source)
	inDoubt, err := i.resolve(ctx, box, asked{&f.Team, &f.Subscription, &source, new(string)})
	if err != nil {
		return nil, err
	}
	d := &api.EntityDetail{Team: f.Team, Subscription: f.Subscription, Source: strings.TrimPrefix(source, "/"+f.Team+"/"), Entity: string(f.Entity),
		Lines: []api.LineItem{}, Waiting: []api.WaitItem{}, Track: []api.InboxItem{}}
	states, err := box.Entity(ctx, f.Team, f.Subscription, f.Entity)
	if err != nil {
		return nil, err
	}
	var topic string // of the source; empty: the file does not say
	var gap config.Gap
	if s, ok := i.s.a.file().SourceOf(f.Team, strings.TrimPrefix(d.Source, "/")); ok {
		topic = s.Topic
	}
	if team := i.s.a.file().Teams[f.Team]; team != nil {
		if s := team.Subscriptions[f.Subscription]; s != nil {
			gap = s.Gap
		}
	}
	for _, state := range states {
		if topic == "" || state.Topic == topic {
			d.Lines = append(d.Lines, lineItems(state)...)
			d.Waiting = append(d.Waiting, waitItems(state.Waiting, gap)...)
		}
	}
	q := api.InboxFilter{Team: f.Team, Subscription: f.Subscription, Source: source, Entity: f.Entity, Since: f.Since, Limit: f.Limit}
	i.track(ctx, box, q, d)
	if len(d.Lines)+len(d.Waiting)+len(d.Track) == 0 && d.Note == "" {
		if err := i.nothing(ctx, box, q, inDoubt); err != nil {
			return nil, err
		}
		return nil, noneOf("entity", string(f.Entity), "", "forebay inbox list")
	}
	return d, nil
}

// track adds the entity's last events. No index knows them: where it takes too long, a note says so, and what is known is answered.
func (i *inboxAPI) track(ctx context.Context, box *inbox.Inbox, q api.InboxFilter, d *api.EntityDetail) {
	limited, cancel := context.WithTimeout(ctx, trackWithin)
	defer cancel()
	page, err := box.List(limited, q)
	switch {
	case err != nil:
		d.Note = fmt.Sprintf("its events are not listed: looking for them took longer than %s; --since 1h bounds how far back", trackWithin)
	case page.Next != "":
		d.Track, d.Note = page.Items, "older events are left out: --limit shows more, `forebay inbox list --entity` all"
	case len(page.Items) > 0:
		d.Track = page.Items
	}
}

// lineItems returns an entity's version lines as the API has them.
func lineItems(state inbox.EntityState) (list []api.LineItem) {
	for _, l := range state.Lines {
		list = append(list, api.LineItem{Topic: state.Topic, Partition: state.Partition, Clock: l.Clock, Kind: string(l.At.Kind), Version: l.At.Sortable(),
			At: versionText(l.At), Missing: spans(l.Missing(0)), Skipped: spans(l.Skipped), Parked: string(l.Parked)})
	}
	return list
}

func waitItems(waiting []inbox.EntityWait, gap config.Gap) (list []api.WaitItem) {
	for _, w := range waiting {
		item := api.WaitItem{Source: w.Source, EventID: w.EventID, Type: w.Type, Clock: w.Clock, Version: w.Version.Sortable(), At: versionText(w.Version),
			Decision: w.Decision, Since: w.Since, Until: w.Until}
		switch {
		case w.Held:
			item.Then = "operator"
		case w.Until == nil:
			item.Then = "filler or operator"
		default:
			item.Then = then(gap, w.Wait)
		}
		list = append(list, item)
	}
	return list
}

func spans(list []gate.Span) (out [][2]int64) {
	for _, s := range list {
		out = append(out, [2]int64{s.From, s.To})
	}
	return out
}
