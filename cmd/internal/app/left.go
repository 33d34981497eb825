package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
)

// reasonLeft is why a partition is unread of a topic that its subscription has no more by the file, or that is the subscription's which the file has no more.
const reasonLeft = "left"

// isGone reports whether the file has a subscription no more. What the process has left out of a team is not gone.
func isGone(file *config.Config, at nameInTeam) bool {
	t := file.Teams[at.team]
	return (t == nil || t.Subscriptions[at.name] == nil) && !file.LeftOut(at.team)
}

// leave has the ledger know which subscriptions are gone from the file: nobody else would say that their topics are left.
func (s *streams) leave(ctx context.Context, l *ledger.Ledger) {
	names, _, err := inbox.New(l).Names(ctx)
	for _, name := range names {
		if ctx.Err() == nil && isGone(s.a.file(), subscriptionOf(name)) {
			err = errors.Join(err, l.LeaveAll(ctx, name)) // one that fails stops no other
		}
	}
	if err != nil && ctx.Err() == nil {
		s.a.log.Warn("could not record which subscriptions are gone; their dedupe windows are kept longer until that works; trying again", "error", err)
	}
}

// leftBehind returns the partitions of topics that subscriptions have read and have no more by the file, or that are of subscriptions which it has no
// more, and that nobody has, where something was left: what is open or waits in the ledger, and what is unread. A topic that a source still has goes on
// growing: what of it was meant for a subscription that is gone came before it had gone, and of one that is there nobody can tell that.
// What was handed over to a copy was not left, and a topic that was deleted is nobody's concern any more, nor is one that this process may not look at
// any more, as its team's rights went with it: that holds up no other team.
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
	names = slices.DeleteFunc(names, func(name string) bool { return there[name].ErrorCode != 0 })
	adm, ends, asked := kadm.NewClient(cl), make([]int64, len(gone)), map[topicThen]kadm.ListedOffsets{}
	unread, err := unreadOf(ctx, adm, names)
	for i := range gone {
		if ends[i] = math.MaxInt64; err == nil && s.writes(gone[i].Topic) {
			ends[i] = s.leftEnd(ctx, adm, asked, &gone[i])
		}
	}
	if err != nil {
		return nil, schemas.Errorf(schemas.Unavailable, "list offsets of topics that were left", "%w", err)
	}
	open, err := s.leftOpen.count(ctx, box, gone)
	if err != nil {
		return nil, err
	}
	left := map[partitionKey]string{}
	for i, o := range gone {
		at := subscriptionOf(o.Subscription)
		if what := leftText(unread(o.Topic, o.Partition, o.Next, ends[i]), open[leftAt{o.Fence, o.Next}].counts); what != "" {
			left[partitionKey{at, o.Topic, o.Partition}] = leftAdvice(s.a.file(), at, what)
		}
	}
	return left, nil
}

// leftKept is how long a count of what is open in a partition that was left is good for, or that there was none in time: nobody writes there, and the
// most is to be counted where most was left.
const leftKept = 5 * time.Minute

// leftOpen keeps what is open in partitions that were left, and where topics ended when they were.
type leftOpen struct {
	mu   sync.Mutex
	of   map[leftAt]leftCount
	ends map[topicThen]kadm.ListedOffsets
}

// topicThen is a topic at a time, in milliseconds.
type topicThen struct {
	id    [16]byte
	milli int64
}

// leftEnd returns where a partition ended when its subscription was gone from the file; 0: it is not, or nobody knows yet. asked is what this look has
// asked: a topic is asked about once.
func (s *streams) leftEnd(ctx context.Context, adm *kadm.Client, asked map[topicThen]kadm.ListedOffsets, o *inbox.Owned) int64 {
	if o.Left == nil || !isGone(s.a.file(), subscriptionOf(o.Subscription)) {
		return 0
	}
	l, then := &s.leftOpen, topicThen{o.TopicID, o.Left.UnixMilli()}
	l.mu.Lock()
	defer l.mu.Unlock()
	ends, ok := l.ends[then]
	if !ok {
		ends, ok = asked[then]
	}
	if !ok {
		var err error
		ends, err = adm.ListOffsetsAfterMilli(ctx, then.milli, o.Topic)
		asked[then] = ends
		if err == nil && ends.Error() == nil { // else the next look asks again, and this one holds up no other topic
			if l.ends == nil {
				l.ends = map[topicThen]kadm.ListedOffsets{}
			}
			l.ends[then] = ends // what is over stays so
		}
	}
	if end, _ := ends.Lookup(o.Topic, o.Partition); end.Err == nil {
		return end.Offset
	}
	return 0
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

// notRead returns the partitions that a subscription of this process's ledger has no more by the file, or whose subscription is gone from it, and that
// nobody has, with their topics.
func (s *streams) notRead(owned []inbox.Owned) (list []inbox.Owned, topics []string) {
	reads, file := s.topicsOf(), s.a.file()
	for _, o := range owned {
		at := subscriptionOf(o.Subscription)
		now, runs := reads[at]
		if (runs || isGone(file, at)) && !o.Moved && (!o.Claimed || o.Left != nil) && !slices.Contains(now, o.Topic) {
			list, topics = append(list, o), append(topics, o.Topic)
		}
	}
	slices.Sort(topics)
	return list, slices.Compact(topics)
}

// writes reports whether a source of the file has a topic.
func (s *streams) writes(topic string) bool {
	_, ok := s.a.file().SourceOfTopic(topic)
	return ok
}

// unreadOf asks the brokers for the bounds of topics, and returns how many records a partition of them has from a position on, and before
// another.
func unreadOf(ctx context.Context, adm *kadm.Client, topics []string) (func(topic string, number int32, next, until int64) int64, error) {
	if len(topics) == 0 { // the client would ask for all
		return func(string, int32, int64, int64) int64 { return 0 }, nil
	}
	starts, err := adm.ListStartOffsets(ctx, topics...)
	if err != nil {
		return nil, err
	}
	ends, err := adm.ListCommittedOffsets(ctx, topics...)
	return func(topic string, number int32, next, until int64) int64 {
		start, _ := starts.Lookup(topic, number)
		end, _ := ends.Lookup(topic, number)
		return max(0, min(end.Offset, until)-max(start.Offset, next))
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
	return strings.Join(what, ", ")
}

// leftAdvice says why nobody reads what was left, and what to do.
func leftAdvice(file *config.Config, at nameInTeam, what string) string {
	if isGone(file, at) {
		return fmt.Sprintf("the file has no subscription %s.%s any more, so nobody reads it for that, and %s: write the subscription again, under this name, until that is done, since one of another name "+
			"has none of it; or, to give it up, with `when: \"false\"` at its actions, which runs nothing; what is dead of it, `forebay dlq discard` gives up", at.team, at.name, what)
	}
	return "the file has no source with this topic for the subscription any more, so nobody reads it, and " + what +
		": write the source and the subscription's use of it again, with this topic, until that is done; or delete the topic, if nobody needs it"
}
