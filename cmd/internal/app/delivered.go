package app

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/ingest/producer"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// searchTime is after which no further stretch of the log is read for one answer. A cursor goes on from there.
const searchTime = 8 * time.Second

// delivered lists what became of the events of a delivery, by the provider's id of it. Where a source takes that as the event's id, the
// ledger knows it; else it is in the log only, or in quarantine. What the log has and the ledger has not, is said: no subscription has
// decided it yet. A page without items and with a cursor says that more of the log is to be searched.
//
// A question of one team is answered with what it may read: its subscriptions, and of another team's source the events alone, as long as one
// of its subscriptions runs with it. What others have set aside, and who else reads the source, is not in the answer.
func (i *inboxAPI) delivered(ctx context.Context, box *inbox.Inbox, f api.InboxFilter) (page api.Page[api.InboxItem], err error) {
	q := reader.Delivered{ID: f.Delivery, From: f.Since, Before: time.Now().Add(time.Minute)} // brokers' clocks differ
	if f.Cursor != "" {
		if q.Before, q.Width, err = parseSearch(f.Cursor); err != nil {
			return page, err
		}
		f.Cursor = ""
	} else if page, err = i.ofID(ctx, box, f); err != nil || len(page.Items) > 0 {
		return page, err
	}
	sources := i.sourcesOf(f.Team, f.Source)
	q.Match = deliveryMatch(sources, f.Delivery)
	page.Search = &api.DeliverySearch{To: q.Before.UTC()}
	for _, s := range sources {
		q.Topics = append(q.Topics, s.topics()...)
		if s.withheld != "" {
			page.Search.Withheld = append(page.Search.Withheld, s.withheld)
		}
	}
	for _, name := range i.s.a.file().Elsewhere(f.Team) {
		page.Search.Withheld = append(page.Search.Withheld, "the ledger of "+name+", which is another process's")
	}
	if now := time.Now(); q.Before.After(now) {
		page.Search.To = now.UTC()
	}
	if len(q.Topics) == 0 {
		return page, nil
	}
	done, err := i.s.a.search(ctx)
	if err != nil {
		return page, err
	}
	defer done()
	end := time.Now().Add(searchTime)
	found, err := reader.Find(ctx, q, func() bool { return time.Now().Before(end) }, i.s.a.readingAs(config.RoleStream)...)
	if err != nil {
		return page, err
	}
	if !found.From.IsZero() {
		page.Search.From = new(found.From.UTC())
	}
	if len(found.Found) == 0 {
		if found.From.After(q.From) {
			page.Next = searchCursor(found.From, found.Width)
		}
		return page, nil
	}
	return page, i.fill(ctx, box, f, found.Found, &page)
}

// ofID lists the events whose own id is the delivery's. If there are any, the log is not searched: where other subscriptions read their
// records, too, and have not decided them, follows from the items' places.
func (i *inboxAPI) ofID(ctx context.Context, box *inbox.Inbox, f api.InboxFilter) (page api.Page[api.InboxItem], err error) {
	for _, source := range i.sourcesOf(f.Team, f.Source) {
		f.Keys = append(f.Keys, schemas.NewEventKey(source.uri(), f.Delivery))
	}
	if len(f.Keys) == 0 {
		return page, nil
	}
	if page.Items, err = list(ctx, box, f); err != nil || len(page.Items) == 0 {
		return page, err
	}
	var places []reader.Found
	for n := range page.Items {
		item := &page.Items[n]
		if item.ReceivedAt == nil || slices.ContainsFunc(places, func(r reader.Found) bool { return r.Key == item.Pointer.Key }) {
			continue
		}
		places = append(places, reader.Found{Key: item.Pointer.Key, Topic: item.Topic, Partition: item.Partition, Offset: item.Offset, Event: &schemas.Event{
			ID: item.EventID, Source: item.CESource, Type: item.Type, Entity: schemas.EntityKey(item.Entity), RecordedTime: *item.ReceivedAt}})
	}
	now := time.Now().UTC()
	undecided, err := i.undecided(ctx, box, f, places)
	if len(undecided) > 0 {
		page.Search = &api.DeliverySearch{From: &now, To: now, Undecided: undecided}
	}
	return page, err
}

// ofDelivery is how many events of one delivery are listed: as many as a list has at most.
const ofDelivery = 1000

// list lists events of a delivery. There is no next page: a delivery is one event in each subscription.
func list(ctx context.Context, box *inbox.Inbox, f api.InboxFilter) ([]api.InboxItem, error) {
	f.Limit = ofDelivery
	page, err := box.List(ctx, f)
	for n := range page.Items {
		page.Items[n].DeliveryID = f.Delivery
	}
	return page.Items, err
}

// fill adds to the page what is known of the records that were found.
func (i *inboxAPI) fill(ctx context.Context, box *inbox.Inbox, f api.InboxFilter, records []reader.Found, page *api.Page[api.InboxItem]) error {
	var events []reader.Found
	for _, r := range records {
		if r.Event != nil {
			events, f.Keys = append(events, r), append(f.Keys, r.Key)
			continue
		}
		kept, err := i.quarantinedItem(ctx, r)
		if err != nil {
			return err
		}
		page.Search.Quarantined = append(page.Search.Quarantined, kept)
	}
	if len(events) == 0 {
		return nil
	}
	f.Since = time.Time{}
	var err error
	if page.Search.Undecided, err = i.undecided(ctx, box, f, events); err == nil {
		page.Items, err = list(ctx, box, f)
	}
	return err
}

// undecided returns for which subscriptions the ledger has nothing of events that are in the log. Positions are read before the ledger's
// events: an event that is decided in between is not one that was passed over.
func (i *inboxAPI) undecided(ctx context.Context, box *inbox.Inbox, f api.InboxFilter, events []reader.Found) (undecided []api.UndecidedItem, err error) {
	// Whatever its status, an event that is in the ledger was decided.
	all := api.InboxFilter{Team: f.Team, Subscription: f.Subscription, Delivery: f.Delivery, Limit: ofDelivery}
	var reading []api.UndecidedItem
	var keys []schemas.EventKey // of reading
	for _, r := range events {
		readers, err := i.readers(ctx, box, f, r)
		if err != nil {
			return nil, err
		}
		all.Keys = append(all.Keys, r.Key)
		for _, u := range readers {
			reading, keys = append(reading, u), append(keys, r.Key)
		}
	}
	decided, err := list(ctx, box, all)
	for n, u := range reading {
		if !slices.ContainsFunc(decided, func(d api.InboxItem) bool {
			return d.Team == u.Team && d.Subscription == u.Subscription && d.Pointer.Key == keys[n]
		}) {
			undecided = append(undecided, u)
		}
	}
	return undecided, err
}

// readers returns the subscriptions, of any team that is asked about, that read an event's source, each with where it stands in the event's
// partition.
func (i *inboxAPI) readers(ctx context.Context, box *inbox.Inbox, f api.InboxFilter, r reader.Found) (list []api.UndecidedItem, err error) {
	source, err := names.Source.Parse(r.Event.Source)
	if err != nil {
		return nil, nil //nolint:nilerr // no subscription reads what has no such source
	}
	for _, at := range configured(i.s.a.file()).subscriptions {
		if f.Team != "" && at.Team != f.Team || f.Subscription != "" && at.Name != f.Subscription || !i.reads(at, source) || !i.s.a.file().HasLedger(at.Team, at.Name) {
			continue
		}
		u := api.UndecidedItem{Team: at.Team, Subscription: at.Name, Source: source.Name, EventID: r.Event.ID, Type: r.Event.Type,
			Entity: string(r.Event.Entity), Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, ReceivedAt: r.Event.RecordedTime.UTC()}
		if at.Team != source.Team {
			u.Source = r.Event.Source
		}
		next, claimed, err := box.Position(ctx, at.Team, at.Name, r.Topic, r.Partition)
		if err != nil {
			return nil, err
		}
		if claimed {
			u.NextOffset, u.Passed = &next, next > r.Offset
		}
		list = append(list, u)
	}
	return list, nil
}

// reads reports whether a subscription reads a source: its team's own, or another's while it may.
func (i *inboxAPI) reads(subscription, source names.Name) bool {
	return slices.ContainsFunc(i.s.a.file().SourcesOf(subscription.Team, subscription.Name), func(s config.NamedSource) bool {
		return s.Team == source.Team && s.Name == source.Name
	}) && (source.Team == subscription.Team || i.s.barred(nameInTeam{subscription.Team, subscription.Name}) == "")
}

// quarantinedItem returns a delivery that was found in a quarantine topic.
func (i *inboxAPI) quarantinedItem(ctx context.Context, r reader.Found) (item api.QuarantineItem, err error) {
	opts := i.s.a.readingAs(config.RoleStream)
	d, err := names.ParseDelivery(names.Place{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}.String())
	if err != nil {
		return item, err
	}
	kept, err := producer.ReadOne(ctx, r.Topic, r.Partition, r.Offset, opts...)
	if err != nil {
		return item, err
	}
	if kept.Redriven, err = new(producer.Marks).Of(ctx, r.Topic, r.Partition, r.Offset, opts...); err != nil {
		return item, err
	}
	return quarantineItem(nameInTeam{d.Source.Team, d.Source.Name}, kept), nil
}

// searchCursor says where a search goes on: before which time, and with how long a stretch.
func searchCursor(before time.Time, width time.Duration) string {
	return before.UTC().Format(time.RFC3339Nano) + "~" + width.String()
}

// parseSearch reads what searchCursor writes. Without a length, as somebody may write it by hand, the reader takes its own.
func parseSearch(cursor string) (before time.Time, width time.Duration, err error) {
	at, stretch, _ := strings.Cut(cursor, "~")
	if before, err = time.Parse(time.RFC3339Nano, at); err == nil && stretch != "" {
		width, err = time.ParseDuration(stretch)
	}
	if err != nil || width < 0 {
		err = schemas.Errorf(schemas.Invalid, "", "cursor is not one of this list's")
	}
	return before, width, err
}

// sourcePlace is a source, and what headers of its deliveries have their id.
type sourcePlace struct {
	names.Name
	topic              string
	headers            []string // in lower case
	events, quarantine bool     // whether who asks may read its events, and its quarantine
	withheld           string   // what it may not read, in words; empty: nothing
}

// uri is the source as events have it.
func (p sourcePlace) uri() string { return "/" + p.Team + "/" + p.Name.Name }

// topics returns where a delivery of the source may be looked for.
func (p sourcePlace) topics() (list []string) {
	if p.events {
		list = append(list, p.topic)
	}
	if p.quarantine && len(p.headers) > 0 {
		list = append(list, topics.Quarantine(p.Team, p.Name.Name))
	}
	return list
}

// sourcesOf returns the sources that a team has or reads, of all teams where it is empty, and what of each it may see. uri, as events have it, leaves
// one of them.
func (i *inboxAPI) sourcesOf(team, uri string) (places []sourcePlace) {
	c := i.s.a.file()
	k := configured(c)
	for _, n := range k.sources {
		p := sourcePlace{Name: n, topic: c.Teams[n.Team].Sources[n.Name].Topic, headers: idHeaders(c.Teams[n.Team].Sources[n.Name]), events: true, quarantine: true}
		if uri != "" && p.uri() != uri {
			continue
		}
		if own := team == "" || n.Team == team; !own && !slices.Contains(k.reads[team], n) {
			continue
		} else if !own {
			p.quarantine = false
			p.events = slices.ContainsFunc(k.subscriptions, func(at names.Name) bool { return at.Team == team && i.reads(at, n) })
			p.withheld = "the quarantine of " + names.Source.Print(n) + ", which only its own team may see"
			if !p.events {
				p.withheld = names.Source.Print(n) + ", which team " + team + " may not read now (`forebay attention --kind " + api.KindBarred + "`)"
			}
		}
		places = append(places, p)
	}
	return places
}

// idHeaders returns the headers that a source's deliveries have their id in, in lower case.
func idHeaders(s *config.Source) []string {
	info, _ := provider.Lookup(s.Preset)
	id, delivery := info.ID, info.DeliveryID
	if s.Event != nil {
		id, delivery = cmp.Or(s.Event.ID, id), cmp.Or(s.Event.DeliveryID, delivery)
	}
	return append(headersIn(id), headersIn(delivery)...)
}

// headersIn returns the headers that a value is read from, in lower case.
func headersIn(from string) (list []string) {
	for part := range strings.SplitSeq(from, "|") {
		if name, ok := strings.CutPrefix(strings.TrimSuffix(part, "?"), "header:"); ok {
			list = append(list, strings.ToLower(name))
		}
	}
	return list
}

// deliveryMatch returns the condition for a record to be of a delivery: an event by its attribute, a quarantined delivery by its headers.
func deliveryMatch(sources []sourcePlace, id string) func(*kgo.Record) bool {
	headers := map[string][]string{}
	for _, s := range sources {
		headers[topics.Quarantine(s.Team, s.Name.Name)] = s.headers
	}
	return func(r *kgo.Record) bool {
		names, quarantine := headers[r.Topic]
		if !quarantine {
			return record.DeliveryID(r) == id || record.EventID(r) == id
		}
		return slices.ContainsFunc(names, func(name string) bool { return producer.HasHeader(r, name, id) })
	}
}

// logged returns an event as the log has it; an empty one if the log has it no more.
func (i *inboxAPI) logged(ctx context.Context, p ledger.Pointer) schemas.Event {
	_, payloads, err := i.open()
	if err != nil || p.Topic == "" {
		return schemas.Event{}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	e, err := payloads.Load(ctx, p)
	if err != nil {
		return schemas.Event{}
	}
	return *e
}
