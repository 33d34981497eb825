package app

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// searchTime bounds one answer's search in the log. A cursor goes on from there.
const searchTime = 8 * time.Second

// delivered lists what became of the events of a delivery, by the provider's id of it. Where a source takes that as the event's id, the
// ledger knows it; else it is in the log only. A page without items and with a cursor says that more of the log is to be searched.
func (i *inboxAPI) delivered(ctx context.Context, box *inbox.Inbox, f api.InboxFilter) (page api.Page[api.InboxItem], err error) {
	before := time.Now().Add(time.Minute) // brokers' clocks differ
	if f.Cursor != "" {
		if before, err = time.Parse(time.RFC3339Nano, f.Cursor); err != nil {
			return page, schemas.Errorf(schemas.Invalid, "", "cursor is not one of this list's")
		}
		f.Cursor = ""
	} else {
		for _, source := range i.sourcesOf(f.Team, f.Source) {
			f.Keys = append(f.Keys, schemas.NewEventKey(source.uri, f.Delivery))
		}
		if page, err = list(ctx, box, f); err != nil || len(page.Items) > 0 {
			return page, err
		}
	}
	q := reader.Delivered{ID: f.Delivery, From: f.Since, Before: before}
	for _, source := range i.sourcesOf(f.Team, f.Source) {
		if source.delivers {
			q.Topics = append(q.Topics, source.topic)
		}
	}
	if len(q.Topics) == 0 {
		return page, nil
	}
	end := time.Now().Add(searchTime)
	keys, searched, err := reader.Find(ctx, q, func() bool { return time.Now().Before(end) }, (&quarantineAPI{i.s.a}).options()...)
	if err != nil || len(keys) == 0 {
		if err == nil && searched.After(q.From) {
			page.Next = searched.UTC().Format(time.RFC3339Nano)
		}
		return page, err
	}
	f.Keys, f.Since = keys, time.Time{}
	return list(ctx, box, f)
}

// list lists events of a delivery. There is no next page: a delivery is one event in each subscription.
func list(ctx context.Context, box *inbox.Inbox, f api.InboxFilter) (api.Page[api.InboxItem], error) {
	page, err := box.List(ctx, f)
	for n := range page.Items {
		page.Items[n].DeliveryID = f.Delivery
	}
	return api.Page[api.InboxItem]{Items: page.Items}, err
}

// sourcePlace is where the events of a source are. It delivers if they have ids of deliveries beside their own.
type sourcePlace struct {
	uri, topic string
	delivers   bool
}

// sourcesOf returns the sources that a filter leaves; uri is as events have it.
func (i *inboxAPI) sourcesOf(team, uri string) (places []sourcePlace) {
	c := i.s.a.file()
	for _, t := range slices.Sorted(maps.Keys(c.Teams)) {
		for _, name := range slices.Sorted(maps.Keys(c.Teams[t].Sources)) {
			s := c.Teams[t].Sources[name]
			p := sourcePlace{uri: "/" + t + "/" + name, topic: s.Topic}
			info, _ := provider.Lookup(s.Preset)
			p.delivers = info.DeliveryID != "" || s.Event != nil && s.Event.DeliveryID != ""
			if (team == "" || t == team) && (uri == "" || p.uri == uri) {
				places = append(places, p)
			}
		}
	}
	return places
}

// deliveryID returns the provider's id of the delivery that an event came with, if the log still has it.
func (i *inboxAPI) deliveryID(ctx context.Context, p ledger.Pointer) string {
	_, payloads, err := i.open()
	if err != nil || p.Topic == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	e, err := payloads.Load(ctx, p)
	if err != nil {
		return ""
	}
	return e.DeliveryID
}
