package app

import (
	"context"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/reader"
	"github.com/forebay-io/forebay/stream/replay"
)

// mostNamed is how many events a plan may name: each is looked up by itself.
const mostNamed = 100

// byName narrows a plan to the events that it names, in the ids that lists print. Where it has no range, that is from the first to the last of
// them in each partition.
func (a *replaysAPI) byName(ctx context.Context, op string, at nameInTeam, r api.ReplayPlan, q *replay.Query, filter *ledger.ReplayFilter) (named []inbox.Item, err error) {
	if len(r.Events) > mostNamed {
		return nil, schemas.Errorf(schemas.Invalid, op, "%d events are named, and a plan takes %d: plan them by --entity, --type, --status or a range", len(r.Events), mostNamed)
	}
	for _, id := range r.Events {
		n, err := names.ParseEvent(id)
		if err != nil {
			return nil, err
		}
		if n.Team != at.team || n.Subscription != at.name {
			return nil, schemas.Errorf(schemas.Invalid, op, "%s is an event as %s.%s sees it: a plan is of one subscription", id, n.Team, n.Subscription)
		}
		_, item, err := a.find(ctx, n.Team, n.Subscription, n.Source, n.ID)
		if err != nil {
			return nil, err
		}
		if err := checkReplayable(op, r.Mode, id, &item, q.Topics); err != nil {
			return nil, err
		}
		// A list has an event once more for each replay that ran it again.
		if e := (ledger.ReplayEvent{Source: item.CESource, ID: item.EventID}); !slices.Contains(filter.Events, e) {
			named, filter.Events = append(named, item), append(filter.Events, e)
		}
	}
	if r.Since != nil || r.Until != nil || len(r.Offsets) > 0 {
		return named, nil
	}
	for i := range named {
		if q.Offsets == nil {
			q.Offsets = map[reader.TopicPartition]replay.Offsets{}
		}
		p, offset := reader.TopicPartition{Topic: named[i].Topic, Number: named[i].Partition}, named[i].Offset
		o, ok := q.Offsets[p]
		if !ok {
			o = replay.Offsets{From: offset, To: offset + 1}
		}
		q.Offsets[p] = replay.Offsets{From: min(o.From, offset), To: max(o.To, offset+1)}
	}
	return named, nil
}

// checkReplayable refuses what a plan of these topics cannot run. An offset below 0 is of an event whose record is gone with its topic, or with
// the end of a log that was cut.
func checkReplayable(op, mode, id string, item *inbox.Item, topics []string) error {
	switch {
	case item.EventID == "":
		return schemas.Errorf(schemas.Invalid, op, "%s is no event, and nothing of it can run: `forebay inbox get` says why", id)
	case !slices.Contains(topics, item.Topic):
		return schemas.Errorf(schemas.Invalid, op, "the record of %s is in %s, and the plan is of %s", id, item.Topic, strings.Join(topics, ", "))
	case item.Offset < 0:
		return schemas.Errorf(schemas.Conflict, op, "the log was cut since %s was decided, and another record has its offset", id)
	case mode == string(ledger.ReplayReprocess) && !slices.Contains(statusesFor(mode), item.Status):
		return schemas.Errorf(schemas.Invalid, op, "%s is %s, and would not run: %s", id, item.Status, insteadOf(mode, item.Status))
	}
	for _, a := range item.Actions {
		if mode == string(ledger.ReplayReprocess) && a.Replay != 0 && !a.Status.Closed() {
			return schemas.Errorf(schemas.Invalid, op, "%s would not run: replay %d runs it again, and its action %s there is %s: %s", id, a.Replay, a.Name, a.Status, insteadOf(mode, string(a.Status)))
		}
	}
	return nil
}

// checkNamed refuses events whose records were in a topic that was created again since.
func checkNamed(op string, named []inbox.Item, bounds []inbox.ReplayBounds) error {
	for i := range named {
		item := &named[i]
		if slices.ContainsFunc(bounds, func(b inbox.ReplayBounds) bool {
			return b.Topic == item.Topic && b.Partition == item.Partition && b.TopicID != inbox.TopicIDText(item.Pointer.TopicID)
		}) {
			return schemas.Errorf(schemas.Conflict, op, "%s was created again, and the record of %s went with the topic before", item.Topic, item.EventID)
		}
	}
	return nil
}

// eventNames are the ids of events that a plan names, as lists print them.
func eventNames(at nameInTeam, events []ledger.ReplayEvent) []string {
	list := []string{}
	for _, e := range events {
		list = append(list, names.Event{Team: at.team, Subscription: at.name, Source: strings.TrimPrefix(e.Source, "/"+at.team+"/"), ID: e.ID}.String())
	}
	return list
}
