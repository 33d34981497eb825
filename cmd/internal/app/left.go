package app

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/inbox"
)

// reasonLeft is why a partition is unread of a topic that its subscription has no more by the file.
const reasonLeft = "left"

// leftBehind returns the partitions of topics that subscriptions have read and have no more by the file, and that nobody has, where something was left:
// what is open or waits in the ledger and, if no source has the topic, what is unread in it. A topic that another source or subscription still has
// goes on growing, and nobody can tell what of it was meant for who left. What was handed over to a copy was not left, and a topic that was deleted
// is nobody's concern any more, nor is one that this process may not look at any more, as its team's rights went with it: that holds up no other team.
func (s *streams) leftBehind(ctx context.Context, cl *kgo.Client, box *inbox.Inbox, owned []inbox.Owned) (map[partitionKey]string, error) {
	gone, names := s.notRead(owned)
	if len(gone) == 0 {
		return nil, nil
	}
	there, err := record.Topics(ctx, cl, names)
	if err != nil {
		return nil, schemas.Errorf(schemas.Unavailable, "list topics that were left", "%w", err)
	}
	gone = slices.DeleteFunc(gone, func(o inbox.Owned) bool { return there[o.Topic].TopicID != o.TopicID })
	names = slices.DeleteFunc(names, func(name string) bool { return there[name].ErrorCode != 0 || s.writes(name) })
	unread, err := unreadOf(ctx, kadm.NewClient(cl), names)
	if err != nil {
		return nil, schemas.Errorf(schemas.Unavailable, "list offsets of topics that were left", "%w", err)
	}
	open, err := s.leftOpen.count(ctx, box, gone)
	if err != nil {
		return nil, err
	}
	left := map[partitionKey]string{}
	for _, o := range gone {
		if what := leftText(unread(o.Topic, o.Partition, o.Next), open[leftAt{o.Fence, o.Next}].counts); what != "" {
			left[partitionKey{subscriptionOf(o.Subscription), o.Topic, o.Partition}] = what
		}
	}
	return left, nil
}

// leftKept is how long a count of what is open in a partition that was left is good for, or that there was none in time: nobody writes there, and the
// most is to be counted where most was left.
const leftKept = 5 * time.Minute

// leftOpen keeps what is open in partitions that were left.
type leftOpen struct {
	mu sync.Mutex
	of map[leftAt]leftCount
}

// leftAt is a partition as it was left: one that was read again has another position.
type leftAt struct {
	fence int32
	next  int64
}

type leftCount struct {
	counts *inbox.Counts // nil: not counted yet
	at     time.Time     // of the count, or of the last try
}

// count returns what is open in partitions that were left. It counts one subscription after the other, until one takes too long.
func (l *leftOpen) count(ctx context.Context, box *inbox.Inbox, gone []inbox.Owned) (map[leftAt]leftCount, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of, ask := map[leftAt]leftCount{}, map[string][]*inbox.Standing{}
	for _, o := range gone {
		at := leftAt{o.Fence, o.Next}
		if of[at] = l.of[at]; time.Since(of[at].at) >= leftKept {
			ask[o.Subscription] = append(ask[o.Subscription], &inbox.Standing{Fence: o.Fence, Next: &o.Next})
		}
	}
	l.of = of // without what was left no more
	for slow, names := false, slices.Sorted(maps.Keys(ask)); !slow && len(names) > 0; names = names[1:] {
		list := ask[names[0]]
		if err := box.CountOpen(ctx, list); err != nil {
			return nil, err
		}
		for _, st := range list {
			at := leftAt{st.Fence, *st.Next}
			slow = slow || st.Counts == nil
			of[at] = leftCount{cmp.Or(st.Counts, of[at].counts), time.Now()}
		}
	}
	return maps.Clone(of), nil
}

// notRead returns the partitions that a subscription of this process's ledger has no more by the file, and that nobody has, with their topics.
func (s *streams) notRead(owned []inbox.Owned) (list []inbox.Owned, topics []string) {
	reads := s.topicsOf()
	for _, o := range owned {
		now, runs := reads[subscriptionOf(o.Subscription)]
		if runs && !o.Moved && (!o.Claimed || o.Left) && !slices.Contains(now, o.Topic) {
			list, topics = append(list, o), append(topics, o.Topic)
		}
	}
	slices.Sort(topics)
	return list, slices.Compact(topics)
}

// writes reports whether a source of the file has a topic.
func (s *streams) writes(topic string) bool {
	for _, t := range s.a.file().Teams {
		for _, source := range t.Sources {
			if source.Topic == topic {
				return true
			}
		}
	}
	return false
}

// unreadOf asks the brokers for the bounds of topics, and returns how many records a partition of them has from a position on.
func unreadOf(ctx context.Context, adm *kadm.Client, topics []string) (func(topic string, number int32, next int64) int64, error) {
	if len(topics) == 0 { // the client would ask for all
		return func(string, int32, int64) int64 { return 0 }, nil
	}
	starts, err := adm.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	ends, err := adm.ListCommittedOffsets(ctx, topics...)
	return func(topic string, number int32, next int64) int64 {
		start, _ := starts.Lookup(topic, number)
		end, _ := ends.Lookup(topic, number)
		return max(0, end.Offset-max(start.Offset, next))
	}, err
}

// leftText says what was left in a partition; empty: nothing. What is open may not have been counted, which is not to say that it is nothing.
func leftText(unread int64, open *inbox.Counts) string {
	var what []string
	if unread > 0 {
		what = append(what, fmt.Sprintf("%d records are unread", unread))
	}
	switch {
	case open == nil:
		what = append(what, "what is open could not be counted")
	case open.Open+open.Tried+open.Waiting > 0:
		what = append(what, fmt.Sprintf("%d actions are open and %d events wait", open.Open+open.Tried, open.Waiting))
	}
	if len(what) == 0 {
		return ""
	}
	return "the file has no source with this topic for the subscription any more, so nobody reads it, and " + strings.Join(what, ", ") +
		": write the source and the subscription's use of it again, with this topic, until that is done; or delete the topic, if nobody needs it"
}
