package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/owner"
	"github.com/forebay-io/forebay/stream/reader"
)

// steeringAPI answers where subscriptions stand. It asks the ledger and the brokers, not the owners of partitions: so it answers for
// partitions of other processes, and for those that nobody has.
type steeringAPI struct{ a *App }

// partitionPosition is where a subscription stands in one partition, by the brokers and by the ledger.
type partitionPosition struct {
	partition  ledger.Partition
	start, end int64           // of the log; end is that of what is committed
	written    int64           // the end with what is behind a transaction that is open
	mirror     *int64          // the group's commit; nil: there is none
	ledger     *inbox.Standing // nil: the ledger knows nothing of this partition of this topic
	former     bool            // the ledger knows the topic by another id: it was created again
}

// position returns the next offset to decide; nil if the partition was never claimed.
func (s *partitionPosition) position() *int64 {
	if s.ledger == nil {
		return nil
	}
	return s.ledger.Next
}

// from returns the first offset that is still to be decided and that the log has. Before the first claim that is the begin. ok is false if
// nobody knows it yet.
func (s *partitionPosition) from() (offset int64, ok bool) {
	switch {
	case s.ledger == nil:
		return 0, false
	case s.ledger.Next != nil:
		return max(*s.ledger.Next, s.start), true
	case s.ledger.Begin != nil:
		return max(*s.ledger.Begin, s.start), true
	}
	return 0, false
}

// asker is a client for the questions of one answer.
type asker struct {
	cl  *kgo.Client
	adm *kadm.Client
	log *reader.Log
}

func (s *streams) asker() (*asker, error) {
	opts, err := reader.ClientOptions(reader.Config{Client: KafkaOptions(s.a.file(), config.RoleStream), BatchBytes: 1 << 20, MaxRecordBytes: s.recordBytes()})
	if err != nil {
		return nil, err
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	return &asker{cl: cl, adm: kadm.NewClient(cl), log: reader.NewLog(cl)}, nil
}

// positions reads where a subscription stands in all partitions of its topics. A topic that is not there is an error.
func (s *steeringAPI) positions(ctx context.Context, b *asker, at nameInTeam) ([]partitionPosition, error) {
	l, err := s.a.stream.openLedger()
	if err != nil {
		return nil, err
	}
	group := at.team + "." + at.name
	known, err := inbox.New(l).Standings(ctx, group)
	if err != nil {
		return nil, err
	}
	var out []partitionPosition
	for _, topic := range s.a.stream.topicsOf()[at] {
		of, err := b.topic(ctx, topic, group)
		if err != nil {
			return nil, schemas.Errorf(schemas.Unavailable, "ask the brokers", "%w", err)
		}
		for i := range of {
			of[i].know(known)
		}
		out = append(out, of...)
	}
	return out, nil
}

// countOpen counts what is open in partitions, and since when. Where that takes too long, it is not known.
func (s *steeringAPI) countOpen(ctx context.Context, positions []partitionPosition) error {
	l, err := s.a.stream.openLedger()
	if err != nil {
		return err
	}
	var known []*inbox.Standing
	for i := range positions {
		if k := positions[i].ledger; k != nil {
			known = append(known, k)
		}
	}
	box := inbox.New(l)
	return errors.Join(box.CountOpen(ctx, known), box.OldestOpen(ctx, known))
}

// topic asks for the log's bounds and the group's commits of a topic.
func (b *asker) topic(ctx context.Context, topic, group string) ([]partitionPosition, error) {
	t, err := b.log.Topic(ctx, topic)
	if err != nil {
		return nil, err
	}
	starts, err := b.adm.ListStartOffsets(ctx, topic)
	if err = cmp.Or(err, starts.Error()); err != nil {
		return nil, err
	}
	all, err := b.adm.ListEndOffsets(ctx, topic) // before the committed ends: what comes in between is no transaction that is open
	if err = cmp.Or(err, all.Error()); err != nil {
		return nil, err
	}
	ends, err := b.adm.ListCommittedOffsets(ctx, topic)
	if err = cmp.Or(err, ends.Error()); err != nil {
		return nil, err
	}
	commits, err := b.adm.FetchOffsetsForTopics(ctx, group, topic)
	if err != nil {
		commits = nil // a group that never was, as a rule: what cannot be told is null
	}
	out := make([]partitionPosition, t.Partitions)
	for n := range t.Partitions {
		start, _ := starts.Lookup(topic, n)
		end, _ := ends.Lookup(topic, n)
		written, _ := all.Lookup(topic, n)
		out[n] = partitionPosition{partition: ledger.Partition{Topic: topic, TopicID: t.ID, Number: n}, start: start.Offset, end: end.Offset, written: max(written.Offset, end.Offset)}
		if o, ok := commits.Lookup(topic, n); ok && o.Err == nil && o.At >= 0 {
			out[n].mirror = &o.At
		}
	}
	return out, nil
}

// know adds what the ledger knows of the partition.
func (s *partitionPosition) know(known []inbox.Standing) {
	for i := range known {
		k := &known[i]
		switch {
		case k.Topic != s.partition.Topic || k.Partition != s.partition.Number:
		case ledger.TopicID(k.TopicID) == s.partition.TopicID:
			s.ledger, s.former = k, false
			return
		case k.Fence != 0:
			s.former = true
		}
	}
}

// configured refuses a subscription that is not in the file, or whose ledger is not this process's.
func (s *steeringAPI) configured(at nameInTeam) error {
	if err := s.a.here(at); err != nil {
		return err
	}
	if _, ok := s.a.stream.topicsOf()[at]; !ok {
		return schemas.Errorf(schemas.NotFound, "", "no subscription %s.%s is configured; `forebay subscriptions list -o id` lists them", at.team, at.name)
	}
	return nil
}

// Lag returns how far a subscription is behind in each of its partitions.
func (s *steeringAPI) Lag(ctx context.Context, team, name string) ([]api.LagItem, error) {
	at := nameInTeam{team, name}
	if err := s.configured(at); err != nil {
		return nil, err
	}
	b, err := s.a.stream.asker()
	if err != nil {
		return nil, err
	}
	defer b.cl.Close()
	positions, err := s.positions(ctx, b, at)
	if err != nil {
		return nil, err
	}
	if err := s.countOpen(ctx, positions); err != nil {
		return nil, err
	}
	states := s.states(ctx, at)
	items := make([]api.LagItem, len(positions))
	for i := range positions {
		items[i] = positions[i].lag(at)
		items[i].State, items[i].Detail = states.of(at, &positions[i])
	}
	b.addAges(ctx, positions, items)
	return items, nil
}

// lag returns the item without its state and age.
func (s *partitionPosition) lag(at nameInTeam) api.LagItem {
	i := api.LagItem{Team: at.team, Subscription: at.name, Topic: s.partition.Topic, Partition: s.partition.Number,
		LogStart: s.start, LogEnd: s.written, Position: s.position(), Mirror: s.mirror}
	if s.ledger != nil {
		i.Owner = s.ledger.Owner
	}
	if from, ok := s.from(); ok {
		i.Records = new(max(0, s.written-from))
	}
	switch {
	case s.position() == nil:
		i.OpenSeconds = new(0.0)
	case s.ledger.Oldest != nil:
		if i.OpenSeconds = new(0.0); !s.ledger.Oldest.IsZero() {
			*i.OpenSeconds = max(0, time.Since(*s.ledger.Oldest).Seconds())
		}
	}
	if n := s.counts(); n != nil {
		i.OpenActions, i.Waiting = new(n.Open+n.Tried), &n.Waiting
	}
	return i
}

// counts returns how much is open; nil if it was not counted.
func (s *partitionPosition) counts() *inbox.Counts {
	if s.position() == nil {
		return &inbox.Counts{}
	}
	return s.ledger.Counts
}

const (
	agesAtOnce = 8               // partitions whose oldest record is read at the same time
	agesWithin = 5 * time.Second // for all of them: what is not read by then is not known
)

// addAges reads the oldest record that is not decided of each partition that has one.
func (b *asker) addAges(ctx context.Context, positions []partitionPosition, items []api.LagItem) {
	ctx, cancel := context.WithTimeout(ctx, agesWithin)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(agesAtOnce)
	for i := range positions {
		from, known := positions[i].from()
		switch {
		case !known:
		case from >= positions[i].written:
			items[i].Seconds = new(0.0)
		case from >= positions[i].end: // a record that cannot be read yet
		default:
			g.Go(func() error {
				if when, err := b.log.AppendTime(ctx, positions[i].partition, from); err == nil && !when.IsZero() {
					items[i].OldestAt, items[i].Seconds = new(when.UTC()), new(max(0, time.Since(when).Seconds()))
				}
				return nil
			})
		}
	}
	_ = g.Wait()
}

// partitionStates are what is known of partitions' states: by this process of its own, by the last look of all.
type partitionStates struct {
	own      map[partitionKey]owner.PartitionState
	standing []standing
	paused   *ledger.Pause // of the subscription; nil: it is not paused
	by       string        // the name of the widest pause that stands
}

// states looks at the states of a subscription's partitions. Those that no look has found yet, or that the brokers do not tell, are left out.
func (s *steeringAPI) states(ctx context.Context, at nameInTeam) partitionStates {
	out := partitionStates{own: map[partitionKey]owner.PartitionState{}, paused: s.a.stream.pauses.of(at).Paused, by: s.a.stream.pauses.by(at)}
	s.a.stream.mu.Lock()
	sub := s.a.stream.subs[at]
	s.a.stream.mu.Unlock()
	if sub != nil {
		for _, p := range sub.Partitions() {
			out.own[partitionKey{at, p.Topic, p.Partition}] = p
		}
	}
	seen, err := s.a.waits.look(ctx, attentionKept)
	if err != nil {
		seen = s.a.waits.seen()
	}
	out.standing = seen.partitions.standing
	return out
}

// statePaused is the state of a partition that runs, of a subscription that is paused.
const statePaused = "paused"

// of returns the state of a partition, and why nothing is decided of it.
func (p *partitionStates) of(at nameInTeam, s *partitionPosition) (state, why string) {
	state, why = p.unlessPaused(at, s)
	if p.paused != nil && state == string(owner.Running) {
		return statePaused, fmt.Sprintf("%s has paused it since %s (%s): `%s`",
			p.paused.By, p.paused.At.UTC().Format(time.RFC3339), p.paused.Reason, resumeCommand(p.by))
	}
	return state, why
}

// unlessPaused returns the state that a partition has, or would have if its subscription were not paused: what this process sees stand
// still, else its own state here, else whether any process owns it.
func (p *partitionStates) unlessPaused(at nameInTeam, s *partitionPosition) (state, why string) {
	key := partitionKey{at, s.partition.Topic, s.partition.Number}
	if i := slices.IndexFunc(p.standing, func(st standing) bool { return st.partitionKey == key }); i >= 0 {
		return p.standing[i].state, p.standing[i].why
	}
	if own, ok := p.own[key]; ok {
		if own.Err != nil {
			why = own.Err.Error()
		}
		return string(own.State), why
	}
	if s.ledger != nil && s.ledger.Owner != "" {
		return string(owner.Running), ""
	}
	return string(owner.Claiming), "no process has claimed it at this moment"
}
