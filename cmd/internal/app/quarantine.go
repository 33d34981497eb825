package app

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/producer"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/schemas/trace"
)

// quarantineAPI lists the deliveries in quarantine topics, and redrives those that verify and that the mapping can read as events now.
type quarantineAPI struct {
	a     *App
	marks producer.Marks
}

// Quarantined lists quarantined deliveries of the sources that match the filter, the newest of each source first.
func (q *quarantineAPI) Quarantined(ctx context.Context, f api.QuarantineFilter) (page api.Page[api.QuarantineItem], err error) {
	opts, k := q.options(), configured(q.a.file())
	k.reads = nil // what could not become an event is for nobody but the source's team
	if err := (queryNames{&f.Team, new(string), &f.Source, new(string)}).resolve(k); err != nil {
		return page, err
	}
	if f.Kind != "" && f.Kind != ingest.KindUnusable && f.Kind != ingest.KindRefused {
		return page, schemas.Errorf(schemas.Invalid, "", "kind %q is neither unusable nor refused: leave it out for both", f.Kind)
	}
	before, err := parseQuarantineCursor(f.Cursor)
	if err != nil {
		return page, err
	}
	end, err := q.a.search(ctx)
	if err != nil {
		return page, err
	}
	defer end()
	var lists [][]api.QuarantineItem
	for _, s := range k.sources {
		if (f.Team != "" && f.Team != s.Team) || (f.Source != "" && f.Source != "/"+s.Team+"/"+s.Name) {
			continue
		}
		topic := topics.Quarantine(s.Team, s.Name)
		kept, err := producer.List(ctx, producer.Query{Topic: topic, Limit: f.Limit + 1, Kind: f.Kind, Waiting: f.Waiting, Before: before[topic]}, opts...)
		if schemas.KindOf(err) == schemas.NotFound && f.Source == "" {
			continue // the others are listed
		}
		if err != nil {
			return page, err
		}
		items := make([]api.QuarantineItem, len(kept))
		for n := range kept {
			items[n] = quarantineItem(nameInTeam{s.Team, s.Name}, &kept[n])
		}
		lists = append(lists, items)
	}
	page.Items = producer.Merge(lists, f.Limit+1, func(i *api.QuarantineItem) time.Time { return i.ReceivedAt })
	if len(page.Items) > f.Limit {
		page.Items = page.Items[:f.Limit]
		page.Next = quarantineCursor(before, page.Items)
	}
	return page, nil
}

// quarantineCursor returns the cursor of the page behind items: where in each partition they have ended, and those of the pages before them.
func quarantineCursor(before map[string]map[int32]int64, items []api.QuarantineItem) string {
	for _, i := range items {
		if before[i.Topic] == nil {
			before[i.Topic] = map[int32]int64{}
		}
		before[i.Topic][i.Partition] = i.Offset // the last one of a partition has the lowest
	}
	var places []string
	for topic, partitions := range before {
		for partition, offset := range partitions {
			places = append(places, names.Place{Topic: topic, Partition: partition, Offset: offset}.String())
		}
	}
	slices.Sort(places)
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(places, " ")))
}

// parseQuarantineCursor returns what quarantineCursor has written, by topic and partition. Kind of error: Invalid.
func parseQuarantineCursor(cursor string) (map[string]map[int32]int64, error) {
	before := map[string]map[int32]int64{}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	for place := range strings.FieldsSeq(string(text)) {
		d, failed := names.ParseDelivery(place)
		if err = cmp.Or(err, failed); err != nil {
			break
		}
		topic := topics.Quarantine(d.Source.Team, d.Source.Name)
		if before[topic] == nil {
			before[topic] = map[int32]int64{}
		}
		before[topic][d.Partition] = d.Offset
	}
	if err != nil || cursor != "" && len(before) == 0 {
		return nil, schemas.Errorf(schemas.Invalid, "", "cursor is not one of this list's")
	}
	return before, nil
}

func quarantineItem(at nameInTeam, k *producer.Item) api.QuarantineItem {
	item := api.QuarantineItem{Team: at.team, Source: at.name, Kind: k.Kind, Reason: k.Reason, Detail: k.Detail,
		Bytes: k.Bytes, Topic: topics.Quarantine(at.team, at.name), Partition: k.Partition, Offset: k.Offset, ReceivedAt: k.Received.UTC()}
	if m := k.Redriven; m != nil {
		item.Redriven = &api.QuarantineMark{At: m.At.UTC(), By: m.By, Reason: m.Reason, EventID: m.Event, To: m.To}
	}
	return item
}

// options returns the options of clients that read quarantine topics.
func (q *quarantineAPI) options() []kgo.Opt { return q.a.readingAs(q.a.kafkaRole()) }

// readingAs returns the options of a role's clients that take records of any size that the intake can have written.
func (a *App) readingAs(role config.Role) []kgo.Opt {
	return append(KafkaOptions(a.file(), role), kgo.BrokerMaxReadBytes(int32(max(100<<20, 2*(a.file().LargestBody()+topics.HeaderRoom)))))
}

// read returns one delivery as it was kept. For a source that is not configured it returns NotFound, even if the cluster has a topic
// for it.
func (q *quarantineAPI) read(ctx context.Context, p api.QuarantinePlace) (*producer.Item, error) {
	team := q.a.file().Teams[p.Team]
	if team == nil || team.Sources[p.Source] == nil {
		return nil, names.Source.Unknown(names.Name{Team: p.Team, Name: p.Source}, configured(q.a.file()).sources)
	}
	return producer.ReadOne(ctx, topics.Quarantine(p.Team, p.Source), p.Partition, p.Offset, q.options()...)
}

// QuarantinedBody returns a delivery's body, byte for byte.
func (q *quarantineAPI) QuarantinedBody(ctx context.Context, p api.QuarantinePlace) ([]byte, error) {
	item, err := q.read(ctx, p)
	if err != nil {
		return nil, err
	}
	return item.Body, nil
}

// RedriveQuarantined makes an event of a delivery with its source's current mapping, and produces it; with r.Discard it marks the delivery as
// discarded instead. The signature of a refused one is checked again, and not that of what was verified when it came. A delivery that was redriven or discarded
// before is refused, unless r.Again is set: if the mapping has not changed meanwhile, both events have the same id and body, and the gate
// decides that the second is a duplicate.
func (q *quarantineAPI) RedriveQuarantined(ctx context.Context, p api.QuarantinePlace, r api.QuarantineRedrive) (*api.QuarantineRedriven, error) {
	const op = "redrive"
	if q.a.intake == nil {
		whom := "ask one that runs `forebay serve --roles intake`"
		if q.a.file().Operator.HasTokens() {
			whom += " by a file without operator.auth, on its own machine: by this one it has no tokens to answer to"
		}
		return nil, schemas.Errorf(schemas.Conflict, op, "this process has no intake role, so it cannot make events of deliveries; %s", whom)
	}
	kept, err := q.read(ctx, p)
	if err != nil {
		return nil, err
	}
	source, ok := q.a.intake.sources.find(p.Team, p.Source)
	if !ok {
		return nil, schemas.Errorf(schemas.Conflict, op, "this process takes nothing from source %s/%s: its configuration has changed meanwhile", p.Team, p.Source)
	}
	if kept.Kind != ingest.KindUnusable && kept.Kind != ingest.KindRefused {
		return nil, unknownKind(kept)
	}
	earlier, err := q.marks.Of(ctx, topics.Quarantine(p.Team, p.Source), p.Partition, p.Offset, q.options()...)
	if err != nil {
		return nil, err
	}
	if earlier != nil && !r.Again {
		return nil, schemas.Errorf(schemas.Conflict, op, "%s; --again does it all the same", dealtWith(earlier))
	}
	if r.Discard {
		return q.discard(ctx, p, r, kept)
	}
	if err := verifyAgain(source, kept); err != nil {
		return nil, err
	}
	events, rest, err := eventsOf(source, kept)
	if err != nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "it still cannot be understood: %w; fix the source's mapping or its schema (`forebay quarantine raw` shows the body), or discard it with --discard", err)
	}
	out := &api.QuarantineRedriven{QuarantineItem: quarantineItem(nameInTeam{p.Team, p.Source}, kept), State: api.StatePlanned}
	if len(events) == 0 {
		return nil, schemas.Errorf(schemas.Invalid, op, "its list has no elements, so there is nothing to redrive; discard it with --discard")
	}
	out.EventID, out.Type, out.Entity = events[0].ID, events[0].Type, string(events[0].Entity)
	switch {
	case len(rest) > 0:
		out.Note = fmt.Sprintf("the delivery is a list: %d elements are events, of which this is the first, and %d still cannot be understood, which wait in quarantine one by one: element %d is the first (%s)",
			len(events), len(rest), rest[0].Element, rest[0].Reason)
	case len(events) > 1:
		out.Note = fmt.Sprintf("the delivery is a list of %d events, of which this is the first", len(events))
	}
	if r.DryRun {
		return out, nil
	}
	out.State, out.To = api.StateDone, &api.PlaceItem{Topic: source.Topic}
	now, from := time.Now(), names.Place{Topic: out.Topic, Partition: p.Partition, Offset: p.Offset}
	for i, event := range events { // dedupe absorbs what is repeated after a failure
		produced := q.a.intake.log.Record(source.Topic, event)
		record.SetRedriven(produced, redriven(now, r.By, r.Reason, from))
		partition, offset, err := fitLog{q.a.intake.log, q.a}.Republish(ctx, source.Topic, produced)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			out.To.Partition, out.To.Offset = partition, offset
		}
	}
	for _, d := range rest {
		if err := (fitLog{q.a.intake.log, q.a}).Quarantine(ctx, time.Time{}, out.Topic, d); err != nil {
			return nil, err
		}
	}
	note := producer.Redriven{At: now, By: cmp.Or(r.By, "unknown"), Reason: r.Reason, Event: out.EventID, To: names.Place(*out.To).String()}
	if err := producer.Mark(ctx, out.Topic, p.Partition, p.Offset, note, q.options()...); err != nil {
		out.Note = fmt.Sprintf("the event was produced, but the mark could not be written, so the list still shows the delivery as open: %v", err)
		q.a.log.Warn("redriven from quarantine, and not marked", "event_id", out.EventID, "from", out.Topic, "from_partition", out.Partition, "from_offset", out.Offset, "error", err)
	}
	q.a.log.Info("redriven from quarantine", "event_id", out.EventID, "events", len(events), "quarantined", len(rest), "topic", source.Topic, "partition", out.To.Partition,
		"offset", out.To.Offset, "from", out.Topic, "from_partition", out.Partition, "from_offset", out.Offset, "reason", r.Reason, "by", r.By)
	return out, nil
}

// dealtWith says what an operator did about a delivery before. A mark without an event is that of a discarded one.
func dealtWith(m *producer.Redriven) string {
	at := m.At.UTC().Format(time.RFC3339)
	if m.To == "" {
		return fmt.Sprintf("it was discarded at %s by %s already (%s)", at, m.By, m.Reason)
	}
	return fmt.Sprintf("it was redriven at %s by %s already (%s), and is %s since", at, m.By, m.Reason, m.To)
}

// discard marks a delivery as seen: it becomes no event, and attention lists it no more.
func (q *quarantineAPI) discard(ctx context.Context, p api.QuarantinePlace, r api.QuarantineRedrive, kept *producer.Item) (*api.QuarantineRedriven, error) {
	out := &api.QuarantineRedriven{QuarantineItem: quarantineItem(nameInTeam{p.Team, p.Source}, kept), State: api.StatePlanned}
	if r.DryRun {
		return out, nil
	}
	note := producer.Redriven{At: time.Now(), By: cmp.Or(r.By, "unknown"), Reason: r.Reason}
	if err := producer.Mark(ctx, out.Topic, p.Partition, p.Offset, note, q.options()...); err != nil {
		return nil, err
	}
	out.State = api.StateDone
	q.a.log.Info("discarded from quarantine", "from", out.Topic, "from_partition", out.Partition, "from_offset", out.Offset, "reason", r.Reason, "by", r.By)
	return out, nil
}

// eventsOf returns the events that the source's mapping makes of a quarantined delivery: one, unless it is a whole one of a source whose
// deliveries have lists of events. Of such a list, rest are the elements that cannot become events, unless that is all of them.
func eventsOf(source *ingest.Source, kept *producer.Item) (events []*schemas.Event, rest []*ingest.Delivery, err error) {
	r := kept.Request()
	elements := []verify.Request{*r}
	if source.Several() && kept.Element == 0 {
		if elements, err = source.Split(r); err != nil {
			return nil, nil, err
		}
	}
	var first error
	for i := range elements {
		event := new(schemas.Event)
		err := source.Read(&elements[i], kept.Received, event)
		if err == nil {
			event.TraceParent, event.TraceState = trace.Accept(r.Header["Traceparent"], r.Header["Tracestate"], source.Chain())
			err = event.Validate()
		}
		if err == nil {
			_, _, err = source.CheckSchema(event)
		}
		if err == nil {
			events = append(events, event)
			continue
		}
		rest = append(rest, source.Unusable(&kept.Delivery, &elements[i], i+1, err))
		if len(elements) > 1 {
			err = fmt.Errorf("element %d: %w", i+1, err)
		}
		if _, is := errors.AsType[*provider.Forbidden](err); is { // the door takes nothing of such a list
			return nil, nil, err
		}
		first = cmp.Or(first, err)
	}
	if len(events) == 0 {
		return nil, nil, first
	}
	return events, rest, nil
}
