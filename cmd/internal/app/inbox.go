package app

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
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

// Items lists events, newest decision first.
func (i *inboxAPI) Items(ctx context.Context, f api.InboxFilter) (api.Page[api.InboxItem], error) {
	box, _, err := i.open()
	if err != nil {
		return api.Page[api.InboxItem]{}, err
	}
	if f.Source, err = i.source(f.Team, f.Source); err != nil {
		return api.Page[api.InboxItem]{}, err
	}
	if f.Delivery != "" {
		return i.delivered(ctx, box, f)
	}
	page, err := box.List(ctx, f)
	return api.Page[api.InboxItem]{Items: page.Items, Next: page.Next}, err
}

// source returns the CloudEvents source, /TEAM/NAME, of a source that an operator names by its last part. An empty name is returned as it
// is. Without a team, the name must be that of one source alone.
func (i *inboxAPI) source(team, name string) (string, error) {
	if name == "" || strings.HasPrefix(name, "/") {
		return name, nil
	}
	if team != "" {
		return "/" + team + "/" + name, nil
	}
	var teams []string
	for t, c := range i.s.a.file().Teams {
		if _, ok := c.Sources[name]; ok {
			teams = append(teams, t)
		}
	}
	switch len(teams) {
	case 0:
		return "", schemas.Errorf(schemas.NotFound, "", "no source %s is configured", name)
	case 1:
		return "/" + teams[0] + "/" + name, nil
	}
	return "", schemas.Errorf(schemas.Invalid, "", "several teams have a source %s; name the team as well", name)
}

// placed matches the name of a record that has no id: PARTITION@OFFSET, where the topic stands for the source. The offset is negative
// if the log was cut and another record has the record's offset now.
var placed = regexp.MustCompile(`^([0-9]{1,9})@(-?[0-9]{1,18})$`)

// find returns an event, or the rejected record at a place, with the inbox that has it. A source with a dot in its name is a topic:
// sources have none.
func (i *inboxAPI) find(ctx context.Context, team, subscription, source, eventID string) (box *inbox.Inbox, item inbox.Item, err error) {
	if box, _, err = i.open(); err != nil {
		return nil, item, err
	}
	if m := placed.FindStringSubmatch(eventID); m != nil && strings.Contains(source, ".") {
		partition, errPartition := strconv.ParseInt(m[1], 10, 32)
		offset, errOffset := strconv.ParseInt(m[2], 10, 64)
		if errPartition == nil && errOffset == nil {
			item, err = box.Place(ctx, team, subscription, source, int32(partition), offset)
			return box, item, err
		}
	}
	item, err = box.Item(ctx, team, subscription, fullSource(team, source), eventID)
	return box, item, err
}

// Item returns one event with its actions and attempts.
func (i *inboxAPI) Item(ctx context.Context, team, subscription, source, eventID string) (*api.InboxDetail, error) {
	_, item, err := i.find(ctx, team, subscription, source, eventID)
	if err != nil {
		return nil, err
	}
	d := &api.InboxDetail{InboxItem: item, Actions: []api.ActionItem{}}
	d.DeliveryID = i.deliveryID(ctx, item.Pointer)
	for n := range item.Actions {
		d.Actions = append(d.Actions, actionOf(&item.Actions[n]))
	}
	return d, nil
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
		return &api.Raw{ContentType: e.DataContentType, Data: e.Data}, nil
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
		return &api.Raw{ContentType: e.DataContentType, Data: e.Data}
	}
	return &api.Raw{Data: r.Value}
}
