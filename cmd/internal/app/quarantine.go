package app

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/topics"
	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/producer"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/schemas/trace"
)

// quarantineAPI lists the deliveries in quarantine topics, and redrives those that the mapping can read as events now.
type quarantineAPI struct{ a *App }

// Quarantined lists the newest quarantined deliveries of the sources that match the filter, the newest first.
func (q *quarantineAPI) Quarantined(ctx context.Context, f api.QuarantineFilter) ([]api.QuarantineItem, error) {
	opts := q.options()
	var items []api.QuarantineItem
	known := false
	for _, s := range sourceItems(q.a.file()) {
		if (f.Team != "" && f.Team != s.Team) || (f.Source != "" && f.Source != s.Source) {
			continue
		}
		known = true
		topic := topics.Quarantine(s.Team, s.Source)
		kept, err := producer.List(ctx, producer.Query{Topic: topic, Limit: f.Limit}, opts...)
		if err != nil {
			return nil, err
		}
		for _, k := range kept {
			items = append(items, quarantineItem(nameInTeam{s.Team, s.Source}, &k))
		}
	}
	if !known && (f.Team != "" || f.Source != "") {
		return nil, schemas.Errorf(schemas.NotFound, "", "no source %s is configured", strings.Trim(f.Team+"/"+f.Source, "/"))
	}
	slices.SortStableFunc(items, func(a, b api.QuarantineItem) int {
		return cmp.Or(b.ReceivedAt.Compare(a.ReceivedAt), cmp.Compare(a.Topic, b.Topic), cmp.Compare(b.Offset, a.Offset))
	})
	return items[:min(f.Limit, len(items))], nil
}

func quarantineItem(at nameInTeam, k *producer.Item) api.QuarantineItem {
	return api.QuarantineItem{Team: at.team, Source: at.name, Kind: k.Kind, Reason: k.Reason, Detail: k.Detail,
		Bytes: k.Bytes, Topic: topics.Quarantine(at.team, at.name), Partition: k.Partition, Offset: k.Offset, ReceivedAt: k.Received.UTC()}
}

// options returns the options of clients that read quarantine topics: they take records of any size that the intake can have written.
func (q *quarantineAPI) options() []kgo.Opt {
	return append(KafkaOptions(q.a.file()), kgo.BrokerMaxReadBytes(int32(max(100<<20, 2*(q.a.file().LargestBody()+topics.HeaderRoom)))))
}

// read returns one delivery as it was kept. For a source that is not configured it returns NotFound, even if the cluster has a topic
// for it.
func (q *quarantineAPI) read(ctx context.Context, p api.QuarantinePlace) (*producer.Item, error) {
	team := q.a.file().Teams[p.Team]
	if team == nil || team.Sources[p.Source] == nil {
		return nil, schemas.Errorf(schemas.NotFound, "", "no source %s/%s is configured", p.Team, p.Source)
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

// RedriveQuarantined maps a delivery by its source's mapping of today and produces the event. The signature is not checked again: it was
// verified when the delivery came. If a delivery is redriven twice, both events have the same id and body, and the gate decides that
// the second is a duplicate.
func (q *quarantineAPI) RedriveQuarantined(ctx context.Context, p api.QuarantinePlace, r api.QuarantineRedrive) (*api.QuarantineRedriven, error) {
	const op = "redrive"
	if q.a.intake == nil {
		return nil, schemas.Errorf(schemas.Conflict, op, "this process has no intake role, so it does not know what sources' deliveries mean; ask one that runs `forebay serve --roles intake`")
	}
	kept, err := q.read(ctx, p)
	if err != nil {
		return nil, err
	}
	source, ok := q.a.intake.sources.find(p.Team, p.Source)
	if !ok || kept.Kind != unusable {
		return nil, schemas.Errorf(schemas.Conflict, op, "it is kept as %q; only what was authentic and unusable can become an event", kept.Kind)
	}
	event, err := eventOf(source, kept)
	if err != nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "it still cannot be understood: %w; mend the source's mapping (`forebay quarantine raw` shows the body)", err)
	}
	out := &api.QuarantineRedriven{QuarantineItem: quarantineItem(nameInTeam{p.Team, p.Source}, kept), EventID: event.ID, Type: event.Type,
		Entity: string(event.Entity), State: api.StatePlanned}
	if r.DryRun {
		return out, nil
	}
	out.State, out.To = api.StateDone, &api.PlaceItem{Topic: source.Topic}
	produced := record.Encode(source.Topic, event)
	parent, state := trace.Child(event.TraceParent, event.TraceState)
	record.SetHop(produced, parent, state)
	if out.To.Partition, out.To.Offset, err = q.a.intake.log.Republish(ctx, source.Topic, produced); err != nil {
		return nil, err
	}
	q.a.log.Info("redriven from quarantine", "event_id", event.ID, "topic", source.Topic, "partition", out.To.Partition, "offset", out.To.Offset,
		"from", out.Topic, "from_partition", out.Partition, "from_offset", out.Offset, "reason", r.Reason, "by", r.By)
	return out, nil
}

// unusable is the kind of a quarantined delivery that was authentic and could not become an event.
const unusable = "unusable"

// eventOf returns the event that the source's mapping makes of a quarantined delivery.
func eventOf(source *ingest.Source, kept *producer.Item) (*schemas.Event, error) {
	r := verify.Request{Method: kept.Method, URL: kept.URL, Header: http.Header{}, Body: kept.Body}
	for _, h := range kept.Headers {
		r.Header.Add(h.Name, h.Value)
	}
	event := new(schemas.Event)
	if err := source.Read(&r, kept.Received, event); err != nil {
		return nil, err
	}
	event.TraceParent, event.TraceState = trace.Accept(r.Header["Traceparent"], r.Header["Tracestate"])
	return event, event.Validate()
}
