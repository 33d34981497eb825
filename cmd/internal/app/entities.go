package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
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
	source, entity := configured(i.s.a.file()).fullSource(f.Team, f.Source, string(f.Entity))
	f.Entity = schemas.EntityKey(entity)
	inDoubt, err := i.resolve(ctx, box, queryNames{&f.Team, &f.Subscription, &source, new(string)})
	if err != nil {
		return nil, err
	}
	d := &api.EntityDetail{Team: f.Team, Subscription: f.Subscription, Source: strings.TrimPrefix(source, "/"+f.Team+"/"), Entity: string(f.Entity),
		Lines: []api.VersionLineItem{}, Waiting: []api.WaitItem{}, Track: []api.InboxItem{}}
	states, err := box.Entity(ctx, f.Team, f.Subscription, f.Entity)
	if err != nil {
		return nil, err
	}
	var topic string // of the source; empty: the file does not say
	gap := i.s.a.file().GapOf(f.Team, f.Subscription)
	if s, ok := i.s.a.file().SourceOf(f.Team, strings.TrimPrefix(d.Source, "/")); ok {
		topic = s.Topic
	}
	for _, state := range states {
		if topic == "" || state.Topic == topic {
			d.Lines = append(d.Lines, versionLineItems(state)...)
			d.Waiting = append(d.Waiting, waitItems(state.Waiting, gap)...)
		}
	}
	q := api.InboxFilter{Team: f.Team, Subscription: f.Subscription, Source: source, Entity: f.Entity, Since: f.Since, Limit: f.Limit}
	if err := i.track(ctx, box, q, d); err != nil {
		return nil, err
	}
	if len(d.Lines)+len(d.Waiting)+len(d.Track) == 0 && d.Note == "" {
		if err := i.nothing(ctx, box, q, inDoubt); err != nil {
			return nil, err
		}
		return nil, noneOf("entity", string(f.Entity), "", "forebay inbox list")
	}
	return d, nil
}

// Entities lists entities, or with f.Gaps those of which something waits.
func (i *inboxAPI) Entities(ctx context.Context, f api.EntitiesFilter) (page api.Page[api.EntityItem], err error) {
	box, _, err := i.open()
	if err != nil {
		return page, err
	}
	if _, err := i.resolve(ctx, box, queryNames{&f.Team, &f.Subscription, &f.Source, new(string)}); err != nil {
		return page, err
	}
	file := i.s.a.file()
	q := inbox.EntityQuery{Team: f.Team, Subscription: f.Subscription, Gaps: f.Gaps, Waits: f.Waits, Since: f.Since, Limit: f.Limit, Cursor: f.Cursor}
	if source := strings.TrimPrefix(f.Source, "/"); source != "" {
		q.Topics = []string{"events." + strings.Replace(source, "/", ".", 1)}
		if s, ok := file.SourceOf("", source); ok {
			q.Topics = append(q.Topics, s.Topic)
		}
	}
	list, next, err := box.Entities(ctx, q)
	page.Next, page.Elsewhere = next, i.s.a.leftOut(f.Team, f.Subscription)
	for n := range list {
		page.Items = append(page.Items, entityItem(&list[n], file))
	}
	return page, err
}

func entityItem(e *inbox.ListedEntity, file *config.Config) api.EntityItem {
	item := api.EntityItem{Team: e.Team, Subscription: e.Subscription, Source: strings.TrimPrefix(sourceIn(file, e.Topic), "/"+e.Team+"/"), Entity: string(e.Entity),
		Lines: versionLineItems(inbox.EntityState{Topic: e.Topic, Partition: e.Partition, Lines: e.Lines})}
	item.Waiting, item.WaitingAtLeast = e.Counts()
	if e.Waiting == 0 {
		return item
	}
	item.Since, item.Until, item.Then = &e.First.Since, e.First.Until, whatFollows(e.First, file.GapOf(e.Team, e.Subscription))
	return item
}

// sourceIn returns the source, as events carry it, whose topic that is. Where the file has none, it is the one that the topic's name is made
// of (events.TEAM.SOURCE), or else the topic.
func sourceIn(file *config.Config, topic string) string {
	if s, ok := file.SourceOfTopic(topic); ok {
		return s.URI()
	}
	if words := strings.Split(topic, "."); len(words) > 2 && words[0] == "events" && words[1] != "" && words[2] != "" {
		return "/" + words[1] + "/" + words[2]
	}
	return topic
}

// track adds the entity's last events. No index knows them: where it takes too long, a note says so, and what is known is answered.
func (i *inboxAPI) track(ctx context.Context, box *inbox.Inbox, q api.InboxFilter, d *api.EntityDetail) error {
	limited, cancel := context.WithTimeout(ctx, trackWithin)
	defer cancel()
	page, err := box.List(limited, q)
	switch {
	case err != nil && (ctx.Err() != nil || limited.Err() == nil):
		return err
	case err != nil:
		d.Note = fmt.Sprintf("its events are not listed: looking for them took longer than %s; --since 1h bounds how far back", trackWithin)
	case page.Next != "":
		d.Track, d.Note = page.Items, "older events are left out: --limit shows more, `forebay inbox list --entity` all"
	case len(page.Items) > 0:
		d.Track = page.Items
	}
	return nil
}

// versionLineItems returns an entity's version lines as the API has them.
func versionLineItems(state inbox.EntityState) (list []api.VersionLineItem) {
	for _, l := range state.Lines {
		list = append(list, api.VersionLineItem{Topic: state.Topic, Partition: state.Partition, Clock: l.Clock, Kind: string(l.At.Kind), Version: l.At.Sortable(),
			At: versionText(l.At), Missing: spans(l.Missing(0)), Skipped: spans(l.Skipped), Parked: string(l.Parked)})
	}
	return list
}

func waitItems(waiting []inbox.EntityWait, gap config.Gap) (list []api.WaitItem) {
	for _, w := range waiting {
		item := api.WaitItem{Source: w.Source, EventID: w.EventID, Type: w.Type, Clock: w.Clock, Version: w.Version.Sortable(), At: versionText(w.Version),
			Decision: w.Decision, Since: w.Since, Until: w.Until, Then: whatFollows(w.Wait, gap)}
		list = append(list, item)
	}
	return list
}

// whatFollows returns what ends a wait: the gap policy's word for it, or who.
func whatFollows(w inbox.Wait, gap config.Gap) string {
	switch {
	case w.Held:
		return "operator"
	case w.Until == nil:
		return "filler or operator"
	}
	return then(gap, w)
}

func spans(list []gate.Span) (out [][2]int64) {
	for _, s := range list {
		out = append(out, [2]int64{s.From, s.To})
	}
	return out
}
