package app

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/ingest/producer"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/record"
	"github.com/forebay-io/forebay/stream/gate"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
)

const (
	ownerPatience  = 5 * time.Second        // how long waitForOwner waits
	firstOwnerLook = 2 * time.Millisecond   // when it looks first whether the owner has applied the command: whoever asks for many waits for each
	ownerLook      = 100 * time.Millisecond // how often it looks in the end
)

// Redrive runs an event that waits behind a gap or is held, by a command for the partition's owner; or it produces a quarantined record
// again. Or it gives up what is held, quarantined or a conflict. What can be done with other events instead is in the error.
func (i *inboxAPI) Redrive(ctx context.Context, team, subscription, source, eventID string, r api.RedriveRequest) (*api.RedriveItem, error) {
	box, item, err := i.find(ctx, team, subscription, source, eventID)
	if err != nil {
		return nil, err
	}
	r.By = cmp.Or(r.By, "unknown")
	out := &api.RedriveItem{InboxItem: item}
	switch item.Decision {
	case gate.Buffered, gate.Parked:
		err = i.askOwner(ctx, box, item, r, out)
	case gate.Quarantined:
		if r.Discard {
			err = discard(ctx, box, item, r, out)
		} else {
			err = i.produce(ctx, box, item, r, out)
		}
	case gate.Conflict:
		if err = notRedriven(item); r.Discard {
			err = discard(ctx, box, item, r, out)
		}
	default:
		err = notRedriven(item)
	}
	if err != nil {
		return nil, err
	}
	if out.State != api.StatePlanned {
		i.s.a.log.Warn("redriven", "subscription", team+"."+subscription, "topic", item.Topic, "partition", item.Partition, "offset", item.Offset,
			"event_id", item.EventID, "source", item.CESource, "reason", string(item.Reason), "action", out.Action, "state", out.State, "by", r.By, "why", r.Reason)
	}
	return out, nil
}

// notRedriven returns the error that says why an event cannot be redriven, and what can be done instead.
func notRedriven(item inbox.Item) error {
	const op = "redrive"
	switch {
	case item.Decision == gate.Conflict:
		return schemas.Errorf(schemas.Invalid, op, "another body came under its id before, and that event is the one that counts; `forebay inbox raw` shows this one, and --discard takes it off the list")
	case item.Decision == gate.Filtered && item.Reason == gate.ReasonMatch:
		return schemas.Errorf(schemas.Invalid, op, "the subscription's match leaves it out (`forebay subscriptions explain %s.%s --event %s` says by what): change match, then `%s`; what is done is skipped",
			item.Team, item.Subscription, quoted(api.EventName(&item).String()), seekTo(item))
	case item.Decision == gate.Filtered:
		return schemas.Errorf(schemas.Invalid, op, "the subscription's types leave it out: add its type there, then `%s`; what is done is skipped", seekTo(item))
	case item.Decision.Runs() && item.Status == "dead_letter":
		return schemas.Errorf(schemas.Invalid, op, "it was decided (%s) and its actions are dead letters: `forebay dlq replay %s --reason TEXT` runs them again", item.Decision, quoted(api.EventName(&item).String()))
	case item.Decision.Runs() && item.Status == "unknown":
		return schemas.Errorf(schemas.Invalid, op, "it was decided (%s), and nobody knows whether its actions were done: `forebay dlq replay %s --outcome-unknown --reason TEXT` runs them again, `forebay dlq resolve` says that they were",
			item.Decision, quoted(api.EventName(&item).String()))
	case item.Decision.Runs() && item.Status == "parked":
		return schemas.Errorf(schemas.Invalid, op, "it was decided (%s) and its actions stand behind one that is dead: `forebay dlq list --subscription %s.%s --entity %s` lists that, for `forebay dlq replay`",
			item.Decision, item.Team, item.Subscription, quoted(item.Entity))
	}
	return schemas.Errorf(schemas.Conflict, op, "it is %s (%s), %s: only what is quarantined, held or waiting behind a gap can be redriven", item.Decision, item.Reason, item.Status)
}

// seekTo is the command that moves the subscription back to an event, which it then decides again, with all behind it.
func seekTo(item inbox.Item) string {
	return fmt.Sprintf("forebay subscriptions seek %s.%s --topic %s --partition %d --to %d --reason TEXT", item.Team, item.Subscription, item.Topic, item.Partition, item.Offset)
}

// askOwner writes a command about an event that waits or is held, waits until the partition's owner has applied it, and says in out what
// came of it.
func (i *inboxAPI) askOwner(ctx context.Context, box *inbox.Inbox, item inbox.Item, r api.RedriveRequest, out *api.RedriveItem) error {
	held := item.Reason == gate.ReasonEqualHeld || item.Reason == gate.ReasonOlderHeld
	kind := ledger.Release
	out.Action, out.Detail = api.ActionRelease, "everything that waits on its version line runs, across the gap"
	if held {
		out.Detail = "it runs, alone"
	}
	if r.Discard {
		kind, out.Action, out.Detail = ledger.Discard, api.ActionDiscard, "it is discarded"
		if !held {
			return schemas.Errorf(schemas.Invalid, "discard", "it waits for its turn (%s): only what is held can be discarded; without --discard it runs", item.Reason)
		}
	}
	if r.DryRun {
		out.State = api.StatePlanned
		return nil
	}
	id, err := box.Ask(ctx, item, kind, r.By, r.Reason)
	if err != nil {
		return err
	}
	out.Command = id
	s, err := i.waitForOwner(ctx, box, id, r.NoWait)
	if err != nil {
		return err
	}
	out.State, out.Detail = stateOf(s)
	out.Owner = s.Owner
	return nil
}

// waitForOwner returns the state of a command once it has ended, which its partition's owner brings about, or after ownerPatience. With noWait, or if the
// partition has no owner, it does not wait.
func (i *inboxAPI) waitForOwner(ctx context.Context, box *inbox.Inbox, id int64, noWait bool) (inbox.CommandStatus, error) {
	until := time.NewTimer(ownerPatience)
	defer until.Stop()
	for looks := 0; ; looks++ {
		s, err := box.CommandStatus(ctx, id)
		if err != nil || s.EndedAt != nil || s.Owner == "" || noWait {
			return s, err
		}
		look := time.NewTimer(untilLook(looks))
		select {
		case <-look.C:
		case <-until.C:
			look.Stop()
			return box.CommandStatus(ctx, id)
		case <-ctx.Done():
			look.Stop()
			return s, schemas.Errorf(schemas.Unavailable, "redrive", "command %d was written, and the wait for its end was broken off: %w", id, context.Cause(ctx))
		}
	}
}

// untilLook is how long to wait for the next look of so many: an owner that is told answers within milliseconds.
func untilLook(looks int) time.Duration {
	return min(firstOwnerLook<<min(looks, 10), ownerLook)
}

// produce produces a quarantined record again, to the partition of its key, where it is decided like any other. It says in out what it
// did, or for a dry run would do.
func (i *inboxAPI) produce(ctx context.Context, box *inbox.Inbox, item inbox.Item, r api.RedriveRequest, out *api.RedriveItem) error {
	raw, _, err := box.Payload(ctx, item)
	if err != nil {
		return err
	}
	rec, err := unpack(item, raw)
	if err != nil {
		return err
	}
	if item.Reason == gate.ReasonExpression {
		if err := matchFails(subscriptionIn(i.s.a.file(), nameInTeam{item.Team, item.Subscription}), rec); err != nil {
			return err
		}
	}
	topic, err := topicOf(i.s.a.file(), item, rec)
	if err != nil {
		return err
	}
	out.Action, out.State, out.Detail = api.ActionProduce, api.StatePlanned, "it is produced to the partition of its key in "+topic+", and decided there like any other"
	if before := cmp.Or(item.Redriven, item.Discarded); before != nil && !r.Again {
		return schemas.Errorf(schemas.Conflict, "redrive", "it was %s at %s by %s already; --again redrives it", item.Status, before.At.Format(time.RFC3339), before.By)
	}
	if r.DryRun {
		return nil
	}
	p, err := i.s.writer()
	if err != nil {
		return err
	}
	out.State, out.To = api.StateDone, &api.PlaceItem{Topic: topic}
	return box.Redrive(ctx, item, r.By, r.Reason, !r.Again, func(ctx context.Context, raw []byte) error {
		rec, err := unpack(item, raw)
		if err == nil {
			record.SetRedriven(rec, redriven(time.Now(), r.By, r.Reason, names.Place{Topic: item.Topic, Partition: item.Partition, Offset: item.Offset}))
			out.To.Partition, out.To.Offset, err = fitLog{p, i.s.a}.Republish(ctx, topic, rec)
		}
		return err
	})
}

// redriven returns the note that the record of a redriven event has, for its story.
func redriven(at time.Time, by, reason string, from names.Place) schemas.Redriven {
	return schemas.Redriven{At: at, By: ledger.Clean(cmp.Or(by, "unknown"), 200), Reason: ledger.Clean(reason, 1000), From: from.String()}
}

// discard notes that an operator leaves a conflict or a quarantined record at that. Nothing waits for it, so no owner is asked.
func discard(ctx context.Context, box *inbox.Inbox, item inbox.Item, r api.RedriveRequest, out *api.RedriveItem) error {
	out.Action, out.State, out.Detail = api.ActionDiscard, api.StatePlanned, "it is discarded: it does not run, and attention lists it no more"
	if r.DryRun {
		return nil
	}
	out.State = api.StateDone
	return box.Discard(ctx, item, r.By, r.Reason)
}

// unpack returns the record that raw, the ledger's copy of a quarantined record, has in it. It is an error that says what to do instead
// if the record is not complete, or would be quarantined again.
func unpack(item inbox.Item, raw []byte) (*kgo.Record, error) {
	const op = "redrive"
	refuse := func(format string, args ...any) (*kgo.Record, error) {
		return nil, schemas.Errorf(schemas.Invalid, op, format, args...)
	}
	if item.Reason == gate.ReasonTooLarge {
		return refuse("it was too large to be kept whole: give a source a larger max_body, restart the processes and, while the topic still has it, "+
			"`%s`; what is done is skipped", seekTo(item))
	}
	rec, err := record.Unpack(raw)
	if err != nil {
		return refuse("its bytes were not kept: the database refused them; ask its producer for it, or change what refuses it, then "+
			"`%s`; what is done is skipped", seekTo(item))
	}
	if rec.Key == nil {
		return refuse("it has no key, so it belongs in no partition; its producer must send it with one (ce_partitionkey, the entity); `forebay inbox raw` shows its body")
	}
	if _, err := record.Decode(rec); err != nil {
		return refuse("it would be quarantined again: %v; `forebay inbox raw` shows its body for its producer to fix", err)
	}
	return rec, nil
}

// matchFails returns the error that says that a record would be quarantined again, because the subscription's match or dedupe.also.key still fails
// on it.
func matchFails(sub *config.Subscription, rec *kgo.Record) error {
	selects, err := selection(sub)
	if err != nil {
		return err
	}
	e, err := record.Decode(rec)
	if err == nil && selects != nil {
		_, _, err = selects(e)
	}
	if err != nil {
		return schemas.Errorf(schemas.Invalid, "redrive", "it would be quarantined again: %v; mend that of the subscription first", err)
	}
	return nil
}

// topicOf returns the topic to which a quarantined record is produced again: the one that it was read from if the subscription still reads that,
// else the topic that its source has now. A record that cannot be decoded has the first alone. Another team's topic is not written to.
func topicOf(c *config.Config, item inbox.Item, rec *kgo.Record) (string, error) {
	team := c.Teams[item.Team]
	if team == nil || team.Subscriptions[item.Subscription] == nil {
		return "", schemas.Errorf(schemas.Conflict, "redrive", "this process has no subscription %s.%s; ask one that has", item.Team, item.Subscription)
	}
	var its *config.NamedSource // the record's, if the subscription reads that source
	e, err := record.Decode(rec)
	for _, s := range c.SourcesOf(item.Team, item.Subscription) {
		if s.Topic == item.Topic {
			its = &s
			break
		}
		if err == nil && e.Source == s.URI() {
			its = &s
		}
	}
	switch {
	case its == nil:
		return "", schemas.Errorf(schemas.Invalid, "redrive", "%s.%s does not read %s any more, and none of its sources is the record's", item.Team, item.Subscription, item.Topic)
	case its.Team != item.Team:
		return "", notOurTopic(item, *its)
	}
	return its.Topic, nil
}

// notOurTopic returns the error that says why a record of another team's source is not produced again, and what can be done instead.
func notOurTopic(item inbox.Item, s config.NamedSource) error {
	instead := ""
	if item.Reason == gate.ReasonDataRejected || item.Reason == gate.ReasonExpression {
		instead = fmt.Sprintf("; or change what refuses it here, then `%s` (what is done is skipped)", seekTo(item))
	}
	return schemas.Errorf(schemas.Invalid, "redrive", "%s is team %s's topic, which %s.%s only reads: ask team %[2]s to redrive it for one of its own subscriptions%[5]s; --discard takes it off the list here",
		s.Topic, s.Team, item.Team, item.Subscription, instead)
}

// writer returns the producer for redriven records, which the first call makes.
func (s *streams) writer() (*producer.Producer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.redriver == nil {
		var err error
		if s.redriver, err = backfillProducer(s.a.file()); err != nil {
			return nil, err
		}
	}
	return s.redriver, nil
}
