package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/owner"
)

// stateUnread is the state of a partition that nobody reads, beside those of owner.
const stateUnread = "unread"

const (
	// unreadAfter is how long nobody must have had a partition, or the ledger taken nothing: while the group hands partitions over, or Postgres
	// fails over, that is so for moments.
	unreadAfter = 30 * time.Second
	// standsAfter is how long a process must have run before it is not ready for a partition that stands still. One that has just been
	// started is ready first, so that a stop keeps nobody from rolling out what mends it. After that a stop counts from the next look on.
	standsAfter = time.Minute
)

// partitionKey names a partition of a subscription.
type partitionKey struct {
	of     nameInTeam
	topic  string
	number int32
}

// standing is a partition that stands still: it is stopped, or nobody reads it.
type standing struct {
	partitionKey
	state string // owner.Stopped or stateUnread
	mine  bool   // this process has it, or nobody has
	left  bool   // by the file its subscription does not read it any more
	gone  bool   // nor is there that subscription
	stop  *api.StopItem
	why   string
	since time.Time
	seen  time.Time // since when this process sees it stand still
}

// partitions are all partitions of the topics that subscriptions read.
type partitions struct {
	counts   map[nameInTeam]api.PartitionCounts
	standing []standing
}

// partitionFacts are what partitions are judged by.
type partitionFacts struct {
	own     map[partitionKey]owner.PartitionState // what this process has been assigned
	stops   []ledger.Stop                         // of all processes
	claimed map[partitionKey]bool                 // by any process
	counts  map[string]int32                      // how many partitions a topic has; none of one that is not there
	refused map[string]string                     // the right that is missing to look at a topic, in words: whether it is there is not known
	runs    map[nameInTeam]bool                   // whether this process runs a subscription
	left    map[partitionKey]string               // what is left in topics that the file does not have for a subscription any more
}

// readPartitions asks the subscriptions of this process, the ledger and the brokers.
func (s *streams) readPartitions(ctx context.Context, cl *kgo.Client) (f partitionFacts, err error) {
	f.own, f.runs = map[partitionKey]owner.PartitionState{}, map[nameInTeam]bool{}
	s.mu.Lock()
	l := s.ledger
	for at, sub := range s.subs {
		f.runs[at] = true
		for _, p := range sub.Partitions() {
			f.own[partitionKey{at, p.Topic, p.Partition}] = p
		}
	}
	s.mu.Unlock()
	if l == nil {
		return f, schemas.Errorf(schemas.Unavailable, "", "the ledger is not open yet; /readyz says why")
	}
	if f.stops, err = l.Stops(ctx, ledger.StopFilter{}); err != nil {
		return f, err
	}
	box := inbox.New(l)
	owned, err := box.Owned(ctx)
	if err != nil {
		return f, err
	}
	if f.left, err = s.leftBehind(ctx, cl, box, owned); err != nil {
		return f, err
	}
	f.claimed = map[partitionKey]bool{}
	for _, o := range owned {
		f.claimed[partitionKey{subscriptionOf(o.Subscription), o.Topic, o.Partition}] = o.Claimed
	}
	f.counts, f.refused, err = countPartitions(ctx, cl, s.topics())
	return f, err
}

func subscriptionOf(name string) nameInTeam {
	team, sub, _ := strings.Cut(name, ".")
	return nameInTeam{team, sub}
}

// topics returns the topics that the subscriptions of this process read.
func (s *streams) topics() (names []string) {
	for _, of := range s.topicsOf() {
		names = append(names, of...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// countPartitions asks the brokers how many partitions topics have, and which of them this process may not look at. What is not there is left out.
func countPartitions(ctx context.Context, cl *kgo.Client, names []string) (counts map[string]int32, refused map[string]string, err error) {
	counts, refused = map[string]int32{}, map[string]string{}
	if len(names) == 0 {
		return counts, refused, nil
	}
	found, err := record.Topics(ctx, cl, names)
	if err != nil {
		return nil, nil, schemas.Errorf(schemas.Unavailable, "count partitions", "%w", err)
	}
	for name, topic := range found {
		err := record.Lacks(cl, "Describe", "topic "+name, kerr.ErrorForCode(topic.ErrorCode))
		if right, ok := errors.AsType[*record.Right](err); ok {
			refused[name] = right.Lack()
		} else if err == nil {
			counts[name] = int32(len(topic.Partitions))
		}
	}
	return counts, refused, nil
}

// judge says which partitions run, are stopped or unread. A subscription without topics is one that the file has no more. first has since when this process sees a partition stand still, and is brought
// up to now.
func (f partitionFacts) judge(topicsOf map[nameInTeam][]string, first map[partitionKey]time.Time, now time.Time) partitions {
	stops := map[partitionKey]*ledger.Stop{}
	for i := range f.stops {
		if s := &f.stops[i]; s.Generation == 0 {
			stops[partitionKey{subscriptionOf(s.Subscription), s.Partition.Topic, s.Partition.Number}] = s
		}
	}
	out := partitions{counts: map[nameInTeam]api.PartitionCounts{}}
	seen := map[partitionKey]time.Time{}
	for at, topics := range topicsOf {
		var n api.PartitionCounts
		for _, topic := range topics {
			count, gone := f.partitionsOf(at, topic)
			for number := range count {
				key := partitionKey{at, topic, number}
				st, still := f.standstill(key, stops[key], gone)
				if still {
					st.seen = cmp.Or(first[key], now)
					seen[key] = st.seen
					st.since = cmp.Or(st.since, st.seen)
				}
				if n.Total++; st.count(&n, still, f.own[key].State, now) {
					out.standing = append(out.standing, st)
				}
			}
		}
		for key, why := range f.left {
			if key.of != at {
				continue
			}
			st := standing{partitionKey: key, state: stateUnread, left: true, gone: topics == nil, why: why, seen: cmp.Or(first[key], now)}
			st.since, seen[key] = st.seen, st.seen
			if n.Total++; st.count(&n, true, "", now) {
				out.standing = append(out.standing, st)
			}
		}
		out.counts[at] = n
	}
	clear(first)
	maps.Copy(first, seen)
	slices.SortFunc(out.standing, func(a, b standing) int {
		return cmp.Or(cmp.Compare(a.of.team, b.of.team), cmp.Compare(a.of.name, b.of.name), cmp.Compare(a.topic, b.topic), cmp.Compare(a.number, b.number))
	})
	return out
}

// partitionsOf returns how many partitions a topic has for a subscription. Of one that was deleted under it they are those that it had, which are
// gone: a subscription that began without its topic does not run. So they are, and not gone, of one that may not be looked at any more.
func (f partitionFacts) partitionsOf(at nameInTeam, topic string) (count int32, gone bool) {
	count, there := f.counts[topic]
	if there || !f.runs[at] {
		return count, false
	}
	for key := range f.own {
		if key.of == at && key.topic == topic {
			count = max(count, key.number+1)
		}
	}
	for key := range f.claimed {
		if key.of == at && key.topic == topic {
			count = max(count, key.number+1)
		}
	}
	return count, f.refused[topic] == ""
}

// count counts a partition in its state, and reports whether it is one to tell of. One that nobody has had for moments may be on its way from
// one process to another.
func (st *standing) count(n *api.PartitionCounts, still bool, own owner.State, now time.Time) (tell bool) {
	switch {
	case !still:
		if own != owner.Claiming {
			n.Running++
		}
		return false
	case st.state == string(owner.Stopped):
		n.Stopped++
	case st.stop == nil && now.Sub(st.seen) < unreadAfter:
		return false
	default:
		n.Unread++
	}
	return true
}

// standstill says whether a partition stands still, and why. What this process knows of its own partitions counts before what the ledger has;
// gone says that its topic is not there.
func (f partitionFacts) standstill(key partitionKey, stop *ledger.Stop, gone bool) (st standing, still bool) {
	st = standing{partitionKey: key, state: string(owner.Stopped), mine: true}
	own, isOwn := f.own[key]
	switch {
	case isOwn && own.State == owner.Stopped:
		st.stop = stopOf(own.Err)
		st.why = fmt.Sprint(own.Err)
		if st.stop != nil && st.stop.FoundAt != nil {
			st.since = *st.stop.FoundAt
		}
		if isNew(own) {
			st.state, st.why = stateUnread, "the topic has grown, and nobody reads its new partitions: "+st.why
		}
	case gone && stop == nil:
		st.state, st.why = stateUnread, "its topic is not there any more: `forebay topics apply` makes it again, empty; what was in it is lost, and the partition then says what to accept"
	case isOwn && own.State == owner.Claiming && own.Err != nil:
		st.state, st.why = stateUnread, fmt.Sprintf("it cannot be claimed: %v", own.Err)
	case isOwn:
		return st, false
	case stop != nil:
		item := stopItem(*stop)
		st.stop, st.why, st.mine, st.since = &item, item.Text, false, stop.FoundAt.UTC()
	case f.claimed[key]:
		return st, false
	case f.refused[key.topic] != "":
		st.state, st.why = stateUnread, "nobody can read it: "+f.refused[key.topic]+"; `forebay acls export` prints what each role needs"
	default:
		st.state, st.why = stateUnread, "no process has claimed it: start one that runs its subscription, and restart processes that still have an older configuration"
	}
	return st, true
}

// isNew reports whether a partition is stopped because its topic did not have it before: then nobody ever read it.
func isNew(p owner.PartitionState) bool {
	stop := stopOf(p.Err)
	return stop != nil && stop.Kind == string(owner.StopPartitions) && int64(p.Partition) >= stop.FromOffset
}

// fileFlags returns the flags by which a command finds the file, and where dev has its servers.
func (c Config) fileFlags() string {
	if c.Data == "" {
		return "-c " + quoted(c.Path)
	}
	return "-c " + quoted(c.Path) + " --data " + quoted(c.Data)
}

// command returns the command that lets a partition go on, or says why it does not. flags name the file.
func (st *standing) command(flags string) string {
	if st.stop != nil && st.stop.Command != "" {
		return strings.Replace(st.stop.Command, "-c FILE", flags, 1)
	}
	if st.gone {
		return fmt.Sprintf("forebay inbox list --subscription %s.%s", st.of.team, st.of.name)
	}
	return fmt.Sprintf("forebay subscriptions get %s.%s", st.of.team, st.of.name)
}

// reason returns in a word why a partition stands still.
func (st *standing) reason() string {
	switch {
	case st.stop != nil:
		return st.stop.Kind
	case st.left:
		return reasonLeft
	}
	return ""
}
