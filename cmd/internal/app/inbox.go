package app

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/reader"
	"github.com/forebay-io/forebay/stream/sink"
)

// inboxAPI answers operators' questions about events from the ledger, and reads bodies from the log if the ledger has no copy.
type inboxAPI struct{ s *streams }

// open returns the inbox, and the reader of bodies that are in the log alone. Both are there once Postgres has answered.
func (i *inboxAPI) open() (*inbox.Inbox, *reader.LogPayloads, error) {
	i.s.mu.Lock()
	defer i.s.mu.Unlock()
	if i.s.ledger == nil || i.s.payloads == nil {
		return nil, nil, schemas.Errorf(schemas.Unavailable, "read the inbox", "the ledger is not open yet; /readyz says why")
	}
	return inbox.New(i.s.ledger), i.s.payloads, nil
}

// Items lists events, newest decision first. Package names has the grammar of the filters.
func (i *inboxAPI) Items(ctx context.Context, f api.InboxFilter) (api.Page[api.InboxItem], error) {
	box, _, err := i.open()
	if err != nil {
		return api.Page[api.InboxItem]{}, err
	}
	inDoubt, err := i.resolve(ctx, box, queryNames{&f.Team, &f.Subscription, &f.Source, new(string)})
	if err != nil {
		return api.Page[api.InboxItem]{}, err
	}
	if err := cmp.Or(names.OneOf("status", f.Status, inbox.Statuses()), names.OneOf("decision", string(f.Decision), decisions())); err != nil {
		return api.Page[api.InboxItem]{}, err
	}
	if f.Delivery != "" {
		return i.delivered(ctx, box, f)
	}
	page, err := box.List(ctx, f)
	if err == nil && len(page.Items) == 0 && f.Cursor == "" {
		err = i.nothing(ctx, box, f, inDoubt)
	}
	return api.Page[api.InboxItem]{Items: page.Items, Next: page.Next, More: page.More, Elsewhere: i.s.a.leftOut(f.Team, f.Subscription)}, err
}

// decisions returns the gate's decisions as texts.
func decisions() (list []string) {
	for _, d := range gate.Decisions() {
		list = append(list, string(d))
	}
	return list
}

// find returns an event, or the record at a place that the subscription did not take as one, with the inbox that has it. An event's id may
// be cut off.
func (i *inboxAPI) find(ctx context.Context, team, subscription, source, eventID string) (box *inbox.Inbox, item inbox.Item, err error) {
	if err := i.s.a.here(nameInTeam{team, subscription}); err != nil {
		return nil, item, err
	}
	if box, _, err = i.open(); err != nil {
		return nil, item, err
	}
	if place, ok := names.ParseRecord(source, eventID); ok {
		item, err = box.Place(ctx, team, subscription, place.Topic, place.Partition, place.Offset)
		return box, item, err
	}
	full, eventID := configured(i.s.a.file()).fullSource(team, source, eventID)
	item, err = box.Item(ctx, team, subscription, full, eventID)
	if schemas.KindOf(err) == schemas.NotFound {
		item, err = i.findByPrefix(ctx, box, names.Event{Team: team, Subscription: subscription, Source: full, ID: eventID}, err)
	}
	return box, item, err
}

// findByPrefix returns the one event whose id begins with n.ID. A team, subscription or source that nothing has is an error first; if no id
// begins so, the error is notFound, that of the search for the whole id; if several do, it lists them.
func (i *inboxAPI) findByPrefix(ctx context.Context, box *inbox.Inbox, n names.Event, notFound error) (item inbox.Item, err error) {
	if strings.Contains(n.Source, ".") { // a topic: a record was meant, but ParseRecord did not take it
		return item, notFound
	}
	if _, err := i.resolve(ctx, box, queryNames{&n.Team, &n.Subscription, &n.Source, new(string)}); err != nil {
		return item, err
	}
	ids, err := box.EventIDs(ctx, n.Team, n.Subscription, n.Source, n.ID)
	if err != nil {
		return item, err
	}
	if len(ids) == 0 {
		return item, notFound
	}
	id, err := onlyOne("event", n.ID, ids, "forebay inbox list -o id")
	if err != nil {
		return item, err
	}
	return box.Item(ctx, n.Team, n.Subscription, n.Source, id)
}

// Item returns one event with its actions and attempts, its story, and what happens next.
func (i *inboxAPI) Item(ctx context.Context, team, subscription, source, eventID string) (*api.InboxDetail, error) {
	box, item, err := i.find(ctx, team, subscription, source, eventID)
	if err != nil {
		return nil, err
	}
	d := &api.InboxDetail{InboxItem: item, Actions: []api.ActionItem{}}
	e := i.logged(ctx, item.Pointer)
	d.DeliveryID, d.Title = e.DeliveryID, e.Title
	if s := e.Sender; s.ID != "" {
		d.Sender = &api.SenderItem{ID: s.ID, Login: s.Login, Kind: string(s.Kind)}
	}
	for n := range item.Actions {
		d.Actions = append(d.Actions, actionOf(&item.Actions[n]))
	}
	d.Filters = i.explain(ctx, nameInTeam{team, subscription}, &item, &e)
	return d, i.story(ctx, box, d, &item, &e)
}

// fullSource returns the CloudEvents source of a team's source, whichever of the two it is given.
func fullSource(team, source string) string {
	if strings.HasPrefix(source, "/") {
		return source
	}
	return "/" + team + "/" + source
}

// actionOf returns an action with its attempts for the API. The ledger keeps no row of a first attempt that succeeded, so that attempt is
// made from the action's row.
func actionOf(a *inbox.Action) api.ActionItem {
	out := api.ActionItem{ID: string(a.ID), Name: a.Name, Destination: a.Destination, Status: string(a.Status), LaneSeq: a.LaneSeq,
		NextAt: a.NextAt, Attempts: attemptsOf(a.History)}
	if a.Replay != 0 {
		out.Replay = strconv.Itoa(int(a.Replay))
	}
	if len(a.History) < a.Attempts && a.FinishedAt != nil {
		out.Attempts = append(out.Attempts, api.AttemptItem{Attempt: a.Attempts, At: a.FinishedAt.UTC(), Class: a.Class, Code: a.Code,
			LatencyMS: a.LatencyMS, Error: a.Error, Response: string(a.Response)})
	}
	return out
}

// attemptsOf returns attempts as the API has them.
func attemptsOf(history []inbox.Attempt) []api.AttemptItem {
	out := make([]api.AttemptItem, len(history))
	for i, h := range history {
		out[i] = api.AttemptItem{Attempt: h.Attempt, At: h.EndedAt.UTC(), Class: h.Class, Code: h.Code, LatencyMS: h.LatencyMS, Error: h.Error,
			Response: string(h.Response), TraceID: h.TraceID}
	}
	return out
}

// Raw returns the body as it was received: the ledger's copy if there is one, else the log's record at the pointer.
func (i *inboxAPI) Raw(ctx context.Context, team, subscription, source, eventID string) (*api.Raw, error) {
	box, item, err := i.find(ctx, team, subscription, source, eventID)
	if err != nil {
		return nil, err
	}
	packed, pointer, err := box.Payload(ctx, item)
	if err != nil {
		return nil, err
	}
	if packed != nil {
		return unpacked(packed), nil
	}
	_, payloads, err := i.open()
	if err != nil {
		return nil, err
	}
	e, err := payloads.Load(ctx, pointer)
	if err == nil {
		return &api.Raw{ContentType: e.DataContentType, Data: e.Data, Headers: headersOf(record.Encode("", e))}, nil
	}
	if a, ok := errors.AsType[*sink.AttemptError](err); ok && a.Class == sink.ClassPayload {
		return nil, schemas.Errorf(schemas.NotFound, "read the body", "the log no longer has it: %w", a.Err)
	}
	return nil, &schemas.Error{Kind: schemas.Unavailable, Op: "read the body", Err: err}
}

// unpacked returns the body in a packed record. If the record is no event, that is its value; if it cannot be unpacked, its bytes.
func unpacked(packed []byte) *api.Raw {
	r, err := record.Unpack(packed)
	if err != nil {
		return &api.Raw{Data: packed}
	}
	if e, err := record.Decode(r); err == nil {
		return &api.Raw{ContentType: e.DataContentType, Data: e.Data, Headers: headersOf(r)}
	}
	return &api.Raw{Data: r.Value, Headers: headersOf(r)}
}

func headersOf(r *kgo.Record) (list []api.DeadHeader) {
	for _, h := range r.Headers {
		list = append(list, api.DeadHeader{Key: h.Key, Value: string(h.Value)})
	}
	return list
}
