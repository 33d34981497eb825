package replay

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// logOf is a log of one topic with one partition that begins at an offset.
type logOf struct {
	topic reader.Topic
	start int64
}

func (l logOf) Topic(context.Context, string) (reader.Topic, error) { return l.topic, nil }
func (l logOf) Start(context.Context, reader.TopicPartition) (int64, error) {
	return l.start, nil
}
func (l logOf) StableEnd(context.Context, reader.TopicPartition) (int64, error) { return 100, nil }
func (l logOf) OffsetAfter(context.Context, reader.TopicPartition, time.Time) (int64, error) {
	return 0, nil
}
func (l logOf) AppendTime(context.Context, ledger.Partition, int64) (time.Time, error) {
	return time.Unix(1_700_000_000, 0), nil
}

func (l logOf) Keeps(context.Context, string, time.Duration) (bool, error) { return false, nil }

// A plan is started only where the topic, the log's start and the subscription are as they were: each that moved is named.
func TestCheckNamesWhatMoved(t *testing.T) {
	t.Parallel()
	id := ledger.TopicID{1}
	const topic = "events.acme.github"
	for name, tt := range map[string]struct {
		log      logOf
		topics   []string
		position int64
		says     string
	}{
		"nothing":                        {logOf{reader.Topic{ID: id, Partitions: 1}, 10}, []string{topic}, 40, ""},
		"the subscription went on":       {logOf{reader.Topic{ID: id, Partitions: 1}, 10}, []string{topic}, 80, ""},
		"the subscription was moved":     {logOf{reader.Topic{ID: id, Partitions: 1}, 10}, []string{topic}, 39, "stands at 39"},
		"its topic is not read any more": {logOf{reader.Topic{ID: id, Partitions: 1}, 10}, nil, 40, "does not read this topic"},
		"the topic was created again":    {logOf{reader.Topic{ID: ledger.TopicID{2}, Partitions: 1}, 10}, []string{topic}, 40, "created again"},
		"the topic has grown":            {logOf{reader.Topic{ID: id, Partitions: 2}, 10}, []string{topic}, 40, "has 2 now"},
		"retention":                      {logOf{reader.Topic{ID: id, Partitions: 1}, 11}, []string{topic}, 40, "retention has deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bounds := []inbox.ReplayBounds{{Fence: 7, Topic: topic, TopicID: inbox.TopicIDText(id), Partitions: 1, From: 10, To: 40}}
			positions := []inbox.Position{{Fence: 6, Next: 1}, {Fence: 7, Topic: topic, TopicID: id, Next: tt.position}}
			err := Check(t.Context(), tt.log, tt.topics, positions, bounds)
			if tt.says == "" && err != nil {
				t.Error(err)
			}
			if tt.says != "" && (schemas.KindOf(err) != schemas.Conflict || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), "plan it again")) {
				t.Errorf("%v, want %q", err, tt.says)
			}
		})
	}
}

// A range of offsets that cannot be replayed is refused with one that can, and a partition that is not there with those that are.
func TestOffsetsAreRefused(t *testing.T) {
	t.Parallel()
	const topic = "events.acme.github"
	id := ledger.TopicID{1}
	log := logOf{reader.Topic{ID: id, Partitions: 2}, 10} // which ends at 100
	positions := []inbox.Position{{Fence: 6, Topic: topic, TopicID: id, Next: 40}, {Fence: 7, Topic: topic, TopicID: id, Partition: 1, Next: 10}}
	for name, tt := range map[string]struct {
		partition int32
		asked     Offsets
		says      string
	}{
		"all of it":                 {0, Offsets{-1, -1}, ""},
		"before the log's start":    {0, Offsets{9, 20}, "offset 9 is before the log's start 10: retention has deleted it; begin at 10"},
		"to beyond the log's end":   {0, Offsets{20, 101}, "offset 101 is beyond the log's end 100; a range ends at 40 at the latest"},
		"from beyond the log's end": {0, Offsets{101, -1}, "offset 101 is beyond the log's end 100; a range ends at 40 at the latest"},
		"to behind the position":    {0, Offsets{20, 41}, "the subscription stands at 40, and reads by itself what lies behind that; end at 40"},
		"from behind the position":  {0, Offsets{50, -1}, "nothing lies between 50 and 40; begin at 10 to 39, and end behind that"},
		"nothing":                   {0, Offsets{20, 20}, "nothing lies between 20 and 20; begin at 10 to 39, and end behind that"},
		"nothing was passed":        {1, Offsets{-1, -1}, "leave this partition out"},
		"no such partition":         {2, Offsets{20, 30}, "none of events.acme.github (0 to 1); write it as TOPIC/PARTITION=OFFSET"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Bounds(t.Context(), log, positions, Query{Subscription: "acme.triage", Topics: []string{topic},
				Offsets: map[reader.TopicPartition]Offsets{{Topic: topic, Number: tt.partition}: tt.asked}})
			if tt.says == "" && (err != nil || len(got) != 1 || got[0].From != 10 || got[0].To != 40) {
				t.Errorf("%+v %v", got, err)
			}
			if tt.says != "" && (schemas.KindOf(err) != schemas.Invalid || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("%v, want %q", err, tt.says)
			}
		})
	}
}

// A time before the topic was made by a rekey is refused: what had run by then is in another one, and nothing would be found of it.
func TestSinceBeforeACopyIsRefused(t *testing.T) {
	t.Parallel()
	const topic = "events.acme.github.24"
	id, made := ledger.TopicID{1}, time.Unix(1_700_000_000, 0)
	log := logOf{reader.Topic{ID: id, Partitions: 1}, 0}
	for name, tt := range map[string]struct {
		copied  *time.Time
		since   time.Time
		refused bool
	}{
		"before":     {&made, made.Add(-time.Hour), true},
		"behind":     {&made, made.Add(time.Hour), false},
		"no time":    {&made, time.Time{}, false},
		"not a copy": {nil, made.Add(-time.Hour), false},
	} {
		_, err := Bounds(t.Context(), log, []inbox.Position{{Topic: topic, TopicID: id, Next: 40, Copied: tt.copied}}, Query{Subscription: "acme.triage", Topics: []string{topic}, Since: tt.since})
		if refused := schemas.KindOf(err) == schemas.Invalid; refused != tt.refused || !refused && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// quietLog is a log of which one record is left, of ten minutes ago; it keeps records for a week.
type quietLog struct{ logOf }

func (quietLog) StableEnd(context.Context, reader.TopicPartition) (int64, error) { return 1001, nil }
func (quietLog) OffsetAfter(context.Context, reader.TopicPartition, time.Time) (int64, error) {
	return 1000, nil
}
func (quietLog) AppendTime(context.Context, ledger.Partition, int64) (time.Time, error) {
	return time.Now().Add(-10 * time.Minute), nil
}
func (quietLog) Keeps(_ context.Context, _ string, long time.Duration) (bool, error) {
	return long < 7*24*time.Hour, nil
}

// A partition that was merely quiet since then lacks nothing, and the plan notes where it begins; what retention may have deleted is refused.
func TestSinceBeforeAQuietPartitionsStart(t *testing.T) {
	t.Parallel()
	const topic = "events.acme.github"
	id := ledger.TopicID{1}
	log := quietLog{logOf{reader.Topic{ID: id, Partitions: 1}, 1000}}
	for ago, refused := range map[time.Duration]bool{5 * time.Minute: false, 2 * time.Hour: false, 8 * 24 * time.Hour: true} {
		got, err := Bounds(t.Context(), log, []inbox.Position{{Topic: topic, TopicID: id, Next: 1001}}, Query{Subscription: "acme.triage", Topics: []string{topic}, Since: time.Now().Add(-ago)})
		if is := schemas.KindOf(err) == schemas.Invalid && strings.Contains(err.Error(), "retention may have deleted"); is != refused || !refused && (err != nil || got[0].From != 1000 || got[0].To != 1001 || got[0].Short != (ago > time.Hour)) {
			t.Errorf("since %s: %+v %v", ago, got, err)
		}
	}
}

// book knows that the events of some ids were applied.
type book []string

func (b book) Known(_ context.Context, _ int32, records []ledger.Record, statuses bool) ([]ledger.Known, error) {
	list := make([]ledger.Known, len(records))
	for i := range records {
		list[i].Decision = ledger.Undecided
		for _, id := range b {
			if id == records[i].ID {
				list[i] = ledger.Known{Decision: gate.Applied, Done: true}
				if statuses {
					list[i].Status = "done"
				}
			}
		}
	}
	return list, nil
}

// A filter that leaves out undecided events among those that it wants is found where their versions must follow each other, and only there.
func TestCountFindsHoles(t *testing.T) {
	t.Parallel()
	event := func(id, entity, of string, kind schemas.VersionKind) ledger.Record {
		return ledger.Record{Record: gate.Record{Key: schemas.NewEventKey("/acme/shop", id), Entity: schemas.EntityKey(entity), Version: schemas.Version{Kind: kind}}, ID: id, Type: of, Source: "/acme/shop"}
	}
	paid, shipped := event("1", "order-1", "order.paid", schemas.Sequence), event("2", "order-1", "order.shipped", schemas.Sequence)
	for name, tt := range map[string]struct {
		filter  ledger.ReplayFilter
		records []ledger.Record
		done    book
		hole    schemas.EntityKey
	}{
		"all of it":                       {ledger.ReplayFilter{}, []ledger.Record{paid, shipped}, nil, ""},
		"one entity":                      {ledger.ReplayFilter{Entity: "order-1"}, []ledger.Record{paid, shipped, event("3", "order-2", "order.paid", schemas.Sequence)}, nil, ""},
		"one type of an entity":           {ledger.ReplayFilter{Types: []string{"*.shipped"}}, []ledger.Record{paid, shipped}, nil, "order-1"},
		"what is left out ran":            {ledger.ReplayFilter{Types: []string{"*.shipped"}}, []ledger.Record{paid, shipped}, book{"1"}, ""},
		"what is wanted ran":              {ledger.ReplayFilter{Types: []string{"*.shipped"}}, []ledger.Record{paid, shipped}, book{"2"}, ""},
		"types of other entities":         {ledger.ReplayFilter{Types: []string{"order.*"}}, []ledger.Record{paid, shipped, event("3", "invoice-1", "invoice.sent", schemas.Sequence)}, nil, ""},
		"another entity than that narrow": {ledger.ReplayFilter{Entity: "order-2", Types: []string{"*.shipped"}}, []ledger.Record{paid, shipped}, nil, ""},
		"versions that need not follow":   {ledger.ReplayFilter{Types: []string{"*.shipped"}}, []ledger.Record{event("1", "e", "order.paid", schemas.Timestamp), event("2", "e", "order.shipped", schemas.Timestamp)}, nil, ""},
		"one event of an entity":          {ledger.ReplayFilter{Events: []ledger.ReplayEvent{{Source: "/acme/shop", ID: "2"}}}, []ledger.Record{paid, shipped}, nil, "order-1"},
		"undecided ones":                  {ledger.ReplayFilter{Decisions: []gate.Decision{ledger.Undecided}}, []ledger.Record{paid, shipped}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &inbox.Replay{Filter: tt.filter, Bounds: make([]inbox.ReplayBounds, 1)}
			if err := newCounter(tt.done, r).add(t.Context(), 0, tt.records, 2); err != nil || r.Counts.Hole != tt.hole || r.Bounds[0].Counted != 2 {
				t.Errorf("%q %v", r.Counts.Hole, err)
			}
			if tt.filter.Types != nil && r.Counts.Records > 2 {
				t.Errorf("%d records are wanted: what is asked for is counted", r.Counts.Records)
			}
		})
	}
}

// What never ran runs by a fill, what ran by a replay that runs again, nothing by a shadow; and only a fill can leave a hole.
func TestCountsByMode(t *testing.T) {
	t.Parallel()
	event := func(id, of string, filtered bool) ledger.Record {
		return ledger.Record{Record: gate.Record{Entity: "e", Version: schemas.Version{Kind: schemas.Sequence}, Filtered: filtered}, ID: id, Type: of, Source: "/acme/shop"}
	}
	records := []ledger.Record{event("1", "order.paid", false), event("2", "order.paid", false), event("3", "order.paid", false), event("4", "order.paid", true), event("5", "order.shipped", false)}
	for mode, want := range map[ledger.ReplayMode]struct {
		runs int64
		hole schemas.EntityKey
	}{ledger.ReplayFill: {1, "e"}, ledger.ReplayReprocess: {2, ""}, ledger.ReplayShadow: {0, ""}} {
		r := &inbox.Replay{Mode: mode, Filter: ledger.ReplayFilter{Types: []string{"order.paid"}}, Bounds: make([]inbox.ReplayBounds, 1)}
		err := newCounter(book{"1", "2", "4"}, r).add(t.Context(), 0, records, 2)
		if err != nil || r.Counts.Runs != want.runs || r.Counts.Records != 4 || r.Counts.Hole != want.hole {
			t.Errorf("%s: %+v %v", mode, r.Counts, err)
		}
	}
}

// A plan of a status counts what has it.
func TestCountsByStatus(t *testing.T) {
	t.Parallel()
	event := func(id string) ledger.Record {
		return ledger.Record{Record: gate.Record{Entity: "e", Version: schemas.Version{Kind: schemas.Sequence}}, ID: id, Type: "order.paid", Source: "/acme/shop"}
	}
	for status, want := range map[string]int64{"done": 2, "discarded": 0} {
		r := &inbox.Replay{Mode: ledger.ReplayReprocess, Filter: ledger.ReplayFilter{Statuses: []string{status}}, Bounds: make([]inbox.ReplayBounds, 1)}
		err := newCounter(book{"1", "2"}, r).add(t.Context(), 0, []ledger.Record{event("1"), event("2"), event("3")}, 3)
		if err != nil || r.Counts.Records != want || r.Counts.Runs != want {
			t.Errorf("%s: %+v %v", status, r.Counts, err)
		}
	}
}
