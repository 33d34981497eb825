package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

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
	open := make([]*inbox.Standing, len(gone))
	for i, o := range gone {
		open[i] = &inbox.Standing{Fence: o.Fence}
	}
	if err := box.CountOpen(ctx, open); err != nil {
		return nil, err
	}
	left := map[partitionKey]string{}
	for i, o := range gone {
		if what := leftText(unread(o.Topic, o.Partition, o.Next), open[i].Counts); what != "" {
			left[partitionKey{subscriptionOf(o.Subscription), o.Topic, o.Partition}] = what
		}
	}
	return left, nil
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

// leftText says what was left in a partition; empty: nothing. What is open may not have been counted.
func leftText(unread int64, open *inbox.Counts) string {
	var what []string
	if unread > 0 {
		what = append(what, fmt.Sprintf("%d records are unread", unread))
	}
	if open != nil && open.Open+open.Tried+open.Waiting > 0 {
		what = append(what, fmt.Sprintf("%d actions are open and %d events wait", open.Open+open.Tried, open.Waiting))
	}
	if len(what) == 0 {
		return ""
	}
	return "the file has no source with this topic for the subscription any more, so nobody reads it, and " + strings.Join(what, ", ") +
		": write the source and the subscription's use of it again, with this topic, until that is done; or delete the topic, if nobody needs it"
}
