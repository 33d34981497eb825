package app

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/owner"
)

// stopsAPI answers questions about stops, which every process reports to the ledger, and accepts them there.
type stopsAPI struct{ a *App }

// Subscription returns a configured subscription with the partitions that this process has, those that are stopped in any process, and their
// positions and seeks in the ledger.
func (s *stopsAPI) Subscription(ctx context.Context, team, name string) (*api.SubscriptionItem, error) {
	if err := s.a.here(nameInTeam{team, name}); err != nil {
		return nil, err
	}
	for _, item := range s.a.subscriptionItems(ctx) {
		if item.Team != team || item.Subscription != name {
			continue
		}
		l, err := s.a.stream.openLedger()
		if err != nil {
			return nil, err
		}
		found, err := l.Stops(ctx, ledger.StopFilter{Subscription: team + "." + name})
		if err != nil {
			return nil, err
		}
		for i := range found {
			addStop(&item, found[i])
		}
		addUnread(&item, s.a.waits.seen().partitions.standing)
		if err := addPositions(ctx, l, &item); err != nil {
			return nil, err
		}
		if err := s.addSeeks(ctx, &item); err != nil {
			return nil, err
		}
		slices.SortFunc(item.Partitions, func(a, b api.PartitionItem) int {
			return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
		})
		return &item, nil
	}
	return nil, schemas.Errorf(schemas.NotFound, "", "no subscription %s.%s is configured; `forebay subscriptions list -o id` lists them", team, name)
}

// addSeeks adds to the partitions of item the seeks that are asked for and not carried out yet. One that another process has is added for it.
func (s *stopsAPI) addSeeks(ctx context.Context, item *api.SubscriptionItem) error {
	all, err := (&steeringAPI{s.a}).Seeks(ctx, item.Team, item.Subscription)
	if err != nil {
		return err
	}
	for n := range all {
		seek := &all[n]
		if seek.State != api.SeekWaiting {
			continue
		}
		i := slices.IndexFunc(item.Partitions, func(p api.PartitionItem) bool { return p.Topic == seek.Topic && p.Partition == seek.Partition })
		if i < 0 {
			item.Partitions = append(item.Partitions, api.PartitionItem{Topic: seek.Topic, Partition: seek.Partition, State: string(owner.Claiming), Detail: seek.Detail})
			i = len(item.Partitions) - 1
		}
		item.Partitions[i].Seek = seek
	}
	return nil
}

// addPositions adds to each partition of item its position in the ledger, with the last seeks. If a topic was created again, rows of the
// older ones come first, and the newest replaces them. The positions of replays, in generations other than 0, are left out.
func addPositions(ctx context.Context, l *ledger.Ledger, item *api.SubscriptionItem) error {
	status, err := inbox.New(l).Subscriptions(ctx, item.Team, item.Subscription)
	if err != nil {
		return err
	}
	for _, s := range status {
		if s.Generation != 0 {
			continue
		}
		for i := range item.Partitions {
			if p := &item.Partitions[i]; p.Topic == s.Topic && p.Partition == s.Partition {
				p.Position = &api.PositionItem{NextOffset: s.NextOffset, Seeks: s.Seeks, Skipped: s.Skipped}
				for _, seek := range s.LastSeeks {
					p.Position.LastSeeks = append(p.Position.LastSeeks, api.SeekItem{From: seek.From, To: seek.To, Skipped: seek.Skipped, FoundAt: seek.FoundAt.UTC(), FoundBy: seek.Owner})
				}
			}
		}
	}
	return nil
}

// addStop adds a partition that the ledger has as stopped to item. Of a partition that this process has, its own state counts, as the ledger
// was read at another moment: the stop is added only if it is stopped here, too. Partitions of others are added later: see addUnread.
func addStop(item *api.SubscriptionItem, s ledger.Stop) {
	stopped := stopItem(s)
	for i := range item.Partitions {
		p := &item.Partitions[i]
		if p.Topic != s.Partition.Topic || p.Partition != s.Partition.Number {
			continue
		}
		if p.State == string(owner.Stopped) {
			p.Stopped = &stopped
		}
		return
	}
	item.Partitions = append(item.Partitions, api.PartitionItem{Topic: s.Partition.Topic, Partition: s.Partition.Number,
		State: string(owner.Stopped), Detail: stopped.Text, Stopped: &stopped})
}

// addUnread adds the partitions that nobody reads to item.
func addUnread(item *api.SubscriptionItem, all []standing) {
	for _, st := range all {
		if st.state != stateUnread || st.of != (nameInTeam{item.Team, item.Subscription}) {
			continue
		}
		i := slices.IndexFunc(item.Partitions, func(p api.PartitionItem) bool { return p.Topic == st.topic && p.Partition == st.number })
		if i < 0 {
			item.Partitions = append(item.Partitions, api.PartitionItem{Topic: st.topic, Partition: st.number})
			i = len(item.Partitions) - 1
		}
		p := &item.Partitions[i]
		p.State, p.Detail, p.Stopped = stateUnread, st.why, st.stop
	}
}

// Accept accepts the stops of a subscription that the request names.
func (s *stopsAPI) Accept(ctx context.Context, team, name string, r api.AcceptRequest) ([]api.StoppedItem, error) {
	if err := s.a.here(nameInTeam{team, name}); err != nil {
		return nil, err
	}
	l, err := s.a.stream.openLedger()
	if err != nil {
		return nil, err
	}
	by := ledger.Acceptance{By: cmp.Or(r.By, "unknown"), Reason: r.Reason}
	got, err := l.Accept(ctx, ledger.StopFilter{Subscription: team + "." + name, Topic: r.Topic, Partition: r.Partition, ID: r.Stop}, by, r.DryRun)
	if err != nil {
		return nil, err
	}
	items := make([]api.StoppedItem, len(got))
	for i := range got {
		items[i] = api.StoppedItem{Team: team, Subscription: name, Topic: got[i].Partition.Topic, Partition: got[i].Partition.Number, Stopped: stopItem(got[i])}
		if !r.DryRun {
			s.a.log.Warn("stop accepted", "subscription", got[i].Subscription, "topic", items[i].Topic, "partition", items[i].Partition,
				"stop", got[i].ID, "kind", got[i].Kind, "by", got[i].Accepted.By, "reason", got[i].Accepted.Reason)
		}
	}
	return items, nil
}

// stopItem returns a stop as the API has it. A negative count of records is one that nobody can tell, null.
func stopItem(s ledger.Stop) api.StopItem {
	item := api.StopItem{ID: s.ID, Kind: s.Kind, Text: owner.StopText(s), FromOffset: s.From, ToOffset: s.To, ResumeOffset: s.Resume,
		FirstAt: timeOrNull(s.FirstAt), LastAt: timeOrNull(s.LastAt), FoundAt: timeOrNull(s.FoundAt), FoundBy: s.FoundBy, Command: owner.StopCommand(s)}
	if s.Records >= 0 {
		item.Records = &s.Records
	}
	if s.Accepted != nil {
		item.Accepted = &api.AcceptedItem{At: s.Accepted.At.UTC(), By: s.Accepted.By, Reason: s.Accepted.Reason}
	}
	return item
}

// stopOf returns the stop in a partition's error; nil if the error is not a stop.
func stopOf(err error) *api.StopItem {
	if e, ok := errors.AsType[*owner.StopError](err); ok {
		item := stopItem(*e.Stop)
		return &item
	}
	return nil
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
