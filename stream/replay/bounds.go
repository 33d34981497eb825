package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
)

// Skew is how far the clocks of the brokers, which date records, and of the database, which dates decisions, may differ.
const Skew = 5 * time.Minute

// Query says which part of the log is to be replayed: by time, or by offset.
type Query struct {
	Subscription string   // "<team>.<subscription>"
	Topics       []string // of the subscription, as far as they are wanted
	// Since and Until bound the append time of the records. Zero is the log's start, and where the subscription stands.
	Since, Until time.Time
	// Offsets bounds partitions by offset, by topic and partition; only these are replayed. With it, Since and Until are zero.
	Offsets map[reader.TopicPartition]Offsets
}

// Offsets is a range of offsets, [From, To); -1 is the log's start, and where the subscription stands.
type Offsets struct{ From, To int64 }

// Log is what a plan asks of the log; [reader.Log] has it.
type Log interface {
	Topic(ctx context.Context, name string) (reader.Topic, error)
	Start(ctx context.Context, at reader.TopicPartition) (int64, error)
	StableEnd(ctx context.Context, at reader.TopicPartition) (int64, error)
	OffsetAfter(ctx context.Context, at reader.TopicPartition, when time.Time) (int64, error)
	AppendTime(ctx context.Context, p ledger.Partition, offset int64) (time.Time, error)
	Keeps(ctx context.Context, topic string, long time.Duration) (bool, error)
}

// Bounds finds the range in each partition. What it refuses is of kind Invalid, Conflict or NotFound, and says what to do.
func Bounds(ctx context.Context, log Log, positions []inbox.Position, q Query) (bounds []inbox.ReplayBounds, err error) {
	op := "plan a replay of " + q.Subscription
	if q.Until.After(time.Now()) {
		return nil, schemas.Errorf(schemas.Invalid, op, "--until %s is in the future: leave it out, and the range ends where the subscription stands", q.Until.UTC().Format(time.RFC3339))
	}
	if !q.Since.IsZero() && !q.Until.IsZero() && !q.Since.Before(q.Until) {
		return nil, schemas.Errorf(schemas.Invalid, op, "--since %s is not before --until %s", q.Since.UTC().Format(time.RFC3339), q.Until.UTC().Format(time.RFC3339))
	}
	named := 0
	var there []string // the topics, with how many partitions each has
	for _, topic := range q.Topics {
		now, err := log.Topic(ctx, topic)
		if err != nil {
			return nil, schemas.Errorf(schemas.Unavailable, op, "%w", err)
		}
		there = append(there, fmt.Sprintf("%s (0 to %d)", topic, now.Partitions-1))
		keeps := sync.OnceValues(func() (bool, error) { return log.Keeps(ctx, topic, time.Since(q.Since)) })
		for number := range now.Partitions {
			b := bounder{log: log, keeps: keeps, op: op, q: q, at: reader.TopicPartition{Topic: topic, Number: number}, topic: now}
			if q.Offsets != nil {
				if _, ok := q.Offsets[b.at]; !ok {
					continue
				}
				named++
			}
			found, err := b.bounds(ctx, positions)
			if err != nil {
				return nil, err
			}
			bounds = append(bounds, found)
		}
	}
	if named < len(q.Offsets) {
		return nil, schemas.Errorf(schemas.Invalid, op, "an offset is of a partition that is none of %s; write it as TOPIC/PARTITION=OFFSET", strings.Join(there, ", "))
	}
	if !slices.ContainsFunc(bounds, func(b inbox.ReplayBounds) bool { return b.From < b.To }) {
		return nil, schemas.Errorf(schemas.Invalid, op, "the range is empty: nothing lies in it that the subscription has passed")
	}
	return bounds, nil
}

// bounder finds the range in one partition.
type bounder struct {
	log        Log
	keeps      func() (bool, error) // whether the topic has kept all since Since, by its settings
	op         string
	q          Query
	at         reader.TopicPartition
	topic      reader.Topic
	start, end int64      // of the log
	next       int64      // where the subscription stands
	copied     *time.Time // as in inbox.Position
}

func (b bounder) refuse(kind schemas.Kind, format string, args ...any) error {
	return schemas.Errorf(kind, b.op, "%s/%d: %s", b.at.Topic, b.at.Number, fmt.Sprintf(format, args...))
}

// bounds returns what a replay reads of one partition: the offsets from From up to To, by the offsets or times that were given. Counted says up to
// where its records are counted: nothing yet, or all of an empty range. b is a copy: what is set in it is for the functions that it calls.
func (b bounder) bounds(ctx context.Context, positions []inbox.Position) (inbox.ReplayBounds, error) {
	i := slices.IndexFunc(positions, func(p inbox.Position) bool {
		return p.Topic == b.at.Topic && p.TopicID == b.topic.ID && p.Partition == b.at.Number
	})
	if i < 0 {
		return inbox.ReplayBounds{}, b.refuse(schemas.Conflict, "the subscription has not read this partition of the topic as it is now; wait until it runs (`forebay subscriptions get %s`)", b.q.Subscription)
	}
	at := positions[i]
	b.next, b.copied = at.Next, at.Copied
	out := inbox.ReplayBounds{Fence: at.Fence, Topic: at.Topic, TopicID: inbox.TopicIDText(at.TopicID), Partition: at.Partition, Partitions: b.topic.Partitions}
	var err error
	if b.start, err = b.log.Start(ctx, b.at); err == nil {
		b.end, err = b.log.StableEnd(ctx, b.at)
	}
	if err != nil {
		return out, schemas.Errorf(schemas.Unavailable, b.op, "%w", err)
	}
	if b.q.Offsets != nil {
		out.From, out.To, err = b.byOffset(b.q.Offsets[b.at])
	} else {
		out.From, out.To, err = b.byTime(ctx)
	}
	if err != nil || out.From >= out.To {
		out.To = max(out.To, out.From)
		out.Counted = out.To
		return out, err
	}
	out.Counted = out.From
	first, err := b.firstAt(ctx, out.From)
	if !first.IsZero() {
		out.FirstAt = &first
		out.Short = !b.q.Since.IsZero() && out.From == b.start && b.start > 0 && first.Sub(b.q.Since) > time.Second
	}
	return out, err
}

// byOffset returns a range of offsets as it was asked for, or why it cannot be replayed.
func (b bounder) byOffset(o Offsets) (from, to int64, err error) {
	from, to = o.From, o.To
	if from < 0 {
		from = b.start
	}
	if to < 0 {
		to = b.next
	}
	switch {
	case from < b.start:
		return 0, 0, b.refuse(schemas.Invalid, "offset %d is before the log's start %d: retention has deleted it; begin at %d", from, b.start, b.start)
	case max(from, to) > b.end:
		return 0, 0, b.refuse(schemas.Invalid, "offset %d is beyond the log's end %d; a range ends at %d at the latest, where the subscription stands", max(from, to), b.end, b.next)
	case to > b.next:
		return 0, 0, b.refuse(schemas.Invalid, "the subscription stands at %d, and reads by itself what lies behind that; end at %d", b.next, b.next)
	case b.start >= b.next:
		return 0, 0, b.refuse(schemas.Invalid, "the subscription has passed nothing that the log still has of it; leave this partition out")
	case from >= to:
		return 0, 0, b.refuse(schemas.Invalid, "nothing lies between %d and %d; begin at %d to %d, and end behind that", from, to, b.start, b.next-1)
	}
	return from, to, nil
}

// byTime returns the offsets [from, to) between Since and Until, up to the subscription's position; from may lie behind to. A Since of before
// what the log has is refused where retention may have deleted what came since then (a partition that was quiet lacks nothing), by more than the
// second to which that refusal rounds the time that it names, and so is one of before a copy was made: what was read by then is in another topic.
func (b bounder) byTime(ctx context.Context) (from, to int64, err error) {
	from, to = b.start, b.next
	if !b.q.Since.IsZero() {
		if from, err = b.log.OffsetAfter(ctx, b.at, b.q.Since); err != nil {
			return 0, 0, schemas.Errorf(schemas.Unavailable, b.op, "%w", err)
		}
	}
	if !b.q.Since.IsZero() && from == b.start && b.start == 0 && b.copied != nil && b.copied.Sub(b.q.Since) > time.Second {
		return 0, 0, b.refuse(schemas.Invalid, "--since %s is before the topic: `forebay topics rekey` made it on %s, and what was read by then is in the topic before, which no replay reads. "+
			"Begin at that, or leave --since out to begin with what was unread", b.q.Since.UTC().Format(time.RFC3339), b.copied.UTC().Format(time.RFC3339))
	}
	if !b.q.Since.IsZero() && from == b.start && b.start > 0 && b.start < b.end {
		first, err := b.firstAt(ctx, b.start)
		if err != nil {
			return 0, 0, err
		}
		kept := true
		if first.Sub(b.q.Since) > time.Second {
			if kept, err = b.keeps(); err != nil {
				return 0, 0, schemas.Errorf(schemas.Unavailable, b.op, "%w", err)
			}
		}
		if !kept {
			return 0, 0, b.refuse(schemas.Invalid, "--since %s is before the log's start: by the topic's settings retention may have deleted what was there, and the first record is of %s; begin there",
				b.q.Since.UTC().Format(time.RFC3339), first.UTC().Format(time.RFC3339))
		}
	}
	if !b.q.Until.IsZero() {
		until, err := b.log.OffsetAfter(ctx, b.at, b.q.Until)
		if err != nil {
			return 0, 0, schemas.Errorf(schemas.Unavailable, b.op, "%w", err)
		}
		to = min(to, until)
	}
	return from, min(to, b.end), nil
}

func (b bounder) firstAt(ctx context.Context, from int64) (time.Time, error) {
	at, err := b.log.AppendTime(ctx, ledger.Partition{Topic: b.at.Topic, TopicID: b.topic.ID, Number: b.at.Number}, from)
	switch {
	case reader.Unreadable(err):
		return at, schemas.Errorf(schemas.Unavailable, b.op, "%w; to leave out what cannot be read, plan from behind it on (--from-offset %s/%d=OFFSET)", err, b.at.Topic, b.at.Number)
	case err != nil:
		return at, schemas.Errorf(schemas.Unavailable, b.op, "%w", err)
	}
	return at, nil
}

// Check compares a plan with the topics, and with where the subscription stands, as they are now, and returns why it cannot be started.
func Check(ctx context.Context, log Log, topics []string, positions []inbox.Position, bounds []inbox.ReplayBounds) error {
	const op = "start a replay"
	refuse := func(b inbox.ReplayBounds, format string, args ...any) error {
		return schemas.Errorf(schemas.Conflict, op, "%s/%d: %s; plan it again", b.Topic, b.Partition, fmt.Sprintf(format, args...))
	}
	for _, b := range bounds {
		if !slices.Contains(topics, b.Topic) {
			return refuse(b, "the subscription does not read this topic any more")
		}
		now, err := log.Topic(ctx, b.Topic)
		if err != nil {
			return schemas.Errorf(schemas.Unavailable, op, "%w", err)
		}
		if inbox.TopicIDText(now.ID) != b.TopicID {
			return refuse(b, "the topic was created again since the plan was made, and its offsets are those of the topic before")
		}
		if now.Partitions != b.Partitions {
			return refuse(b, "the topic had %d partitions when the plan was made, and has %d now (`forebay topics rekey`)", b.Partitions, now.Partitions)
		}
		if b.From >= b.To {
			continue
		}
		i := slices.IndexFunc(positions, func(p inbox.Position) bool { return p.Fence == b.Fence })
		if i < 0 {
			return refuse(b, "the subscription does not stand in this partition any more")
		}
		if at := positions[i].Next; at < b.To {
			return refuse(b, "the subscription was moved back since the plan was made: it stands at %d and reads by itself what the plan has up to %d", at, b.To)
		}
		start, err := log.Start(ctx, reader.TopicPartition{Topic: b.Topic, Number: b.Partition})
		if err != nil {
			return schemas.Errorf(schemas.Unavailable, op, "%w", err)
		}
		if start > b.From {
			return refuse(b, "the log begins at %d by now, behind the plan's %d: retention has deleted records of it", start, b.From)
		}
	}
	return nil
}
