package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/cmd/internal/names"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/stream/deadletter"
	"github.com/forebay-io/forebay/stream/inbox"
	"github.com/forebay-io/forebay/stream/ledger"
	"github.com/forebay-io/forebay/stream/policy"
	"github.com/forebay-io/forebay/stream/sink"
)

// deadLettersAPI answers questions about dead letters, and about actions with an unknown outcome, from the ledger.
type deadLettersAPI struct{ inboxAPI }

// groupLength is how long the name of a group of dead letters is.
const groupLength = 12

// query completes the filter f in place, and opens the inbox. Package names has the grammar.
func (d *deadLettersAPI) query(ctx context.Context, f *api.DeadLetterFilter) (box *inbox.Inbox, inDoubt, err error) {
	if box, _, err = d.open(); err != nil {
		return nil, nil, err
	}
	if inDoubt, err = d.resolve(ctx, box, queryNames{&f.Team, &f.Subscription, &f.Source, &f.Destination}); err != nil {
		return nil, nil, err
	}
	if err := names.OneOf("class", f.Class, deadClasses()); err != nil {
		return nil, nil, err
	}
	switch whole := len(f.Group) == groupLength; {
	case f.Group == "" || f.Cursor != "" && whole: // a group may have none any more on a further page
	case f.Cursor != "":
		return nil, nil, schemas.Errorf(schemas.Invalid, "", "group %s is cut off: a further page needs the whole name, as the items of the first page have it", f.Group)
	default:
		f.Group, err = d.group(ctx, box, f.Team, f.Group)
		err = d.s.a.hintOtherLedgers(f.Team, err)
	}
	return box, inDoubt, err
}

// none returns why there are no dead letters that a filter takes, if that is a slip: a bulk command must not look as if it had done its work.
func (d *deadLettersAPI) none(ctx context.Context, box *inbox.Inbox, f *api.DeadLetterFilter, inDoubt error) error {
	if f.Cursor != "" {
		return nil
	}
	return d.nothing(ctx, box, api.InboxFilter{Team: f.Team, Subscription: f.Subscription, Source: f.Source, Entity: f.Entity, Type: f.Type}, inDoubt)
}

// deadClasses returns the classes that dead letters may have.
func deadClasses() []string {
	list := append([]string{"unknown", ledger.DeadClass}, policy.DeadClasses()...)
	for _, c := range sink.Classes() {
		if c != sink.ClassOK {
			list = append(list, string(c))
		}
	}
	return list
}

// DeadLetters lists dead letters in lane order.
func (d *deadLettersAPI) DeadLetters(ctx context.Context, f api.DeadLetterFilter) (out api.Page[api.DeadLetterItem], err error) {
	box, inDoubt, err := d.query(ctx, &f)
	if err != nil {
		return out, err
	}
	page, err := box.DeadLetters(ctx, f)
	if err == nil && len(page.Items) == 0 {
		err = d.none(ctx, box, &f, inDoubt)
	}
	for n := range page.Items {
		out.Items = append(out.Items, deadItem(&page.Items[n]))
	}
	out.Next, out.Elsewhere = page.Next, d.s.a.leftOut(f.Team, f.Subscription)
	return out, err
}

func (d *deadLettersAPI) DeadLetterGroups(ctx context.Context, f api.DeadLetterFilter) (out api.Page[api.DeadLetterGroup], err error) {
	box, inDoubt, err := d.query(ctx, &f)
	if err == nil {
		out.Elsewhere = d.s.a.leftOut(f.Team, f.Subscription)
		out.Items, out.More, err = box.DeadLetterGroups(ctx, f)
	}
	if err == nil && len(out.Items) == 0 {
		err = d.none(ctx, box, &f, inDoubt)
	}
	return out, err
}

// named opens the inbox, and returns the id of the action that a text names.
func (d *deadLettersAPI) named(ctx context.Context, text string) (box *inbox.Inbox, id schemas.ActionID, err error) {
	if box, _, err = d.open(); err == nil {
		id, err = d.action(ctx, box, text)
	}
	return box, id, d.s.a.hintOtherLedgers("", err)
}

// DeadLetter returns one dead letter with its attempts and commands.
func (d *deadLettersAPI) DeadLetter(ctx context.Context, id string) (*api.DeadLetterDetail, error) {
	box, action, err := d.named(ctx, id)
	if err != nil {
		return nil, err
	}
	dead, err := box.DeadLetter(ctx, action)
	if err != nil {
		return nil, d.s.a.hintOtherLedgers("", err)
	}
	out := &api.DeadLetterDetail{DeadLetterItem: deadItem(&dead.DeadLetter), URL: d.urlOf(dead.Destination), History: attemptsOf(dead.History), Commands: dead.Commands}
	if out.Commands == nil {
		out.Commands = []api.CommandItem{}
	}
	return out, nil
}

// urlOf is the URL of a team's own destination; that of a shared one is for those who keep it.
func (d *deadLettersAPI) urlOf(destination string) string {
	if !strings.Contains(destination, "/") {
		return ""
	}
	return d.s.where(destination)
}

// deadItem returns a dead letter as the API has it. If no event waits behind it, behind is 0 and not null. An action that is no dead letter
// any more is of no group.
func deadItem(d *inbox.DeadLetter) api.DeadLetterItem {
	behind, atLeast := d.Behind.Counts()
	if !d.Parks {
		behind = new(int64(0))
	}
	item := api.DeadLetterItem{
		ID: string(d.ID), Team: d.Team, Subscription: d.Subscription, Generation: d.Generation, Source: strings.TrimPrefix(d.Source, "/"+d.Team+"/"),
		EventID: d.EventID, Type: d.Type, Entity: string(d.Entity), Version: d.Version, Action: d.Action, Destination: d.Destination, OnDead: string(d.OnDead),
		Status: string(d.Status), Class: d.Class, Group: d.Fingerprint, Code: int(d.Code), Error: d.Error, Response: string(d.Response), Attempts: int(d.Attempts),
		Deaths: int(d.Deaths), Flagged: d.Flagged(), Parks: d.Parks, Behind: behind, BehindAtLeast: atLeast, Asked: d.HasCommand, FirstAt: d.FirstAt, DiedAt: d.DiedAt.UTC(),
		Topic: d.Topic, Partition: d.Partition, Offset: d.Offset, Owner: d.Owner,
	}
	if !item.Dead() {
		item.Group = ""
	}
	return item
}

// AskDeadLetter writes a command for the owner of an action's partition: to run the action again, to give it up, or to take it as done.
// Unless the request says not to, it waits until the owner has applied the command, and of a replay that may be overtaken it says whether
// it was. A dry run only checks whether that may be asked.
func (d *deadLettersAPI) AskDeadLetter(ctx context.Context, id, verb string, r api.DeadLetterRequest) (*api.DeadLetterAnswer, error) {
	box, action, err := d.named(ctx, id)
	if err != nil {
		return nil, err
	}
	dead, err := box.FindDeadLetter(ctx, action)
	if err != nil {
		return nil, d.s.a.hintOtherLedgers("", err)
	}
	kind, detail, effect := ledger.Replay, ledger.CommandDetail{Force: r.Force, OutcomeUnknown: r.OutcomeUnknown}, "it runs again, and what stands behind it goes on in order"
	switch verb {
	case api.VerbDiscard:
		kind, detail, effect = ledger.Discard, ledger.CommandDetail{}, "it is discarded, and what stands behind it goes on"
	case api.VerbResolve:
		kind, detail, effect = ledger.Resolve, ledger.CommandDetail{Status: ledger.Done}, "it counts as done, and what stands behind it goes on"
	}
	abandoned := abandoned(d.s.a.file(), &dead)
	if abandoned != "" && kind == ledger.Replay {
		return nil, schemas.Errorf(schemas.Conflict, "replay "+string(dead.ID), "%s: nobody would run it. `forebay dlq discard` gives it up", abandoned)
	}
	// An action that parks its lane has nothing newer started behind it.
	mayBeOvertaken := kind == ledger.Replay && !r.Force && !dead.Parks
	if mayBeOvertaken && r.DryRun {
		effect = "it runs again" + unlessOvertaken
	}
	r.By = cmp.Or(r.By, "unknown")
	out := &api.DeadLetterAnswer{DeadLetterItem: deadItem(&dead), Verb: verb, State: api.StatePlanned, Detail: effect}
	if abandoned != "" {
		dead.HasCommand = false // that nobody carries out: this one comes in its place
	}
	if r.DryRun {
		return out, inbox.MayAsk(dead, kind, detail)
	}
	if abandoned != "" {
		out.Command, err = box.EndAbandoned(ctx, dead.ID, kind, detail, r.By, r.Reason)
	}
	if err == nil && out.Command == 0 {
		out.Command, err = box.AskAction(ctx, dead.ID, kind, detail, r.By, r.Reason)
	}
	if err != nil {
		return nil, err
	}
	s, err := d.waitForOwner(ctx, box, out.Command, r.NoWait)
	if err != nil {
		return nil, err
	}
	out.State, out.Detail = stateOf(s)
	if abandoned != "" && s.EndedAt == nil {
		out.Detail = fmt.Sprintf("%s, and %s owned the partition within the last hour: if that process is gone, ask again in an hour", abandoned, cmp.Or(s.Owner, "somebody"))
	}
	if mayBeOvertaken && s.EndedAt != nil && s.Outcome == ledger.RunsAgain {
		if err := d.watch(ctx, box, &dead, r.Watch, out); err != nil {
			return nil, err
		}
	}
	d.s.a.log.Warn("dead letter "+verb, "subscription", dead.Team+"."+dead.Subscription, "action_id", string(action), "event_id", dead.EventID, "source", dead.Source,
		"entity", dead.Entity, "destination", dead.Destination, "state", out.State, "outcome", out.Detail, "by", r.By, "why", r.Reason)
	return out, nil
}

// abandoned says why nobody is to claim a dead letter's partition any more, by the file; empty: somebody is, or will be once a team's file is mended.
func abandoned(file *config.Config, dead *inbox.DeadLetter) string {
	if isGone(file, nameInTeam{dead.Team, dead.Subscription}) {
		return fmt.Sprintf("subscription %s.%s is not configured any more", dead.Team, dead.Subscription)
	}
	t := file.Teams[dead.Team]
	if t == nil || t.Subscriptions[dead.Subscription] == nil || slices.ContainsFunc(t.Subscriptions[dead.Subscription].Sources, func(text string) bool {
		s, ok := file.SourceOf(dead.Team, text)
		return ok && s.Topic == dead.Topic || !ok && file.LeftOut(s.Team)
	}) {
		return ""
	}
	return fmt.Sprintf("%s.%s does not read %s any more", dead.Team, dead.Subscription, dead.Topic)
}

const (
	watchFor  = 2 * time.Second       // how long watch waits for an action that runs again
	watchLook = 50 * time.Millisecond // how often it looks
)

const unlessOvertaken = ", unless its entity has a newer version by now: a snapshot is stale then, and does not run; --force runs it all the same"

// watch says of a dead letter that is replayed, did not park its lane and is not forced whether it was overtaken: then it is stale, and
// did not run. What is not known when it answers, it says.
func (d *deadLettersAPI) watch(ctx context.Context, box *inbox.Inbox, dead *inbox.DeadLetter, wait bool, out *api.DeadLetterAnswer) error {
	until := time.Now().Add(watchFor)
	for {
		now, err := box.FindDeadLetter(ctx, dead.ID)
		switch {
		case schemas.KindOf(err) == schemas.NotFound: // it has ended, and its window with it
			return nil
		case err != nil:
			return err
		case now.Status == ledger.Stale:
			out.State, out.Detail = api.StateStale, "it did not run: "+now.Error
			return nil
		case now.Status != ledger.Failed || now.Attempts > dead.Attempts:
			return nil
		case !wait || time.Now().After(until):
			out.Detail += unlessOvertaken
			return nil
		}
		look := time.NewTimer(watchLook)
		select {
		case <-look.C:
		case <-ctx.Done():
			look.Stop()
			return schemas.Errorf(schemas.Unavailable, "replay", "it was asked for, and what came of it was not waited for: %w", context.Cause(ctx))
		}
	}
}

// stateOf returns the state of a command for the API, and what that means for the operator.
func stateOf(s inbox.CommandStatus) (state, detail string) {
	switch {
	case s.EndedAt != nil:
		return api.StateDone, s.Outcome
	case s.Owner == "":
		return api.StateAsked, "nobody owns the partition: it is done as soon as somebody claims it, which nobody does whose file lacks its source"
	}
	return api.StateAsked, s.Owner + " owns the partition and has not done it yet; if that process is gone, the next owner does it"
}

// DeadRecord returns a dead letter as the record that is exported of it.
func (d *deadLettersAPI) DeadRecord(ctx context.Context, id string) (*api.DeadRecord, error) {
	_, payloads, err := d.open()
	if err != nil {
		return nil, err
	}
	box, action, err := d.named(ctx, id)
	if err != nil {
		return nil, err
	}
	dead, err := box.FindDeadLetter(ctx, action)
	if err != nil {
		return nil, d.s.a.hintOtherLedgers("", err)
	}
	out := &api.DeadRecord{ID: string(action)}
	rec, lost, err := deadletter.Record(ctx, box, payloads, &dead.DeadLetter)
	if err != nil {
		return nil, err
	}
	if lost != nil {
		out.Lost = lost.Error()
	}
	out.Topic, out.Key, out.Value = rec.Topic, rec.Key, rec.Value
	for _, h := range rec.Headers {
		out.Headers = append(out.Headers, api.DeadHeader{Key: h.Key, Value: string(h.Value)})
	}
	return out, nil
}
